//! One simulated NIC in its host: the Verilated `roce_nic`, the bus to host memory, MMIO, interrupts, and a MAC.
//!
//! Timing of a clock: inputs stand since the last rising edge; the low phase settles outputs; handshakes are sampled;
//! the high phase moves the registers; new inputs are driven. Nothing reads a `ready` that has not settled.
mod log;
mod mac;
mod memory;
mod mmio;
mod pcie;
mod pins;
mod random;

pub use log::{Address, Arrived, PortLog};
pub use mac::{MIN_FRAME, OVERHEAD_BYTES, Pace, WireFrame};
pub use memory::{BlockedWrite, LINE, Memory};
pub use pcie::HostConfig;
pub use random::Random;

use crate::verilate::{Error as BuildError, Library, Model, Options, Source, UintPort};
use mac::Mac;
use mmio::Mmio;
use pcie::Pcie;
use pins::{AxiMasterPins, MacPins, MmioPins};
use rocenic_contract::regs;
use std::path::PathBuf;
use std::sync::Arc;

/// Cycles a register read may take; the device answers in a few.
pub const READ_LIMIT: u64 = 10_000;
/// Half a clock in the waveform's time unit (ps): 250 MHz.
const HALF_CLOCK_PS: u64 = 2_000;
/// Nanoseconds of a cycle.
pub const CYCLE_NS: u64 = 4;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(
        "the device did not answer the read of BAR0 {addr:#x} within {READ_LIMIT} cycles: its registers hang"
    )]
    ReadHangs { addr: u64 },
    #[error("the device broke the rules of its MAC interface: {0}")]
    Mac(String),
    #[error("the NIC's RTL cannot be printed: {0}")]
    Emit(String),
}

/// A simulated NIC and its host.
#[derive(Clone, Debug, Default)]
pub struct NicConfig {
    /// One seed, one run.
    pub seed: u64,
    pub host: HostConfig,
    pub pace: Pace,
    /// Waveform of this many cycles from the first send doorbell on (the library must be built with tracing).
    pub trace: Option<(PathBuf, u64)>,
    /// Begins the waveform in this cycle instead.
    pub trace_at: Option<u64>,
}

/// Stack of the thread that elaborates the NIC: the block tree is built by value.
const ELABORATION_STACK: usize = 256 << 20;

/// The SystemVerilog of the whole NIC.
pub fn source() -> Result<Source, Error> {
    let elaborate = || Source::from_block(&rocenic_hdl::top::roce_nic::default());
    std::thread::scope(|s| {
        let thread = std::thread::Builder::new()
            .stack_size(ELABORATION_STACK)
            .spawn_scoped(s, elaborate);
        let thread = thread.map_err(|e| Error::Emit(e.to_string()))?;
        match thread.join() {
            Ok(r) => Ok(r?),
            Err(_) => Err(Error::Emit("elaboration panicked".into())),
        }
    })
}
/// Builds the model of the whole NIC, from the cache when it is there.
pub fn library(trace: bool) -> Result<Arc<Library>, Error> {
    Ok(Library::build(
        &source()?,
        &Options {
            trace_fst: trace,
            ..Options::default()
        },
    )?)
}

pub struct Nic {
    model: Model,
    clk: UintPort,
    axi: AxiMasterPins,
    mmio_pins: MmioPins,
    mac_pins: MacPins,
    irq_valid: UintPort,
    irq_vector: UintPort,
    bus_master: UintPort,
    flr_req: UintPort,
    flr_done: UintPort,
    timers_armed: UintPort,
    pcie: Pcie,
    mmio: Mmio,
    mac: Mac,
    cycle: u64,
    /// Interrupts since they were last taken, by vector.
    irqs: Vec<u64>,
    log: Option<PortLog>,
    trace: Option<(PathBuf, u64)>,
    trace_at: Option<u64>,
    /// The waveform is to begin; the cycle it ends.
    begin_trace: bool,
    end_trace: u64,
}
impl Nic {
    /// Loads a model and resets it.
    pub fn new(
        library: &Arc<Library>,
        name: &str,
        memory: Box<dyn Memory>,
        config: NicConfig,
    ) -> Result<Nic, Error> {
        let model = Model::new(library, name, config.seed as u32)?;
        let mut nic = Nic {
            clk: model.uint_port("clk")?,
            axi: AxiMasterPins::find(&model)?,
            mmio_pins: MmioPins::find(&model)?,
            mac_pins: MacPins::find(&model)?,
            irq_valid: model.uint_port("irq_valid")?,
            irq_vector: model.uint_port("irq_vector")?,
            bus_master: model.uint_port("bus_master_enable")?,
            flr_req: model.uint_port("flr_req")?,
            flr_done: model.uint_port("flr_done")?,
            timers_armed: model.uint_port("timers_armed")?,
            pcie: Pcie::new(config.host, memory, config.seed),
            mmio: Mmio::new(),
            mac: Mac::new(config.pace),
            cycle: 0,
            irqs: vec![0; rocenic_contract::caps::VECTORS],
            log: None,
            trace: config.trace,
            trace_at: config.trace_at,
            begin_trace: false,
            end_trace: 0,
            model,
        };
        let rst = nic.model.uint_port("rst")?;
        nic.bus_master.set(1);
        nic.model.uint_port("irq_ready")?.set(1);
        rst.set(1);
        for _ in 0..4 {
            nic.edge();
        }
        rst.set(0);
        nic.drive();
        Ok(nic)
    }
    /// Clocks since reset.
    pub fn cycle(&self) -> u64 {
        self.cycle
    }
    fn edge(&mut self) {
        self.clk.set(0);
        self.model.eval();
        self.model.trace_dump(self.cycle * 2 * HALF_CLOCK_PS);
        self.clk.set(1);
        self.model.eval();
        self.model.trace_dump((self.cycle * 2 + 1) * HALF_CLOCK_PS);
    }
    fn drive(&mut self) {
        self.pcie.drive(&self.axi, self.cycle);
        self.mmio.drive(&self.mmio_pins, self.cycle);
        self.mac.drive(&self.mac_pins, self.cycle);
    }
    /// One clock.
    pub fn step(&mut self) -> Result<(), Error> {
        self.window()?;
        self.clk.set(0);
        self.model.eval();
        self.model.trace_dump(self.cycle * 2 * HALF_CLOCK_PS);
        if let Some(log) = &mut self.log {
            log.sample(&self.axi, &self.mmio_pins, &self.mac_pins, self.cycle);
        }
        self.pcie.sample(&self.axi, self.cycle);
        self.mmio.sample(&self.mmio_pins, self.cycle);
        self.mac.sample(&self.mac_pins, self.cycle);
        if self.irq_valid.high() {
            let v = self.irq_vector.get() as usize;
            self.irqs[v] += 1;
        }
        self.clk.set(1);
        self.model.eval();
        self.model.trace_dump((self.cycle * 2 + 1) * HALF_CLOCK_PS);
        self.cycle += 1;
        self.drive();
        match self.mac.fault.take() {
            Some(f) => Err(Error::Mac(f)),
            None => Ok(()),
        }
    }
    /// Opens and closes the waveform at the ends of its window.
    fn window(&mut self) -> Result<(), Error> {
        let posted = std::mem::take(&mut self.begin_trace);
        if self.trace_at.map_or(posted, |at| self.cycle >= at)
            && let Some((path, cycles)) = self.trace.take()
        {
            self.model.trace_open(&path)?;
            self.end_trace = self.cycle + cycles;
        } else if self.cycle == self.end_trace {
            self.model.trace_close();
        }
        Ok(())
    }
    /// The waveform, if one is asked for, begins now.
    pub fn begin_trace(&mut self) {
        self.begin_trace = true;
    }
    /// Posts a register write; it reaches the device after the MMIO latency, in order.
    pub fn write32(&mut self, addr: u64, data: u32) {
        let due = self.cycle + self.pcie.config().mmio_latency;
        // any doorbell page's SQ register
        self.begin_trace |=
            addr >= regs::DOORBELL_BASE && addr % regs::PAGE_BYTES == regs::doorbell::SQ;
        self.mmio.write(due, addr, data);
    }
    /// Posts a write-combined 64-byte store to the push window; `strobe` has a bit for each byte that is there.
    pub fn push(&mut self, addr: u64, bytes: &[u8; 64], strobe: u64) {
        let due = self.cycle + self.pcie.config().mmio_latency;
        self.begin_trace = true;
        self.mmio.push(due, addr, memory::words(bytes), strobe);
    }
    /// Begins a register read; [`Nic::read_data`] has the answer when it is there.
    pub fn start_read(&mut self, addr: u64) {
        let due = self.cycle + self.pcie.config().mmio_latency;
        self.mmio.read_data = None;
        self.mmio.read(due, addr);
    }
    pub fn read_data(&mut self) -> Option<u32> {
        self.mmio.read_data.take()
    }
    /// Interrupts of a vector since the last call.
    pub fn take_interrupts(&mut self, vector: usize) -> u64 {
        self.irqs.get_mut(vector).map_or(0, std::mem::take)
    }
    /// Some vector was asked for and not taken.
    pub fn interrupt_pending(&self) -> bool {
        self.irqs.iter().any(|n| *n > 0)
    }
    /// Frames the device has finished sending, oldest first.
    pub fn sent(&mut self) -> impl Iterator<Item = WireFrame> + '_ {
        self.mac.sent.drain(..)
    }
    /// A frame arrives: its first beat not before cycle `at`. Frames of the same time arrive in the order of the calls.
    pub fn deliver(&mut self, at: u64, mut bytes: Vec<u8>) {
        if bytes.len() < MIN_FRAME {
            bytes.resize(MIN_FRAME, 0);
        }
        self.mac.arrive(at, bytes);
    }
    /// Nothing moves outside the device: no MMIO, DMA or frame is under way.
    pub fn quiet(&self) -> bool {
        self.pcie.idle() && self.mmio.idle() && self.mac.idle()
    }
    /// Accesses of the processor that the device has not taken.
    pub fn mmio_waiting(&self) -> usize {
        self.mmio.waiting()
    }
    /// Nothing will happen until somebody from outside does something: all is quiet and no timer runs.
    pub fn at_rest(&self) -> bool {
        self.quiet() && !self.timers_armed.high()
    }
    /// The host allows the device to be bus master, or not.
    pub fn set_bus_master(&mut self, on: bool) {
        self.bus_master.set(u64::from(on));
    }
    /// Asks for a function-level reset, or takes the request back once [`Nic::reset_done`] says that it is through.
    /// Accesses of the processor that wait are thrown away.
    pub fn request_reset(&mut self, on: bool) {
        self.mmio.abandon();
        self.flr_req.set(u64::from(on));
    }
    pub fn reset_done(&self) -> bool {
        self.flr_done.high()
    }
    /// Counters of the ports: beats read, written, sent.
    pub fn beats(&self) -> (u64, u64, u64) {
        (
            self.pcie.read_beats,
            self.pcie.write_beats,
            self.mac.tx_beats,
        )
    }
    /// Writes of the device that are in memory.
    pub fn writes_done(&self) -> u64 {
        self.pcie.writes_done
    }
    /// For latency measurements: cycle in which the last pushed WQE was taken.
    pub fn last_push(&self) -> Option<u64> {
        self.mmio.last_push
    }
    /// For latency measurements: cycle of the first beat offered to the MAC since [`Nic::arm_first_tx_beat`].
    pub fn first_tx_beat(&self) -> Option<u64> {
        self.mac.first_tx_beat
    }
    pub fn arm_first_tx_beat(&mut self) {
        self.mac.first_tx_beat = None;
    }
    /// Clocks the model and nothing around it, to know what the rest costs. The host and the line stand still, so the
    /// device is of no use afterwards.
    pub fn bare_clocks(&mut self, n: u64) {
        for _ in 0..n {
            self.clk.set(0);
            self.model.eval();
            self.clk.set(1);
            self.model.eval();
        }
    }
    /// Begins to log what happens on the ports, with an empty log.
    pub fn record(&mut self) {
        self.log = Some(PortLog::default());
    }
    /// What was logged since [`Nic::record`]; logging ends.
    pub fn recorded(&mut self) -> PortLog {
        self.log.take().unwrap_or_default()
    }
    /// The host behaves like this from now on.
    pub fn set_host(&mut self, host: HostConfig) {
        self.pcie.set_config(host);
    }
    /// Frames to deliver that have not begun.
    pub fn arriving(&self) -> usize {
        self.mac.arriving.len()
    }
    pub fn trace_close(&mut self) {
        self.model.trace_close();
    }
}
