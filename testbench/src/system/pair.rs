//! Two hosts, two NICs, a wire.
use super::device::{SimDevice, proxy};
use super::host::{Denied, SharedMemory};
use super::meddler::Meddler;
use rocenic_driver::Transport;
use rocenic_driver::transport::in_process::{DmaSpace, InProcess};
use rocenic_sim::nic::{HostConfig, Nic, NicConfig, Pace};
use rocenic_sim::verilate::Library;
use rocenic_sim::wire::{Capture, CaptureError, Error as WireError, FaultCounts, LinkConfig, link};
use std::path::PathBuf;
use std::sync::Arc;

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct PairConfig {
    pub seed: u64,
    pub host: HostConfig,
    pub pace: Pace,
    pub link: LinkConfig,
    /// Writes what arrives at either end.
    pub capture: Option<PathBuf>,
    /// Waveform of NIC A: this many cycles from its first send doorbell on.
    pub trace: Option<(PathBuf, u64)>,
    /// DMA memory of each host in bytes.
    pub memory: usize,
    /// What the IOMMU of each host refuses.
    pub denied: [Denied; 2],
}
impl Default for PairConfig {
    fn default() -> Self {
        PairConfig {
            seed: 1,
            host: HostConfig::default(),
            pace: Pace::None,
            link: LinkConfig::default(),
            capture: None,
            trace: None,
            memory: 1 << 30,
            denied: Default::default(),
        }
    }
}

/// What a NIC and its end of the wire did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicReport {
    pub cycles: u64,
    pub beats_read: u64,
    pub beats_written: u64,
    pub beats_sent: u64,
    /// What happened to the frames it sent.
    pub wire: FaultCounts,
}
/// Results of both host programs and what the NICs did.
#[derive(Debug)]
pub struct PairReport<A, B> {
    pub a: A,
    pub b: B,
    pub nics: [NicReport; 2],
}

#[derive(Debug, thiserror::Error)]
pub enum PairError {
    #[error("host {side}: {error:#}")]
    Host { side: char, error: anyhow::Error },
    #[error("NIC {side}: {error}")]
    Nic { side: char, error: WireError },
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error("{}; {}", .0.0, .0.1)]
    Both(Box<(PairError, PairError)>),
    #[error("host {side} panicked")]
    Panic { side: char },
}
/// What a host program may end with.
pub type HostFailure = anyhow::Error;

/// Runs host programs on a pair of NICs.
pub struct Pair {
    library: Arc<Library>,
    config: PairConfig,
}
struct Side<R> {
    result: Result<R, PairError>,
    report: NicReport,
}

impl Pair {
    /// Uses a model from [`rocenic_sim::nic::library`].
    pub fn new(library: &Arc<Library>, config: PairConfig) -> Pair {
        Pair {
            library: library.clone(),
            config,
        }
    }
    /// Runs both programs to their ends. The error of the side that failed first in simulated time is given; a program
    /// that only lost its peer is not the culprit.
    pub fn run<A: Send, B: Send>(
        &self,
        a: impl FnOnce(Arc<dyn Transport>) -> Result<A, HostFailure> + Send,
        b: impl FnOnce(Arc<dyn Transport>) -> Result<B, HostFailure> + Send,
    ) -> Result<PairReport<A, B>, PairError> {
        self.run_meddling(|m| a(m), |m| b(m))
    }
    /// The same for programs that may go past the driver.
    pub fn run_meddling<A: Send, B: Send>(
        &self,
        a: impl FnOnce(Arc<Meddler>) -> Result<A, HostFailure> + Send,
        b: impl FnOnce(Arc<Meddler>) -> Result<B, HostFailure> + Send,
    ) -> Result<PairReport<A, B>, PairError> {
        let capture = self
            .config
            .capture
            .as_deref()
            .map(Capture::create)
            .transpose()?;
        let (end_a, end_b) = link(&self.config.link, capture);
        let (a, b) = std::thread::scope(|s| {
            let ta = s.spawn(move || self.side('A', self.config.trace.clone(), end_a, a));
            let tb = s.spawn(move || self.side('B', None, end_b, b));
            (ta.join(), tb.join())
        });
        let a = a.map_err(|_| PairError::Panic { side: 'A' })?;
        let b = b.map_err(|_| PairError::Panic { side: 'B' })?;
        let nics = [a.report, b.report];
        match (a.result, b.result) {
            (Ok(a), Ok(b)) => Ok(PairReport { a, b, nics }),
            // who only lost its peer is not the culprit
            (Err(e), Ok(_)) | (Ok(_), Err(e)) => Err(e),
            (Err(e), Err(f)) if lost_peer(&f) => Err(e),
            (Err(e), Err(f)) if lost_peer(&e) => Err(f),
            (Err(e), Err(f)) => Err(PairError::Both(Box::new((e, f)))),
        }
    }
    fn side<R: Send>(
        &self,
        name: char,
        trace: Option<(PathBuf, u64)>,
        end: rocenic_sim::wire::LinkEnd,
        program: impl FnOnce(Arc<Meddler>) -> Result<R, HostFailure> + Send,
    ) -> Side<R> {
        let space = DmaSpace::new(self.config.memory);
        let denied = self.config.denied[usize::from(name == 'B')].clone();
        let (device, server) = proxy();
        let device = Arc::new(device);
        let transport = InProcess::new(device.clone(), space.clone());
        let transport = Arc::new(Meddler::new(transport, space.clone()));
        let config = NicConfig {
            seed: self
                .config
                .seed
                .wrapping_mul(2)
                .wrapping_add(u64::from(name == 'B')),
            host: self.config.host.clone(),
            pace: self.config.pace,
            trace,
            trace_at: None,
        };
        let nic = Nic::new(
            &self.library,
            &format!("nic_{}", name.to_ascii_lowercase()),
            Box::new(SharedMemory::new(space, denied)),
            config,
        );
        let mut server = match nic {
            Ok(nic) => server(nic, end),
            Err(e) => {
                return Side {
                    result: Err(PairError::Nic {
                        side: name,
                        error: e.into(),
                    }),
                    report: NicReport::default(),
                };
            }
        };
        std::thread::scope(|s| {
            let host = s.spawn(move || {
                let _quit = QuitAtEnd(device);
                program(transport)
            });
            let served = server.serve();
            let host = host.join();
            let mut result = match (served, host) {
                (_, Err(_)) => Err(PairError::Panic { side: name }),
                (Err(error), _) => Err(PairError::Nic { side: name, error }),
                (Ok(()), Ok(Err(error))) => Err(PairError::Host { side: name, error }),
                (Ok(()), Ok(Ok(r))) => Ok(r),
            };
            // the peer may still need this NIC's acknowledgements
            if result.is_ok()
                && let Err(error) = server.finish()
            {
                result = Err(PairError::Nic { side: name, error });
            }
            let (beats_read, beats_written, beats_sent) = server.nic.beats();
            let wire = server.line.counts();
            let report = NicReport {
                cycles: server.nic.cycle(),
                beats_read,
                beats_written,
                beats_sent,
                wire,
            };
            if let Err(error) = server.line.close()
                && result.is_ok()
            {
                result = Err(PairError::Nic { side: name, error });
            }
            Side { result, report }
        })
    }
}
/// Tells the NIC's thread, also when the program panics.
pub(super) struct QuitAtEnd(pub Arc<SimDevice>);
impl Drop for QuitAtEnd {
    fn drop(&mut self) {
        self.0.quit();
    }
}
fn lost_peer(e: &PairError) -> bool {
    matches!(
        e,
        PairError::Nic {
            error: WireError::PeerGone { .. },
            ..
        }
    )
}
