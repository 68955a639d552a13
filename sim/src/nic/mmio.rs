//! The processor's accesses to the device's BARs, in order, as PCIe carries them: writes are posted, a read pushes them.
use super::pins::MmioPins;
use std::collections::VecDeque;

enum Access {
    Write {
        addr: u64,
        data: u32,
    },
    Push {
        addr: u64,
        data: [u64; 8],
        strobe: u64,
    },
    Read {
        addr: u64,
    },
}

/// What stands on the pins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Up {
    Nothing,
    Write { addr: bool, data: bool },
    Push { addr: bool, data: bool },
    Read,
    ReadData,
}

pub(super) struct Mmio {
    queue: VecDeque<(u64, Access)>,
    up: Up,
    pub read_data: Option<u32>,
    /// Cycle in which the last pushed beat was taken.
    pub last_push: Option<u64>,
}
impl Mmio {
    pub fn new() -> Mmio {
        Mmio {
            queue: VecDeque::new(),
            up: Up::Nothing,
            read_data: None,
            last_push: None,
        }
    }
    pub fn idle(&self) -> bool {
        self.queue.is_empty() && self.up == Up::Nothing
    }
    /// Accesses that have not reached the pins.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }
    /// Forgets what has not reached the pins.
    pub fn abandon(&mut self) {
        self.queue.clear();
    }
    pub fn write(&mut self, due: u64, addr: u64, data: u32) {
        self.queue.push_back((due, Access::Write { addr, data }));
    }
    pub fn push(&mut self, due: u64, addr: u64, data: [u64; 8], strobe: u64) {
        self.queue
            .push_back((due, Access::Push { addr, data, strobe }));
    }
    pub fn read(&mut self, due: u64, addr: u64) {
        self.queue.push_back((due, Access::Read { addr }));
    }
    pub fn sample(&mut self, p: &MmioPins, cycle: u64) {
        self.up = match self.up {
            Up::Write { addr, data } => {
                let addr = addr || p.awready.high();
                let data = data || p.wready.high();
                if addr && data {
                    Up::Nothing
                } else {
                    Up::Write { addr, data }
                }
            }
            Up::Push { addr, data } => {
                let addr = addr || p.push_awready.high();
                if !data && p.push_wready.high() {
                    self.last_push = Some(cycle);
                }
                let data = data || p.push_wready.high();
                if addr && data {
                    Up::Nothing
                } else {
                    Up::Push { addr, data }
                }
            }
            Up::Read if p.arready.high() => Up::ReadData,
            Up::ReadData if p.rvalid.high() => {
                self.read_data = Some(p.rdata.get() as u32);
                Up::Nothing
            }
            up => up,
        };
    }
    pub fn drive(&mut self, p: &MmioPins, cycle: u64) {
        p.bready.set(1);
        p.push_bready.set(1);
        p.rready.set(1);
        if self.up == Up::Nothing
            && self.queue.front().is_some_and(|(due, _)| *due <= cycle)
            && let Some((_, a)) = self.queue.pop_front()
        {
            self.up = match a {
                Access::Write { addr, data } => {
                    p.awaddr.set(addr);
                    p.wdata.set(data.into());
                    p.wstrb.set(0xf);
                    Up::Write {
                        addr: false,
                        data: false,
                    }
                }
                Access::Push { addr, data, strobe } => {
                    p.push_awaddr.set(addr);
                    p.push_wdata.set(data);
                    p.push_wstrb.set(strobe);
                    p.push_wlast.set(1);
                    Up::Push {
                        addr: false,
                        data: false,
                    }
                }
                Access::Read { addr } => {
                    p.araddr.set(addr);
                    Up::Read
                }
            };
        }
        p.awvalid
            .set(u64::from(matches!(self.up, Up::Write { addr: false, .. })));
        p.wvalid
            .set(u64::from(matches!(self.up, Up::Write { data: false, .. })));
        p.push_awvalid
            .set(u64::from(matches!(self.up, Up::Push { addr: false, .. })));
        p.push_wvalid
            .set(u64::from(matches!(self.up, Up::Push { data: false, .. })));
        p.arvalid.set(u64::from(self.up == Up::Read));
    }
}
