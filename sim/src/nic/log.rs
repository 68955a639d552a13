//! A monitor on the device's ports: when what happened, for measurements. It reads settled pins only, and knows nothing of
//! the models that drive them or of the device's own counters.
use super::pins::{AxiMasterPins, MacPins, MmioPins};

/// A frame that was given to the device: cycles of its first and last beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    pub first: u64,
    pub last: u64,
    pub beats: u64,
}
/// An address handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub cycle: u64,
    pub addr: u64,
    pub beats: u64,
}

/// What the monitor saw since it was last asked.
#[derive(Clone, Debug, Default)]
pub struct PortLog {
    /// Frames on `s_axis_rx`.
    pub arrived: Vec<Arrived>,
    /// Write addresses on `m_axi`.
    pub writes: Vec<Address>,
    /// Read addresses on `m_axi`.
    pub reads: Vec<Address>,
    /// Cycles of read data beats on `m_axi`.
    pub read_beats: Vec<u64>,
    /// Cycles in which a beat was taken on `s_axi_push`.
    pub pushes: Vec<u64>,
    /// Cycles in which `m_axis_tx` offered the first beat of a frame for the first time.
    pub offered: Vec<u64>,
    /// First beat and number of beats of the frame that arrives.
    arriving: Option<(u64, u64)>,
    sending: bool,
}

impl PortLog {
    pub(super) fn sample(
        &mut self,
        axi: &AxiMasterPins,
        mmio: &MmioPins,
        mac: &MacPins,
        cycle: u64,
    ) {
        let address = |p: &super::pins::AddressPins| {
            (p.valid.high() && p.ready.high()).then(|| Address {
                cycle,
                addr: p.addr.get(),
                beats: p.len.get() + 1,
            })
        };
        self.writes.extend(address(&axi.aw));
        self.reads.extend(address(&axi.ar));
        if axi.rvalid.high() && axi.rready.high() {
            self.read_beats.push(cycle);
        }
        if mmio.push_wvalid.high() && mmio.push_wready.high() {
            self.pushes.push(cycle);
        }
        if mac.rx_valid.high() {
            let (first, before) = self.arriving.unwrap_or((cycle, 0));
            self.arriving = Some((first, before + 1));
            if mac.rx_last.high() {
                self.arrived.push(Arrived {
                    first,
                    last: cycle,
                    beats: before + 1,
                });
                self.arriving = None;
            }
        }
        if mac.tx_valid.high() {
            if !self.sending {
                self.offered.push(cycle);
            }
            self.sending = !(mac.tx_ready.high() && mac.tx_last.high());
        }
    }
}
