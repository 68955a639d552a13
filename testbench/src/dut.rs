//! A RustHDL block in Verilator, with clock, reset, tasks and agents.
use crate::bfm::{Agent, ChannelSink, ChannelSource, Pause};
use crate::exec::{Clock, Sim};
use crate::{Random, Value, value};
use rocenic_sim::verilate::{
    AnyPort, Library, Model, Options, Port, PortSpec, PortValue, Source, UintPort,
};
use rust_hdl_core::prelude::{Block, Synth};
use std::collections::HashMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

/// Clock period in picoseconds: 250 MHz.
pub const PERIOD: u64 = 4000;
/// Cycles without any queue traffic or finished task after which `run` gives up.
const STUCK: u64 = 200_000;
/// Cycles after a reset in which nothing may be offered: more than any block has stages.
const QUIET: u64 = 32;

/// The device under test. Methods panic with the name of what is wrong: a test cannot go on without its DUT.
pub struct Dut {
    model: Model,
    clock: Port<u8>,
    reset: Option<UintPort>,
    sim: Sim,
    ticks: Clock,
    agents: Vec<Box<dyn Agent>>,
    ports: HashMap<String, AnyPort>,
    random: Random,
    /// Inputs were written since the last `eval`.
    dirty: bool,
    stuck: u64,
}

/// How a DUT is built.
pub struct Setup {
    pub options: Options,
    pub seed: u64,
}
impl Default for Setup {
    /// Random initial values by the test's seed; waveforms when `ROCENIC_WAVE` is set.
    fn default() -> Self {
        Setup {
            options: Options {
                trace_fst: std::env::var_os("ROCENIC_WAVE").is_some(),
                ..Options::default()
            },
            seed: Random::seed(1),
        }
    }
}

impl Dut {
    /// Connects, emits and builds the block. Its clock is called `clock` or `clk`, its reset `reset` or `rst`.
    #[track_caller]
    pub fn new<B: Block>(block: B) -> Dut {
        Dut::with(block, Setup::default())
    }

    #[track_caller]
    pub fn with<B: Block>(block: B, setup: Setup) -> Dut {
        let mut block = Box::new(block);
        block.connect_all();
        let source = Source::from_block(&*block).unwrap_or_else(|e| panic!("{e}"));
        Dut::from_source(&source, setup)
    }

    /// For Verilog that exists already.
    #[track_caller]
    pub fn from_source(source: &Source, setup: Setup) -> Dut {
        let library = Library::build(source, &setup.options).unwrap_or_else(|e| panic!("{e}"));
        let random = Random::new(setup.seed);
        let seed = random.fork("initial values").next_u64() as u32;
        let mut model = Model::new(&library, "dut", seed).unwrap_or_else(|e| panic!("{e}"));
        if setup.options.trace_fst {
            let file = wave_file(&source.top);
            println!("waveform {}", file.display());
            model.trace_open(&file).unwrap_or_else(|e| panic!("{e}"));
        }
        let clock = model
            .port("clock")
            .or_else(|_| model.port("clk"))
            .unwrap_or_else(|e| panic!("no clock: {e}"));
        let reset = model
            .uint_port("reset")
            .or_else(|_| model.uint_port("rst"))
            .ok();
        let sim = Sim::new();
        let ports = model.ports().iter().map(|p| {
            let port = model.any_port(&p.name).unwrap_or_else(|e| panic!("{e}"));
            // inputs nobody drives are 0
            if p.input {
                port.set(&[]);
            }
            (p.name.clone(), port)
        });
        Dut {
            ports: ports.collect(),
            ticks: sim.clock(),
            sim,
            clock,
            reset,
            model,
            agents: vec![],
            random,
            dirty: true,
            stuck: STUCK,
        }
    }

    pub fn sim(&self) -> Sim {
        self.sim.clone()
    }
    pub fn clock(&self) -> Clock {
        self.ticks.clone()
    }
    pub fn model(&mut self) -> &mut Model {
        &mut self.model
    }
    /// Rising edges so far.
    pub fn cycle(&self) -> u64 {
        self.ticks.count()
    }
    /// Random numbers of the test's seed for the part called `what`.
    pub fn random(&self, what: &str) -> Random {
        self.random.fork(what)
    }
    pub fn has_port(&self, name: &str) -> bool {
        self.ports.contains_key(name)
    }
    /// Cycles without movement after which `run` reports who waits for what.
    pub fn set_watchdog(&mut self, cycles: u64) {
        self.stuck = cycles;
    }

    /// A typed port, for hot code.
    #[track_caller]
    pub fn port<T: PortValue>(&self, name: &str) -> Port<T> {
        self.model.port(name).unwrap_or_else(|e| panic!("{e}"))
    }
    /// A port of up to 64 bits.
    #[track_caller]
    pub fn pin(&self, name: &str) -> UintPort {
        self.model.uint_port(name).unwrap_or_else(|e| panic!("{e}"))
    }
    #[track_caller]
    fn any(&self, name: &str) -> &AnyPort {
        self.ports
            .get(name)
            .unwrap_or_else(|| match self.model.any_port(name) {
                Err(e) => panic!("{e}"),
                Ok(_) => unreachable!("every port is in the table"),
            })
    }

    /// Writes an input of at most 64 bits.
    #[track_caller]
    pub fn set(&mut self, name: &str, v: u64) {
        self.set_words(name, &[v]);
    }
    #[track_caller]
    pub fn set_words(&mut self, name: &str, words: &[u64]) {
        self.any(name).set(words);
        self.dirty = true;
    }
    /// Writes an input that carries a struct.
    #[track_caller]
    pub fn put<T: Synth>(&mut self, name: &str, v: &T) {
        let p = self.any(name);
        assert_eq!(p.width(), T::BITS, "port `{name}`: width against the type");
        p.set(&value::pack(v));
        self.dirty = true;
    }
    /// Reads a port of at most 64 bits, settled.
    #[track_caller]
    pub fn get(&mut self, name: &str) -> u64 {
        let w = self.words(name);
        assert!(
            w.len() == 1,
            "port `{name}` is wider than 64 bits: use `words`"
        );
        w[0]
    }
    #[track_caller]
    pub fn words(&mut self, name: &str) -> Vec<u64> {
        self.settle();
        self.any(name).get()
    }
    /// Reads a port that carries a struct, settled.
    #[track_caller]
    pub fn value<T: Synth>(&mut self, name: &str) -> Value<T> {
        let words = self.words(name);
        assert_eq!(
            self.any(name).width(),
            T::BITS,
            "port `{name}`: width against the type"
        );
        Value::new(words, self.cycle())
    }
    fn settle(&mut self) {
        if std::mem::take(&mut self.dirty) {
            self.model.eval();
        }
    }

    /// Adds a per-clock state machine.
    pub fn add(&mut self, agent: impl Agent + 'static) {
        self.agents.push(Box::new(agent));
    }
    /// Drives channel `name`: `name_valid`, `name_ready` (if the block has it), and `name` or `name_data`.
    #[track_caller]
    pub fn source<T: Synth + 'static>(&mut self, name: &str) -> ChannelSource<T> {
        self.source_paused(name, Pause::Never)
    }
    #[track_caller]
    pub fn source_paused<T: Synth + 'static>(
        &mut self,
        name: &str,
        pause: Pause,
    ) -> ChannelSource<T> {
        let (agent, handle) = ChannelSource::connect(self, name, pause);
        self.add(agent);
        handle
    }
    /// Takes from channel `name`.
    #[track_caller]
    pub fn sink<T: Synth + 'static>(&mut self, name: &str) -> ChannelSink<T> {
        self.sink_paused(name, Pause::Never)
    }
    #[track_caller]
    pub fn sink_paused<T: Synth + 'static>(&mut self, name: &str, pause: Pause) -> ChannelSink<T> {
        let (agent, handle) = ChannelSink::connect(self, name, pause);
        self.add(agent);
        handle
    }

    /// Four cycles of reset, without agents or tasks.
    pub fn reset(&mut self) {
        let Some(reset) = self.reset.clone() else {
            return;
        };
        reset.set(1);
        for _ in 0..4 {
            self.low();
            self.high();
            self.pass();
        }
        reset.set(0);
        self.quiet_after_reset();
        for a in &mut self.agents {
            a.drive(self.ticks.count());
        }
        self.dirty = true;
    }
    /// A block that was told nothing says nothing: no channel is offered in the first cycles.
    fn quiet_after_reset(&mut self) {
        let of = |input: bool| -> Vec<(String, AnyPort)> {
            let ports = self.model.ports().iter();
            let valid = ports.filter(|p| p.input == input && p.name.ends_with("valid"));
            let port = |p: &PortSpec| Some((p.name.clone(), self.ports.get(&p.name)?.clone()));
            valid.filter_map(port).collect()
        };
        let high = |p: &AnyPort| p.get().iter().any(|w| *w != 0);
        if of(true).iter().any(|(_, p)| high(p)) {
            return;
        }
        let outputs = of(false);
        for cycle in 0..QUIET {
            self.low();
            for (name, p) in &outputs {
                assert!(
                    !high(p),
                    "`{name}` is high {cycle} cycles after a reset, before any input"
                );
            }
            self.high();
            self.pass();
        }
    }

    fn low(&mut self) {
        self.clock.set(0);
        self.model.eval();
        self.dirty = false;
        self.model.trace_dump(self.sim.now());
    }
    fn high(&mut self) {
        self.sim.advance(self.sim.now() + PERIOD / 2);
        self.clock.set(1);
        self.model.eval();
        self.model.trace_dump(self.sim.now());
        self.sim.rising();
    }
    /// The rest of the cycle; timers due in it wake their tasks in the next phase.
    fn pass(&mut self) {
        self.sim.advance(self.sim.now() + PERIOD / 2);
    }

    /// One clock cycle, phases as in [`crate::exec`].
    pub fn step(&mut self) {
        self.step_with(&mut None::<Pin<&mut std::future::Ready<()>>>);
    }
    fn step_with<F: Future>(&mut self, main: &mut Option<Pin<&mut F>>) -> Option<F::Output> {
        self.low();
        let cycle = self.ticks.count();
        for a in &mut self.agents {
            a.sample(cycle);
        }
        self.sim.falling();
        let mut out = self.sim.run_ready(main);
        self.high();
        if out.is_none() {
            out = self.sim.run_ready(main);
        }
        for a in &mut self.agents {
            a.drive(cycle + 1);
        }
        self.pass();
        self.dirty = true;
        out
    }
    pub fn steps(&mut self, n: u64) {
        for _ in 0..n {
            self.step();
        }
    }

    /// Runs the clock until `f` is done.
    ///
    /// # Panics
    /// When nothing moves for the watchdog's time: says which task waits for what.
    #[track_caller]
    pub fn run<T>(&mut self, f: impl Future<Output = T>) -> T {
        let mut main = Some(std::pin::pin!(f));
        self.sim.start_main();
        if let Some(v) = self.sim.run_ready(&mut main) {
            return v;
        }
        let (mut seen, mut since) = (self.sim.progress(), self.cycle());
        loop {
            if let Some(v) = self.step_with(&mut main) {
                return v;
            }
            if self.sim.progress() != seen {
                (seen, since) = (self.sim.progress(), self.cycle());
            } else if self.cycle() - since >= self.stuck {
                let agents: String = self
                    .agents
                    .iter()
                    .map(|a| format!("  {}\n", a.status()))
                    .collect();
                panic!(
                    "nothing moved for {} cycles (now cycle {}); tasks:\n{}agents:\n{agents}",
                    self.stuck,
                    self.cycle(),
                    self.sim.report()
                );
            }
        }
    }

    /// Runs until `f` says so, at most `limit` cycles.
    #[track_caller]
    pub fn run_until(
        &mut self,
        limit: u64,
        what: &str,
        mut f: impl FnMut(&mut Dut) -> bool,
    ) -> u64 {
        let start = self.cycle();
        while !f(self) {
            assert!(
                self.cycle() - start < limit,
                "{what}: not within {limit} cycles"
            );
            self.step();
        }
        self.cycle() - start
    }
}

/// `<target>/waves/<top>-<test>.fst`
fn wave_file(top: &str) -> PathBuf {
    let dir = rocenic_sim::verilate::target_dir().join("waves");
    std::fs::create_dir_all(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("main").replace("::", ".");
    dir.join(format!("{top}-{test}.fst"))
}
