//! AXI4-Lite master, 32 bit: one write and one read at a time, address and data skewed at random.
use super::{Agent, Pause};
use crate::exec::Queue;
use crate::{Dut, Random};
use rocenic_sim::verilate::UintPort;

struct Write {
    address: u64,
    data: u32,
    strobes: u8,
    done: Queue<u8>,
}
struct Read {
    address: u64,
    done: Queue<(u32, u8)>,
}

/// Handle of the master.
#[derive(Clone)]
pub struct AxilMaster {
    sim: crate::exec::Sim,
    writes: Queue<std::rc::Rc<Write>>,
    reads: Queue<std::rc::Rc<Read>>,
}
impl AxilMaster {
    /// `skew`: how often a channel waits a cycle more than it must.
    #[track_caller]
    pub fn new(dut: &mut Dut, name: &str, skew: u32) -> AxilMaster {
        let sim = dut.sim();
        let handle = AxilMaster {
            writes: Queue::new(&sim, &format!("{name} writes")),
            reads: Queue::new(&sim, &format!("{name} reads")),
            sim,
        };
        let pin = |s: &str| dut.pin(&format!("{name}_{s}"));
        let pause = |s: &str| Pause::Random(dut.random(&format!("{name}_{s}")), skew);
        let agent = Master {
            name: name.into(),
            handle: handle.clone(),
            aw: Half::new(pin("awvalid"), pin("awready"), pause("aw")),
            w: Half::new(pin("wvalid"), pin("wready"), pause("w")),
            ar: Half::new(pin("arvalid"), pin("arready"), pause("ar")),
            b: Half::new(pin("bvalid"), pin("bready"), pause("b")),
            r: Half::new(pin("rvalid"), pin("rready"), pause("r")),
            awaddr: pin("awaddr"),
            wdata: pin("wdata"),
            wstrb: pin("wstrb"),
            araddr: pin("araddr"),
            bresp: pin("bresp"),
            rdata: pin("rdata"),
            rresp: pin("rresp"),
            write: None,
            read: None,
            noise: dut.random(name),
        };
        dut.add(agent);
        handle
    }
    /// Writes a word; the response code (0 is OKAY).
    pub async fn write(&self, address: u64, data: u32) -> u8 {
        self.write_strobes(address, data, 0xf).await
    }
    pub async fn write_strobes(&self, address: u64, data: u32, strobes: u8) -> u8 {
        let done = Queue::new(&self.sim, "AXI4-Lite write response");
        let w = Write {
            address,
            data,
            strobes,
            done: done.clone(),
        };
        self.writes.push(w.into());
        done.pop().await
    }
    /// Reads a word: data and response code.
    pub async fn read_resp(&self, address: u64) -> (u32, u8) {
        let done = Queue::new(&self.sim, "AXI4-Lite read response");
        let r = Read {
            address,
            done: done.clone(),
        };
        self.reads.push(r.into());
        done.pop().await
    }
    /// # Panics
    /// The response is not OKAY.
    pub async fn read(&self, address: u64) -> u32 {
        let (v, resp) = self.read_resp(address).await;
        assert_eq!(resp, 0, "read of {address:#x}: response");
        v
    }
}

/// One channel: the two handshake pins and where it stands.
struct Half {
    valid: UintPort,
    ready: UintPort,
    pause: Pause,
    /// Driven by us and standing.
    up: bool,
    moved: bool,
    done: bool,
}
impl Half {
    fn new(valid: UintPort, ready: UintPort, pause: Pause) -> Half {
        Half {
            valid,
            ready,
            pause,
            up: false,
            moved: false,
            done: true,
        }
    }
    fn sample(&mut self) {
        self.moved = self.valid.high() && self.ready.high();
    }
    /// For a channel the master sends on: true while the payload must stand on the pins.
    fn send(&mut self) -> bool {
        if std::mem::take(&mut self.moved) {
            self.up = false;
            self.done = true;
        }
        if !self.up && !self.done && !self.pause.paused() {
            self.up = true;
        }
        self.valid.set(u64::from(self.up));
        self.up
    }
}

struct Master {
    name: String,
    handle: AxilMaster,
    aw: Half,
    w: Half,
    b: Half,
    ar: Half,
    r: Half,
    awaddr: UintPort,
    wdata: UintPort,
    wstrb: UintPort,
    araddr: UintPort,
    bresp: UintPort,
    rdata: UintPort,
    rresp: UintPort,
    write: Option<std::rc::Rc<Write>>,
    read: Option<std::rc::Rc<Read>>,
    noise: Random,
}
impl Agent for Master {
    fn sample(&mut self, cycle: u64) {
        for h in [
            &mut self.aw,
            &mut self.w,
            &mut self.b,
            &mut self.ar,
            &mut self.r,
        ] {
            h.sample();
        }
        if self.b.moved {
            // A3.3.1: the response follows both handshakes
            let allowed = self.write.is_some() && self.aw.done && self.w.done;
            assert!(
                allowed,
                "cycle {cycle}: {}_bvalid before address and data were taken",
                self.name
            );
            if let Some(w) = self.write.take() {
                w.done.push(self.bresp.get() as u8);
            }
        }
        if self.r.moved {
            let allowed = self.read.is_some() && self.ar.done;
            assert!(
                allowed,
                "cycle {cycle}: {}_rvalid before the address was taken",
                self.name
            );
            if let Some(r) = self.read.take() {
                r.done
                    .push((self.rdata.get() as u32, self.rresp.get() as u8));
            }
        }
    }
    fn drive(&mut self, _: u64) {
        if self.write.is_none() {
            self.write = self.handle.writes.try_pop();
            if self.write.is_some() {
                (self.aw.done, self.w.done) = (false, false);
            }
        }
        if self.read.is_none() {
            self.read = self.handle.reads.try_pop();
            if self.read.is_some() {
                self.ar.done = false;
            }
        }
        let mut noise = || self.noise.next_u64();
        match &self.write {
            Some(w) if self.aw.send() => self.awaddr.set(w.address),
            Some(_) => self.awaddr.set(noise()),
            None => {}
        }
        match &self.write {
            Some(w) if self.w.send() => {
                self.wdata.set(w.data.into());
                self.wstrb.set(w.strobes.into());
            }
            Some(_) => self.wdata.set(noise()),
            None => {}
        }
        match &self.read {
            Some(r) if self.ar.send() => self.araddr.set(r.address),
            Some(_) => self.araddr.set(noise()),
            None => {}
        }
        for h in [&mut self.b, &mut self.r] {
            h.ready.set(u64::from(!h.pause.paused()));
        }
    }
    fn status(&self) -> String {
        let (w, r) = (self.write.is_some(), self.read.is_some());
        format!(
            "AXI4-Lite master `{}`: write under way {w}, read under way {r}",
            self.name
        )
    }
}
