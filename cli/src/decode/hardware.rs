//! The receive path of the RTL in Verilator, one frame at a time.
use anyhow::{Context, Result, bail};
use rocenic_contract::counters::Counter;
use rocenic_hdl::cfg::CELL_W;
use rocenic_hdl::roce::RxFront;
use rocenic_hdl::types::{PktRead, PortCfg, RxHdr, RxPkt};
use rocenic_sim::verilate::{AnyPort, Library, Model, Options, Port as Pin, Source, UintPort};
use rocenic_testbench::classify::Port;
use rocenic_testbench::{Value, value};
use rust_hdl_core::prelude::Block;

const BEAT: usize = 64;
/// Cycles from a frame's last beat within which the verdict must come.
const PATIENCE: usize = 64;
/// Cycles after reset in which the list of cells is built, and some more.
const WARM_UP: usize = (1 << CELL_W) + 16;
const RESET: usize = 4;

pub struct Receiver {
    model: Model,
    clock: Pin<u8>,
    reset: Pin<u8>,
    rx_valid: Pin<u8>,
    rx: AnyPort,
    port: AnyPort,
    pkt_valid: Pin<u8>,
    pkt_ready: Pin<u8>,
    pkt: AnyPort,
    rd_valid: Pin<u8>,
    rd_ready: Pin<u8>,
    rd: AnyPort,
    drop_valid: Pin<u8>,
    drop: UintPort,
}

impl Receiver {
    /// Builds the model, or takes it from the cache.
    pub fn build() -> Result<Receiver> {
        let mut block = Box::new(RxFront::default());
        block.connect_all();
        let source = Source::from_block(&*block)?;
        let library =
            Library::build(&source, &Options::default()).context("building the receive path")?;
        let model = Model::new(&library, "rx_front", 1)?;
        let mut r = Receiver {
            clock: model.port("clock")?,
            reset: model.port("reset")?,
            rx_valid: model.port("rx_valid")?,
            rx: model.any_port("rx")?,
            port: model.any_port("port")?,
            pkt_valid: model.port("pkt_valid")?,
            pkt_ready: model.port("pkt_ready")?,
            pkt: model.any_port("pkt")?,
            rd_valid: model.port("rd_valid")?,
            rd_ready: model.port("rd_ready")?,
            rd: model.any_port("rd")?,
            drop_valid: model.port("drop_valid")?,
            drop: model.uint_port("drop")?,
            model,
        };
        for p in [&r.rx_valid, &r.pkt_ready, &r.rd_valid] {
            p.set(0);
        }
        r.model.port::<u8>("b_ready")?.set(1);
        r.reset.set(1);
        (0..RESET).for_each(|_| r.edge());
        r.reset.set(0);
        (0..WARM_UP).for_each(|_| r.edge());
        Ok(r)
    }

    /// Falling edge: outputs settle.
    fn settle(&mut self) {
        self.clock.set(0);
        self.model.eval();
    }
    fn edge(&mut self) {
        self.settle();
        self.clock.set(1);
        self.model.eval();
    }

    /// What the RTL makes of a frame that comes to `port`.
    pub fn judge(&mut self, frame: &[u8], port: Port) -> Result<Result<Value<RxHdr>, Counter>> {
        self.port.set(&value::pack(&PortCfg {
            mac: port.mac.into(),
            ipv4: u64::from(port.ipv4).into(),
            enable: true,
        }));
        let beats = frame.chunks(BEAT).count();
        let mut waited = 0;
        for (i, c) in frame.chunks(BEAT).enumerate() {
            self.rx.set(&beat(c, i + 1 == beats));
            self.rx_valid.set(1);
            self.edge();
        }
        self.rx_valid.set(0);
        while waited < PATIENCE {
            self.settle();
            if self.drop_valid.high() {
                let n = self.drop.get() as usize;
                let why = Counter::ALL.get(n).copied();
                self.edge();
                let why = why.with_context(|| {
                    format!("the RTL dropped a frame as counter {n}, which does not exist")
                })?;
                return Ok(Err(why));
            }
            if self.pkt_valid.high() {
                let pkt = Value::<RxPkt>::new(self.pkt.get(), 0);
                let hdr = Value::new(pkt.field_words("hdr"), 0);
                self.pkt_ready.set(1);
                self.edge();
                self.pkt_ready.set(0);
                self.free(pkt.field("head"))?;
                return Ok(Ok(hdr));
            }
            self.edge();
            waited += 1;
        }
        bail!(
            "the RTL gave no verdict within {PATIENCE} cycles on a frame of {} bytes",
            frame.len()
        )
    }

    fn free(&mut self, head: u64) -> Result<()> {
        self.rd.set(&value::pack(&PktRead {
            head: head.into(),
            payload_at: 0u64.into(),
            len: 0u64.into(),
        }));
        self.rd_valid.set(1);
        for _ in 0..PATIENCE {
            self.settle();
            let taken = self.rd_ready.high();
            self.edge();
            if taken {
                self.rd_valid.set(0);
                return Ok(());
            }
        }
        bail!("the RTL's packet buffer takes no command")
    }
}

/// The bits of a `Beat`: data, number of bytes, last, no error.
fn beat(bytes: &[u8], last: bool) -> Vec<u64> {
    let word = |c: &[u8]| c.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b));
    let mut words: Vec<u64> = bytes.chunks(8).map(word).collect();
    words.resize(BEAT / 8, 0);
    words.push(bytes.len() as u64 | u64::from(last) << 7);
    words
}
