//! The MAC: gathers the frames the device sends, at the line's pace, and feeds it those that arrive.
use super::memory::{LINE, bytes, words};
use super::pins::MacPins;
use std::collections::VecDeque;

const BEAT: usize = LINE;
/// Preamble, start delimiter, FCS and the least gap between frames, which a frame costs on the line beside its bytes.
pub const OVERHEAD_BYTES: u64 = 24;
/// Shortest frame on the line, without FCS; shorter ones are padded.
pub const MIN_FRAME: usize = 60;

/// How fast the line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// A beat a cycle: 128 Gb/s of beats.
    #[default]
    None,
    /// Bytes a cycle including the overhead of each frame; 100GbE at 250 MHz is 50.
    BytesPerCycle(u64),
}
impl Pace {
    /// 100 Gb/s Ethernet at 250 MHz.
    pub const GBE100: Pace = Pace::BytesPerCycle(50);
}

/// A frame with the cycles of its first and last beat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireFrame {
    pub bytes: Vec<u8>,
    pub first: u64,
    pub last: u64,
}

pub(super) struct Mac {
    pace: Pace,
    /// Bytes the line still has to send before it takes a beat.
    debt: i64,
    gathered: Vec<u8>,
    first: u64,
    /// Frames the device sent, oldest first.
    pub sent: VecDeque<WireFrame>,
    /// Frames to deliver: earliest cycle of the first beat, bytes.
    pub arriving: VecDeque<(u64, Vec<u8>)>,
    at: usize,
    /// Cycle of the first header beat at the MAC, for latency measurements.
    pub first_tx_beat: Option<u64>,
    pub tx_beats: u64,
    /// What broke the stream rules, if anything did.
    pub fault: Option<String>,
}
impl Mac {
    pub fn new(pace: Pace) -> Mac {
        Mac {
            pace,
            debt: 0,
            gathered: vec![],
            first: 0,
            sent: VecDeque::new(),
            arriving: VecDeque::new(),
            at: 0,
            first_tx_beat: None,
            tx_beats: 0,
            fault: None,
        }
    }
    pub fn idle(&self) -> bool {
        self.gathered.is_empty() && self.arriving.is_empty()
    }
    /// Puts a frame in its place by time; one that has begun is not disturbed.
    pub fn arrive(&mut self, at: u64, bytes: Vec<u8>) {
        let first = usize::from(self.at > 0);
        let place = self
            .arriving
            .iter()
            .skip(first)
            .take_while(|a| a.0 <= at)
            .count()
            + first;
        self.arriving
            .insert(place.min(self.arriving.len()), (at, bytes));
    }
    pub fn sample(&mut self, p: &MacPins, cycle: u64) {
        if let Pace::BytesPerCycle(n) = self.pace {
            self.debt = (self.debt - n as i64).max(0);
        }
        if !p.tx_valid.high() {
            if !self.gathered.is_empty() && self.fault.is_none() {
                self.fault = Some(format!(
                    "cycle {cycle}: m_axis_tx_tvalid fell inside a frame, after {} bytes",
                    self.gathered.len()
                ));
            }
            return;
        }
        self.first_tx_beat.get_or_insert(cycle);
        if !p.tx_ready.high() {
            return;
        }
        self.tx_beats += 1;
        if self.gathered.is_empty() {
            self.first = cycle;
        }
        let keep = p.tx_keep.get();
        let n = keep.trailing_ones() as usize;
        let last = p.tx_last.high();
        if (keep.count_ones() as usize != n || !last && n != BEAT || n == 0) && self.fault.is_none()
        {
            self.fault = Some(format!(
                "cycle {cycle}: m_axis_tx_tkeep is {keep:#x}, tlast {last}"
            ));
        }
        self.gathered
            .extend_from_slice(&bytes(&p.tx_data.get())[..n]);
        let mut cost = n as i64;
        if last {
            let bytes = std::mem::take(&mut self.gathered);
            cost += (OVERHEAD_BYTES as usize + MIN_FRAME.saturating_sub(bytes.len())) as i64;
            if !p.tx_user.high() {
                self.sent.push_back(WireFrame {
                    bytes,
                    first: self.first,
                    last: cycle,
                });
            }
        }
        self.debt += cost;
    }
    pub fn drive(&mut self, p: &MacPins, cycle: u64) {
        let ready = match self.pace {
            Pace::None => true,
            // a beat may begin when what came before has left but for less than a beat
            Pace::BytesPerCycle(n) => self.debt - (n as i64) < BEAT as i64,
        };
        p.tx_ready.set(u64::from(ready));
        let Some((due, bytes)) = self.arriving.front() else {
            p.rx_valid.set(0);
            return;
        };
        if self.at == 0 && cycle < *due {
            p.rx_valid.set(0);
            return;
        }
        let rest = &bytes[self.at..];
        let n = rest.len().min(BEAT);
        let mut beat = [0u8; BEAT];
        beat[..n].copy_from_slice(&rest[..n]);
        let last = rest.len() <= BEAT;
        p.rx_data.set(words(&beat));
        p.rx_keep.set(if n == BEAT { !0 } else { (1 << n) - 1 });
        p.rx_last.set(u64::from(last));
        p.rx_user.set(0);
        p.rx_valid.set(1);
        self.at += n;
        if last {
            self.at = 0;
            self.arriving.pop_front();
        }
    }
}
