//! One host, one NIC, and a peer at the other end of the wire that is not ours.
use super::device::{Ending, Line, proxy};
use super::host::{Denied, SharedMemory};
use super::pair::{HostFailure, NicReport, PairError, QuitAtEnd};
use rocenic_driver::Transport;
use rocenic_driver::transport::in_process::{DmaSpace, InProcess};
use rocenic_sim::nic::{HostConfig, Nic, NicConfig, Pace, WireFrame};
use rocenic_sim::verilate::Library;
use rocenic_sim::wire::{Error as WireError, FaultCounts, LinkConfig, UnixEnd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct SoloConfig {
    pub seed: u64,
    pub host: HostConfig,
    pub pace: Pace,
    /// Cycles from the NIC to the peer, and back.
    pub delay: u64,
    /// DMA memory of the host in bytes.
    pub memory: usize,
    /// Waveform of this many cycles from the first frame or send on (the library must be built with tracing).
    pub trace: Option<(PathBuf, u64)>,
}
impl Default for SoloConfig {
    fn default() -> Self {
        SoloConfig {
            seed: 1,
            host: HostConfig::default(),
            pace: Pace::None,
            delay: LinkConfig::default().delay,
            memory: 1 << 30,
            trace: None,
        }
    }
}

/// Runs a host program on one NIC.
pub struct Solo {
    library: Arc<Library>,
    config: SoloConfig,
}
/// The peer answers at once, in simulated time: no thread, no clock of its own.
struct Answers<P> {
    peer: P,
    delay: u64,
    frames: u64,
    finished: bool,
}
impl<P: FnMut(&WireFrame) -> Vec<Vec<u8>>> Line for Answers<P> {
    fn step(&mut self, nic: &mut Nic) -> Result<(), WireError> {
        let sent: Vec<WireFrame> = nic.sent().collect();
        for f in sent {
            self.frames += 1;
            for bytes in (self.peer)(&f) {
                nic.deliver(f.last + 2 * self.delay, bytes);
            }
        }
        Ok(())
    }
    fn finish(&mut self) {
        self.finished = true;
    }
    fn over(&self) -> bool {
        self.finished
    }
}

/// Frames that arrive at given times after the program said so; what the NIC sends is kept.
struct Fed {
    go: Arc<AtomicBool>,
    frames: Vec<(u64, Vec<u8>)>,
    sent: Vec<WireFrame>,
    finished: bool,
}
impl Line for Fed {
    fn step(&mut self, nic: &mut Nic) -> Result<(), WireError> {
        // the program said so before the clock it now waits for: the cycle does not depend on the threads
        if !self.frames.is_empty() && self.go.load(Ordering::Acquire) {
            nic.begin_trace();
            let now = nic.cycle();
            for (after, bytes) in self.frames.drain(..) {
                nic.deliver(now + after, bytes);
            }
        }
        self.sent.extend(nic.sent());
        Ok(())
    }
    fn finish(&mut self) {
        self.finished = true;
    }
    fn over(&self) -> bool {
        self.finished
    }
}

impl Solo {
    /// Runs the program to its end; `frames` (cycles, bytes) arrive so many cycles after it called the function it is
    /// given. What the NIC sent comes back.
    pub fn run_fed<R: Send>(
        &self,
        program: impl FnOnce(Arc<dyn Transport>, &dyn Fn()) -> Result<R, HostFailure> + Send,
        frames: Vec<(u64, Vec<u8>)>,
    ) -> Result<(R, NicReport, Vec<WireFrame>), PairError> {
        let go = Arc::new(AtomicBool::new(false));
        let line = Fed {
            go: go.clone(),
            frames,
            sent: vec![],
            finished: false,
        };
        let program = move |t: Arc<dyn Transport>| {
            let begin = move || go.store(true, Ordering::Release);
            program(t, &begin)
        };
        let (result, report, line) = self.serve(program, line)?;
        Ok((result, report, line.sent))
    }
    /// Uses a model from [`rocenic_sim::nic::library`].
    pub fn new(library: &Arc<Library>, config: SoloConfig) -> Solo {
        Solo {
            library: library.clone(),
            config,
        }
    }
    /// Runs the program to its end. `peer` is called with every frame the NIC has sent, on the caller's thread, and gives
    /// the frames that come back.
    pub fn run<R: Send>(
        &self,
        program: impl FnOnce(Arc<dyn Transport>) -> Result<R, HostFailure> + Send,
        peer: impl FnMut(&WireFrame) -> Vec<Vec<u8>>,
    ) -> Result<(R, NicReport), PairError> {
        let line = Answers {
            peer,
            delay: self.config.delay,
            frames: 0,
            finished: false,
        };
        let (result, mut report, line) = self.serve(program, line)?;
        report.wire.passed = line.frames;
        Ok((result, report))
    }
    /// Runs the program to its end, with the NIC on a wire to a neighbour that runs in real time. The wire comes back.
    pub fn run_wired<R: Send>(
        &self,
        program: impl FnOnce(Arc<dyn Transport>) -> Result<R, HostFailure> + Send,
        end: UnixEnd,
    ) -> Result<(R, NicReport, UnixEnd), PairError> {
        let line = Ending {
            line: end,
            finished: false,
        };
        let (result, mut report, line) = self.serve(program, line)?;
        report.wire = line.line.counts()[0];
        Ok((result, report, line.line))
    }
    fn serve<R: Send, L: Line>(
        &self,
        program: impl FnOnce(Arc<dyn Transport>) -> Result<R, HostFailure> + Send,
        line: L,
    ) -> Result<(R, NicReport, L), PairError> {
        let side = 'A';
        let fault = |error| PairError::Nic { side, error };
        let space = DmaSpace::new(self.config.memory);
        let (device, server) = proxy();
        let device = Arc::new(device);
        let transport: Arc<dyn Transport> = Arc::new(InProcess::new(device.clone(), space.clone()));
        let config = NicConfig {
            seed: self.config.seed,
            host: self.config.host.clone(),
            pace: self.config.pace,
            trace: self.config.trace.clone(),
            trace_at: None,
        };
        let nic = Nic::new(
            &self.library,
            "nic_solo",
            Box::new(SharedMemory::new(space, Denied::default())),
            config,
        );
        let nic = nic.map_err(|e| fault(e.into()))?;
        let mut server = server(nic, line);
        // the scope owns the server: when the peer panics, the program sees its device gone and ends
        std::thread::scope(move |s| {
            let host = s.spawn(move || {
                let _quit = QuitAtEnd(device);
                program(transport)
            });
            let served = server.serve();
            let host = host.join().map_err(|_| PairError::Panic { side })?;
            served.map_err(fault)?;
            let result = host.map_err(|error| PairError::Host { side, error })?;
            server.finish().map_err(fault)?;
            let (beats_read, beats_written, beats_sent) = server.nic.beats();
            let report = NicReport {
                cycles: server.nic.cycle(),
                beats_read,
                beats_written,
                beats_sent,
                wire: FaultCounts::default(),
            };
            Ok((result, report, server.line))
        })
    }
}
