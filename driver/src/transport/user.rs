//! Memory that the program allocated, for a device.
use super::iova::PAGE;
use std::ptr::NonNull;

/// Bytes of the program that a device may use. Pages are mapped whole, but only these bytes are accessed, by this driver
/// (with atomics) and, as far as a region allows, by the device.
///
/// A child process must not touch the pages while the device uses them: it would get copies, and so might the parent.
pub struct UserMemory {
    at: NonNull<u8>,
    len: usize,
    /// A buffer that was taken over.
    owned: bool,
}
// SAFETY: who makes one gives the memory away (see `from_raw`); it is accessed by atomics only.
unsafe impl Send for UserMemory {}
// SAFETY: as above.
unsafe impl Sync for UserMemory {}

impl UserMemory {
    /// Takes over a buffer.
    ///
    /// # Panics
    /// When it is empty.
    pub fn from_vec(v: Vec<u8>) -> UserMemory {
        assert!(!v.is_empty(), "a region has at least one byte");
        let all = Box::leak(v.into_boxed_slice());
        UserMemory {
            at: NonNull::from(&mut *all).cast(),
            len: all.len(),
            owned: true,
        }
    }
    /// Uses memory that stays somebody else's.
    ///
    /// # Safety
    /// `at` is valid for reads and writes of `len` bytes (at least one) until the region made of it is gone, and
    /// meanwhile no reference to it exists: the device reads and writes there at any time.
    pub unsafe fn from_raw(at: NonNull<u8>, len: usize) -> UserMemory {
        assert!(len > 0, "a region has at least one byte");
        UserMemory {
            at,
            len,
            owned: false,
        }
    }
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn is_empty(&self) -> bool {
        false // at least one byte
    }
    /// Address in this process.
    pub fn address(&self) -> u64 {
        self.at.as_ptr() as u64
    }
    /// Where in its first page it begins.
    pub(crate) fn page_offset(&self) -> usize {
        (self.address() % PAGE) as usize
    }
    /// Beginning and length of its pages.
    pub(super) fn pages(&self) -> (NonNull<u8>, usize) {
        let skip = self.page_offset();
        let begin = self.at.as_ptr().wrapping_sub(skip);
        let len = (skip + self.len).next_multiple_of(PAGE as usize);
        // a page that begins at address 0 is nobody's
        (NonNull::new(begin).unwrap_or(self.at), len)
    }
}
impl Drop for UserMemory {
    fn drop(&mut self) {
        if self.owned {
            let all = std::ptr::slice_from_raw_parts_mut(self.at.as_ptr(), self.len);
            // SAFETY: made from a box of this length in `from_vec`, given back once; whoever mapped it for a device has
            // unmapped it.
            drop(unsafe { Box::from_raw(all) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_whole_and_hold_every_byte() {
        for len in [1, 4095, 4096, 4097, 100_000] {
            let m = UserMemory::from_vec(vec![7; len]);
            let (begin, whole) = m.pages();
            let begin = begin.as_ptr() as u64;
            assert!(begin.is_multiple_of(PAGE) && (whole as u64).is_multiple_of(PAGE));
            assert!(begin <= m.address() && m.address() + len as u64 <= begin + whole as u64);
            assert!(
                m.address() - begin < PAGE
                    && begin + whole as u64 - m.address() - (len as u64) < PAGE
            );
        }
    }
}
