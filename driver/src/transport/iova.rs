//! Which addresses the device uses for which memory: ranges the IOMMU can translate, without those it keeps for itself.
use std::collections::BTreeMap;
use std::ops::Range;

/// Pages of every IOMMU.
pub(super) const PAGE: u64 = 4096;
/// From this size on, a piece begins where a large page can.
const LARGE_PAGE: u64 = 2 << 20;
/// Interrupt messages of x86: a write there is no memory access, whatever the IOMMU reports.
const INTERRUPTS: Range<u64> = 0xfee0_0000..0xfef0_0000;
/// Addresses begin here where that is possible: above 32 bits, so that short arithmetic shows.
const PREFERRED: u64 = 0x7_4000_0000;

pub(super) struct Iovas {
    allowed: Vec<Range<u64>>,
    /// Begin and end of what is taken.
    taken: BTreeMap<u64, u64>,
    /// Where the next search begins. What was freed is not used again at once, so that a device that still goes there
    /// meets a fault.
    next: u64,
}

impl Iovas {
    /// Ranges that the IOMMU translates.
    pub fn new(ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut allowed = vec![];
        for r in ranges {
            // address 0 is what a forgotten address looks like
            let start = r.start.max(PAGE).next_multiple_of(PAGE);
            let end = r.end / PAGE * PAGE;
            for part in [
                start..end.min(INTERRUPTS.start),
                start.max(INTERRUPTS.end)..end,
            ] {
                if part.start < part.end {
                    allowed.push(part);
                }
            }
        }
        Iovas {
            allowed,
            taken: BTreeMap::new(),
            next: PREFERRED,
        }
    }
    /// Takes `size` bytes (a multiple of the page). One page stays free behind them.
    pub fn take(&mut self, size: u64) -> Option<u64> {
        let found = self
            .search(self.next, size)
            .or_else(|| self.search(0, size))?;
        self.taken.insert(found, found + size);
        self.next = found + size + PAGE;
        Some(found)
    }
    fn search(&self, from: u64, size: u64) -> Option<u64> {
        let align = if size >= LARGE_PAGE { LARGE_PAGE } else { PAGE };
        for range in &self.allowed {
            let mut at = range.start.max(from).checked_next_multiple_of(align)?;
            loop {
                let end = at.checked_add(size)?;
                if end > range.end {
                    break;
                }
                // the last piece that begins before our end, with its free page
                let before = self.taken.range(..end.saturating_add(PAGE)).next_back();
                match before {
                    Some((_, e)) if e + PAGE > at => {
                        at = (e + PAGE).checked_next_multiple_of(align)?;
                    }
                    _ => return Some(at),
                }
            }
        }
        None
    }
    pub fn give_back(&mut self, iova: u64) {
        self.taken.remove(&iova);
    }
    /// Bytes that are not taken.
    pub fn left(&self) -> u64 {
        let all: u64 = self.allowed.iter().map(|r| r.end - r.start).sum();
        let taken: u64 = self.taken.iter().map(|(b, e)| e - b).sum();
        all.saturating_sub(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_do_not_touch_and_interrupt_addresses_are_never_given_out() {
        let mut i = Iovas::new(std::iter::once(0..0xffff_ffff));
        let mut all = vec![];
        while let Some(at) = i.take(64 << 20) {
            assert!(at >= PAGE && at + (64 << 20) <= 0xffff_f000, "{at:#x}");
            assert!(
                at + (64 << 20) <= INTERRUPTS.start || at >= INTERRUPTS.end,
                "{at:#x}"
            );
            all.push(at);
        }
        all.sort_unstable();
        assert!(all.windows(2).all(|w| w[1] >= w[0] + (64 << 20) + PAGE));
        assert!(all.len() > 55, "{} pieces", all.len());
    }
    #[test]
    fn an_iommu_of_39_bits_is_kept_to_and_what_was_freed_comes_last() {
        let mut i = Iovas::new(std::iter::once(0..1 << 39));
        let first = i.take(PAGE);
        assert_eq!(first, Some(PREFERRED));
        i.give_back(PREFERRED);
        assert_eq!(i.take(PAGE), Some(PREFERRED + 2 * PAGE));
        assert_eq!(i.take(1 << 39), None);
        let large = i.take(3 * LARGE_PAGE).unwrap_or_default();
        assert!(large.is_multiple_of(LARGE_PAGE));
        let huge = i.take(1 << 38);
        assert!(huge.is_some_and(|at| at + (1 << 38) <= 1 << 39));
    }
    #[test]
    fn small_spaces_are_used_to_the_end_and_again_after_freeing() {
        let mut i = Iovas::new(std::iter::once(0x1000..0x5000));
        assert_eq!(i.take(PAGE), Some(0x1000));
        assert_eq!(i.take(PAGE), Some(0x3000));
        assert_eq!(i.take(PAGE), None);
        i.give_back(0x1000);
        assert_eq!(i.take(PAGE), Some(0x1000));
        assert_eq!(i.left(), 2 * PAGE);
    }
}
