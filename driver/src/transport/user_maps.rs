//! Which pages of the program are mapped where for the device.
//!
//! A program registers what it likes: pieces side by side, pieces inside each other, two that share a page. Pages are pinned
//! and mapped once for all of them. To that end a window of addresses of the program lies in a window of IOVAs of the same
//! length: a piece inside it uses the maps that are there and adds those that lack. A map is gone when nobody uses it any more.
//!
//! A map outlives a registration that shares it. The program may have put other pages at those addresses meanwhile, so a map
//! is shared only where a registration holds its pages right now.
use super::TransportError;
use super::iova::{Iovas, PAGE};
use std::collections::BTreeMap;
use std::ops::Range;

/// Windows are aligned to this where there is room: the pieces of a heap meet in few of them, and begin behind a boundary of
/// a large page as far here as there.
const WINDOW: u64 = 64 << 20;

/// What maps pages for the device.
pub(super) trait Mapper {
    fn map(&self, address: u64, len: u64, iova: u64) -> Result<(), TransportError>;
    fn unmap(&self, iova: u64, len: u64);
}

#[derive(Default)]
pub(super) struct UserMaps {
    windows: Vec<Window>,
}

struct Window {
    addresses: Range<u64>,
    iova: u64,
    /// By first address.
    maps: BTreeMap<u64, Map>,
    /// Pages of each registration.
    held: Vec<Range<u64>>,
}
struct Map {
    end: u64,
    users: usize,
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    a.start.max(b.start)..a.end.min(b.end)
}

impl Window {
    /// Maps that have pages of `pages`.
    fn touched(&self, pages: &Range<u64>) -> Vec<Range<u64>> {
        let all = self.maps.iter().map(|(start, m)| *start..m.end);
        all.filter(|m| !overlap(m, pages).is_empty()).collect()
    }
    /// Every page is held by a registration.
    fn holds(&self, pages: Range<u64>) -> bool {
        let mut from = pages.start;
        while from < pages.end {
            let reaching = self.held.iter().filter(|h| h.contains(&from));
            match reaching.map(|h| h.end).max() {
                Some(end) => from = end,
                None => return false,
            }
        }
        true
    }
    /// Whether a piece can be mapped here.
    fn takes(&self, pages: &Range<u64>) -> bool {
        let inside = self.addresses.start <= pages.start && pages.end <= self.addresses.end;
        let mut there = self.touched(pages).into_iter();
        inside && there.all(|m| self.holds(overlap(&m, pages)))
    }
    fn iova_of(&self, address: u64) -> u64 {
        self.iova + (address - self.addresses.start)
    }
    /// Pages without a map.
    fn gaps(&self, pages: &Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = vec![];
        let mut from = pages.start;
        for m in self.touched(pages) {
            gaps.push(from..m.start);
            from = m.end;
        }
        gaps.push(from..pages.end);
        gaps.retain(|g| !g.is_empty());
        gaps
    }
    fn add(&mut self, pages: &Range<u64>, mapper: &dyn Mapper) -> Result<(), TransportError> {
        let gaps = self.gaps(pages);
        for (n, g) in gaps.iter().enumerate() {
            let done = mapper.map(g.start, g.end - g.start, self.iova_of(g.start));
            if let Err(e) = done {
                for g in &gaps[..n] {
                    mapper.unmap(self.iova_of(g.start), g.end - g.start);
                }
                return Err(e);
            }
        }
        for g in gaps {
            let users = 0;
            self.maps.insert(g.start, Map { end: g.end, users });
        }
        for m in self.touched(pages) {
            self.maps.entry(m.start).and_modify(|m| m.users += 1);
        }
        self.held.push(pages.clone());
        Ok(())
    }
    fn remove(&mut self, pages: &Range<u64>, mapper: &dyn Mapper) {
        if let Some(at) = self.held.iter().position(|h| h == pages) {
            self.held.swap_remove(at);
        }
        for m in self.touched(pages) {
            let Some(map) = self.maps.get_mut(&m.start) else {
                continue;
            };
            map.users -= 1;
            if map.users == 0 {
                self.maps.remove(&m.start);
                mapper.unmap(self.iova_of(m.start), m.end - m.start);
            }
        }
    }
}

impl UserMaps {
    /// Maps pages (whole ones) and gives the IOVA of the first.
    pub fn add(
        &mut self,
        pages: &Range<u64>,
        iovas: &mut Iovas,
        mapper: &dyn Mapper,
    ) -> Result<u64, TransportError> {
        let at = match self.windows.iter().position(|w| w.takes(pages)) {
            Some(at) => at,
            None => {
                self.windows.push(window(pages, iovas)?);
                self.windows.len() - 1
            }
        };
        let w = &mut self.windows[at];
        let done = w.add(pages, mapper);
        let iova = w.iova_of(pages.start);
        self.drop_empty(at, iovas);
        done.map(|()| iova)
    }
    /// Gives back what `add` made.
    pub fn remove(
        &mut self,
        pages: &Range<u64>,
        iova: u64,
        iovas: &mut Iovas,
        mapper: &dyn Mapper,
    ) {
        let mine =
            |w: &Window| w.addresses.contains(&pages.start) && w.iova_of(pages.start) == iova;
        if let Some(at) = self.windows.iter().position(mine) {
            self.windows[at].remove(pages, mapper);
            self.drop_empty(at, iovas);
        }
    }
    fn drop_empty(&mut self, at: usize, iovas: &mut Iovas) {
        if self.windows[at].held.is_empty() {
            let w = self.windows.swap_remove(at);
            iovas.give_back(w.iova);
        }
    }
}

/// A window for these pages, as wide as there is room.
fn window(pages: &Range<u64>, iovas: &mut Iovas) -> Result<Window, TransportError> {
    let start = pages.start / WINDOW * WINDOW;
    // page 0 is nobody's
    let wide = start.max(PAGE)
        ..pages
            .end
            .checked_next_multiple_of(WINDOW)
            .unwrap_or(pages.end);
    for addresses in [wide, pages.clone()] {
        if let Some(iova) = iovas.take(addresses.end - addresses.start) {
            return Ok(Window {
                addresses,
                iova,
                maps: BTreeMap::new(),
                held: vec![],
            });
        }
    }
    Err(TransportError::NoMemory {
        wanted: (pages.end - pages.start) as usize,
        left: iovas.left() as usize,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// An IOMMU: which page of the program, and which contents of it, are behind an IOVA.
    #[derive(Default)]
    struct Iommu {
        pages: RefCell<BTreeMap<u64, (u64, u32)>>,
        /// What is at an address now: the program changes it when it holds no registration.
        contents: RefCell<BTreeMap<u64, u32>>,
        maps: RefCell<BTreeMap<u64, u64>>,
        full_at: Option<usize>,
    }
    impl Mapper for Iommu {
        fn map(&self, address: u64, len: u64, iova: u64) -> Result<(), TransportError> {
            if self.full_at.is_some_and(|n| self.maps.borrow().len() >= n) {
                return Err(TransportError::NoMemory { wanted: 0, left: 0 });
            }
            for at in (0..len).step_by(PAGE as usize) {
                let now = self.contents.borrow().get(&(address + at)).copied();
                let old = self
                    .pages
                    .borrow_mut()
                    .insert(iova + at, (address + at, now.unwrap_or(0)));
                assert_eq!(old, None, "IOVA {:#x} is mapped twice", iova + at);
            }
            self.maps.borrow_mut().insert(iova, len);
            Ok(())
        }
        fn unmap(&self, iova: u64, len: u64) {
            // VFIO takes back what it gave, never parts of it
            assert_eq!(self.maps.borrow_mut().remove(&iova), Some(len));
            for at in (0..len).step_by(PAGE as usize) {
                assert!(self.pages.borrow_mut().remove(&(iova + at)).is_some());
            }
        }
    }
    fn space() -> Iovas {
        Iovas::new(std::iter::once(0..1 << 39))
    }
    fn pages(first: u64, n: u64) -> Range<u64> {
        const HEAP: u64 = 0x7f12_3456_7000;
        HEAP + first * PAGE..HEAP + (first + n) * PAGE
    }

    #[test]
    fn pieces_that_overlap_or_touch_share_their_maps_until_the_last_one_goes() {
        let (mut iovas, mut m, iommu) = (space(), UserMaps::default(), Iommu::default());
        let all = [
            pages(0, 8),
            pages(2, 3),
            pages(6, 4),
            pages(10, 1),
            pages(0, 11),
        ];
        let mut at = vec![];
        for p in &all {
            at.push(m.add(p, &mut iovas, &iommu).expect("mapped"));
        }
        // as far from each other there as here, each page once
        for (p, iova) in all.iter().zip(&at) {
            assert_eq!(iova - at[0], p.start - all[0].start);
        }
        assert_eq!(iommu.pages.borrow().len(), 11);
        assert_eq!(iommu.maps.borrow().len(), 3);
        for (p, iova) in all.iter().zip(&at) {
            m.remove(p, *iova, &mut iovas, &iommu);
        }
        assert!(iommu.maps.borrow().is_empty() && m.windows.is_empty());
        assert_eq!(iovas.left(), space().left());
    }
    #[test]
    fn pages_that_nobody_holds_are_not_shared_with_what_came_to_their_addresses() {
        let (mut iovas, mut m, iommu) = (space(), UserMaps::default(), Iommu::default());
        let (whole, inside) = (pages(0, 8), pages(6, 2));
        let old = m.add(&whole, &mut iovas, &iommu).expect("mapped");
        let kept = m.add(&inside, &mut iovas, &iommu).expect("mapped");
        m.remove(&whole, old, &mut iovas, &iommu);
        let new = m.add(&whole, &mut iovas, &iommu).expect("mapped");
        assert_ne!(new, old, "the program may have other pages there now");
        m.remove(&inside, kept, &mut iovas, &iommu);
        m.remove(&whole, new, &mut iovas, &iommu);
        assert!(iommu.maps.borrow().is_empty());
    }
    #[test]
    fn a_map_that_fails_leaves_everything_as_it_was() {
        let (mut iovas, mut m) = (space(), UserMaps::default());
        let iommu = Iommu {
            full_at: Some(2),
            ..Iommu::default()
        };
        let mid = pages(4, 2);
        let at = m.add(&mid, &mut iovas, &iommu).expect("mapped");
        let before = iovas.left();
        // two gaps: the second one finds no place
        assert!(m.add(&pages(0, 10), &mut iovas, &iommu).is_err());
        assert_eq!(iommu.maps.borrow().len(), 1);
        assert_eq!(iovas.left(), before);
        m.remove(&mid, at, &mut iovas, &iommu);
        assert!(iommu.maps.borrow().is_empty() && m.windows.is_empty());
    }
    #[test]
    fn windows_that_find_no_room_are_as_small_as_the_piece() {
        let mut iovas = Iovas::new(std::iter::once(0x1000..0x20_0000));
        let (mut m, iommu) = (UserMaps::default(), Iommu::default());
        let p = pages(0, 16);
        let at = m.add(&p, &mut iovas, &iommu).expect("mapped");
        assert!(at < 0x20_0000);
        let far = m.add(&pages(100, 1000), &mut iovas, &iommu);
        assert!(matches!(far, Err(TransportError::NoMemory { .. })));
    }
    /// Registrations in any order; whatever is held must be reached at its IOVA, with the contents of its addresses now.
    #[test]
    fn whatever_is_registered_and_let_go_the_device_reaches_the_pages_that_are_there_now() {
        let mut seed = 1u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (seed >> 33) % below
        };
        let (mut iovas, mut m, iommu) = (space(), UserMaps::default(), Iommu::default());
        let mut held: Vec<(Range<u64>, u64)> = vec![];
        for n in 0..4000 {
            if held.is_empty() || (held.len() < 12 && random(2) == 0) {
                // some across the boundary of a window
                let first = [0, WINDOW / PAGE - 30, 1 << 20][random(3) as usize];
                let p = pages(first + random(40), 1 + random(24));
                let iova = m.add(&p, &mut iovas, &iommu).expect("mapped");
                held.push((p, iova));
            } else {
                let (p, iova) = held.swap_remove(random(held.len() as u64) as usize);
                m.remove(&p, iova, &mut iovas, &iommu);
                for at in p.step_by(PAGE as usize) {
                    if !held.iter().any(|(h, _)| h.contains(&at)) {
                        *iommu.contents.borrow_mut().entry(at).or_default() += 1;
                    }
                }
            }
            let (there, contents) = (iommu.pages.borrow(), iommu.contents.borrow());
            for (p, iova) in &held {
                for at in p.clone().step_by(PAGE as usize) {
                    let now = contents.get(&at).copied().unwrap_or(0);
                    let found = there.get(&(iova + (at - p.start)));
                    assert_eq!(found, Some(&(at, now)), "after {n} steps");
                }
            }
        }
        for (p, iova) in held {
            m.remove(&p, iova, &mut iovas, &iommu);
        }
        assert!(iommu.maps.borrow().is_empty() && m.windows.is_empty());
        assert_eq!(iovas.left(), space().left());
    }
}
