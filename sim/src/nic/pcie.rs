//! The PCIe host as the device's AXI4 master sees it: latency, reordering, limited throughput, responses.
//!
//! Read data comes after a random latency, bursts of different IDs interleaved and reordered; one 64-byte beat a cycle
//! each way is the 16 GB/s of payload of the budgets. A write changes memory in the cycle of its response.
use super::memory::{BlockedWrite, LINE, Memory, bytes, words};
use super::pins::{AddressPins, AxiMasterPins};
use super::random::Random;
use std::collections::VecDeque;
use std::ops::Range;

const BEAT: u64 = 64;
const OKAY: u64 = 0;
const DECERR: u64 = 3;

/// How the host behaves. Times are cycles of 4 ns.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Address handshake to first data beat.
    pub read_latency: Range<u64>,
    /// Last data beat to response.
    pub write_latency: Range<u64>,
    /// Cycles in 1024 in which a write data beat is not taken.
    pub write_pause: u32,
    /// Extra cycles in 1024 without read data: what TLP headers cost when they are charged.
    pub read_pause: u32,
    /// MMIO write: processor to device.
    pub mmio_latency: u64,
    /// Bursts the host has open at most, each way.
    pub open: usize,
    pub blocked_write: BlockedWrite,
}
impl Default for HostConfig {
    fn default() -> Self {
        HostConfig {
            read_latency: 150..250,
            write_latency: 50..150,
            write_pause: 16,
            read_pause: 0,
            mmio_latency: 75,
            open: 256,
            blocked_write: BlockedWrite::DecErr,
        }
    }
}
impl HostConfig {
    /// The same with every transfer charged 24 bytes of TLP header for each 256 bytes of payload.
    pub fn with_tlp_headers(self) -> Self {
        let pause = 1024 * 24 / (256 + 24);
        HostConfig {
            read_pause: pause,
            write_pause: self.write_pause + pause,
            ..self
        }
    }
}

struct ReadBurst {
    id: u64,
    at: u64,
    left: u64,
    due: u64,
}
struct WriteBurst {
    id: u64,
    at: u64,
    beats: u64,
    data: Vec<([u64; 8], u64)>,
    due: u64,
}

pub(super) struct Pcie {
    config: HostConfig,
    memory: Box<dyn Memory>,
    random: Random,
    reads: Vec<ReadBurst>,
    /// The read burst whose beat stands on the pins.
    r_up: Option<usize>,
    /// Write addresses that wait for data, oldest first; then writes that wait for their response.
    filling: VecDeque<WriteBurst>,
    writes: Vec<WriteBurst>,
    b_up: bool,
    pub read_beats: u64,
    pub write_beats: u64,
    /// Writes that have changed memory and are answered.
    pub writes_done: u64,
}
impl Pcie {
    pub fn new(config: HostConfig, memory: Box<dyn Memory>, seed: u64) -> Pcie {
        Pcie {
            config,
            memory,
            random: Random::new(seed),
            reads: vec![],
            r_up: None,
            filling: VecDeque::new(),
            writes: vec![],
            b_up: false,
            read_beats: 0,
            write_beats: 0,
            writes_done: 0,
        }
    }
    pub fn config(&self) -> &HostConfig {
        &self.config
    }
    pub fn set_config(&mut self, config: HostConfig) {
        self.config = config;
    }
    pub fn idle(&self) -> bool {
        self.reads.is_empty() && self.filling.is_empty() && self.writes.is_empty()
    }
    /// Settled signals before the rising edge.
    pub fn sample(&mut self, p: &AxiMasterPins, cycle: u64) {
        if let Some(i) = self.r_up
            && p.rready.high()
        {
            self.r_up = None;
            self.read_beats += 1;
            let r = &mut self.reads[i];
            r.left -= 1;
            r.at += BEAT;
            if r.left == 0 {
                self.reads.remove(i);
            }
        }
        if self.b_up && p.bready.high() {
            self.b_up = false;
        }
        let taken = |a: &AddressPins| a.valid.high() && a.ready.high();
        if taken(&p.ar) {
            let due = cycle + self.random.within(&self.config.read_latency);
            self.reads.push(ReadBurst {
                id: p.ar.id.get(),
                at: p.ar.addr.get() / BEAT * BEAT,
                left: p.ar.len.get() + 1,
                due,
            });
        }
        if taken(&p.aw) {
            self.filling.push_back(WriteBurst {
                id: p.aw.id.get(),
                at: p.aw.addr.get() / BEAT * BEAT,
                beats: p.aw.len.get() + 1,
                data: vec![],
                due: 0,
            });
        }
        if p.wvalid.high() && p.wready.high() {
            self.write_beats += 1;
            // WREADY is offered only to a burst whose address is here
            if let Some(w) = self.filling.front_mut() {
                w.data.push((p.wdata.get(), p.wstrb.get()));
                if w.data.len() as u64 == w.beats
                    && let Some(mut w) = self.filling.pop_front()
                {
                    w.due = cycle + self.random.within(&self.config.write_latency);
                    self.writes.push(w);
                }
            }
        }
    }
    /// New inputs after the rising edge.
    pub fn drive(&mut self, p: &AxiMasterPins, cycle: u64) {
        self.drive_reads(p, cycle);
        self.drive_writes(p, cycle);
        p.ar.ready
            .set(u64::from(self.reads.len() < self.config.open));
        p.aw.ready.set(u64::from(
            self.filling.len() + self.writes.len() < self.config.open,
        ));
        let pause = self.random.below(1024) < u64::from(self.config.write_pause);
        p.wready.set(u64::from(!self.filling.is_empty() && !pause));
    }
    /// One of the bursts that may answer: the first of its ID, and due.
    fn pick(
        random: &mut Random,
        all: impl Iterator<Item = (u64, u64)>,
        cycle: u64,
    ) -> Option<usize> {
        let mut seen = [0u64; 4];
        let mut may = [0u16; 64];
        let mut n = 0;
        for (i, (id, due)) in all.enumerate() {
            let (w, b) = ((id / 64 % 4) as usize, id % 64);
            if seen[w] >> b & 1 == 0 && due <= cycle && n < may.len() {
                may[n] = i as u16;
                n += 1;
            }
            seen[w] |= 1 << b;
        }
        (n > 0).then(|| may[random.below(n as u64) as usize] as usize)
    }
    fn drive_reads(&mut self, p: &AxiMasterPins, cycle: u64) {
        if self.r_up.is_some() {
            return;
        }
        let pause = self.config.read_pause > 0
            && self.random.below(1024) < u64::from(self.config.read_pause);
        if !pause && self.reads.iter().any(|r| r.due <= cycle) {
            self.r_up = Self::pick(
                &mut self.random,
                self.reads.iter().map(|r| (r.id, r.due)),
                cycle,
            );
        }
        p.rvalid.set(u64::from(self.r_up.is_some()));
        if let Some(i) = self.r_up {
            let r = &self.reads[i];
            let mut line = [0xff; LINE];
            let ok = self.memory.read(r.at, &mut line);
            p.rid.set(r.id);
            p.rdata.set(words(&line));
            p.rresp.set(if ok { OKAY } else { DECERR });
            p.rlast.set(u64::from(r.left == 1));
        }
    }
    fn drive_writes(&mut self, p: &AxiMasterPins, cycle: u64) {
        if !self.b_up
            && self.writes.iter().any(|w| w.due <= cycle)
            && let Some(i) = Self::pick(
                &mut self.random,
                self.writes.iter().map(|w| (w.id, w.due)),
                cycle,
            )
        {
            let w = self.writes.remove(i);
            let mut ok = true;
            for (k, (data, strobe)) in w.data.iter().enumerate() {
                ok &= *strobe == 0
                    || self
                        .memory
                        .write(w.at + k as u64 * BEAT, &bytes(data), *strobe);
            }
            self.writes_done += 1;
            p.bid.set(w.id);
            let vanish = self.config.blocked_write == BlockedWrite::Vanish;
            p.bresp.set(if ok || vanish { OKAY } else { DECERR });
            self.b_up = true;
        }
        p.bvalid.set(u64::from(self.b_up));
    }
}
