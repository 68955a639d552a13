//! Memory that driver and device both read and write.
//!
//! Nobody may hold a Rust reference to it, since the other side changes it at any time: accesses go through atomics of
//! 32 bits (bytes at unaligned ends), which is what the device's own granularity is. A device's write of one aligned
//! 32-bit word is seen whole.
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// What owns the memory behind a [`DmaMemory`]; dropping it unmaps.
pub trait DmaOwner: Send + Sync {}

/// A piece of DMA memory: an address here, an IOVA for the device. Freed (and unmapped) when dropped.
pub struct DmaMemory {
    ptr: NonNull<u8>,
    len: usize,
    iova: u64,
    _owner: Arc<dyn DmaOwner>,
}

// SAFETY: the pointer is valid as long as `_owner` lives, which moves with it, and every access is atomic.
unsafe impl Send for DmaMemory {}
// SAFETY: as above: shared accesses are atomic.
unsafe impl Sync for DmaMemory {}

impl std::fmt::Debug for DmaMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "DmaMemory {{ iova: {:#x}, len: {:#x} }}",
            self.iova, self.len
        )
    }
}

const WORD: usize = size_of::<u32>();

impl DmaMemory {
    /// Wraps memory of a transport.
    ///
    /// # Safety
    /// `ptr` is valid for reads and writes of `len` bytes, aligned to 4, and accessed by nothing but atomics and devices,
    /// until `owner` is dropped.
    pub unsafe fn new(ptr: NonNull<u8>, len: usize, iova: u64, owner: Arc<dyn DmaOwner>) -> Self {
        DmaMemory {
            ptr,
            len,
            iova,
            _owner: owner,
        }
    }
    /// Address of the first byte for the device.
    pub fn iova(&self) -> u64 {
        self.iova
    }
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Address of the first byte in this process, for foreign code; the device writes there at any time.
    pub fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }
    fn check(&self, at: usize, len: usize) {
        assert!(
            at.checked_add(len).is_some_and(|end| end <= self.len),
            "DMA memory of {} bytes: access to {len} bytes at {at}",
            self.len
        );
    }
    fn byte(&self, at: usize) -> &AtomicU8 {
        // SAFETY: the callers checked `at` against `len`; the memory is valid while `self` lives (see `new`).
        unsafe { AtomicU8::from_ptr(self.ptr.as_ptr().add(at)) }
    }
    fn word(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at.is_multiple_of(WORD));
        // SAFETY: the callers checked `at + 4` against `len` and pass multiples of 4; `ptr` is aligned to 4 and the
        // memory is valid while `self` lives (see `new`).
        unsafe { AtomicU32::from_ptr(self.ptr.as_ptr().add(at).cast()) }
    }
    /// Reads an aligned little-endian word; what is read after it is not older than it.
    ///
    /// # Panics
    /// Out of bounds or not aligned: an error of the caller, never of the device.
    #[inline]
    pub fn read_u32(&self, at: usize) -> u32 {
        self.check(at, WORD);
        assert!(at.is_multiple_of(WORD), "unaligned word at {at}");
        u32::from_le(self.word(at).load(Ordering::Acquire))
    }
    /// Copies out an aligned entry of a ring.
    ///
    /// # Panics
    /// Out of bounds or not aligned.
    #[inline(always)]
    pub fn read_entry<const N: usize>(&self, at: usize) -> [u8; N] {
        self.check(at, N);
        assert!(
            at.is_multiple_of(WORD) && N.is_multiple_of(WORD),
            "unaligned entry at {at}"
        );
        let mut e = [0; N];
        for (i, w) in e.as_chunks_mut::<WORD>().0.iter_mut().enumerate() {
            *w = self
                .word(at + WORD * i)
                .load(Ordering::Relaxed)
                .to_ne_bytes();
        }
        e
    }
    /// Copies in an aligned entry of a ring.
    ///
    /// # Panics
    /// Out of bounds or not aligned.
    #[inline(always)]
    pub fn write_entry<const N: usize>(&self, at: usize, entry: &[u8; N]) {
        self.check(at, N);
        assert!(
            at.is_multiple_of(WORD) && N.is_multiple_of(WORD),
            "unaligned entry at {at}"
        );
        for (i, w) in entry.as_chunks::<WORD>().0.iter().enumerate() {
            self.word(at + WORD * i)
                .store(u32::from_ne_bytes(*w), Ordering::Relaxed);
        }
    }
    /// Copies out. Bytes the device is writing at the same time come old or new.
    ///
    /// # Panics
    /// Out of bounds.
    #[inline]
    pub fn read(&self, at: usize, to: &mut [u8]) {
        self.check(at, to.len());
        let head = at.wrapping_neg() % WORD;
        let (head, rest) = to.split_at_mut(head.min(to.len()));
        for (i, b) in head.iter_mut().enumerate() {
            *b = self.byte(at + i).load(Ordering::Relaxed);
        }
        let at = at + head.len();
        let (words, tail) = rest.as_chunks_mut::<WORD>();
        for (i, w) in words.iter_mut().enumerate() {
            *w = self
                .word(at + WORD * i)
                .load(Ordering::Relaxed)
                .to_ne_bytes();
        }
        let at = at + WORD * words.len();
        for (i, b) in tail.iter_mut().enumerate() {
            *b = self.byte(at + i).load(Ordering::Relaxed);
        }
    }
    /// Copies in. The device may see it in any order until the next doorbell.
    ///
    /// # Panics
    /// Out of bounds.
    #[inline]
    pub fn write(&self, at: usize, from: &[u8]) {
        self.check(at, from.len());
        let head = at.wrapping_neg() % WORD;
        let (head, rest) = from.split_at(head.min(from.len()));
        for (i, b) in head.iter().enumerate() {
            self.byte(at + i).store(*b, Ordering::Relaxed);
        }
        let at = at + head.len();
        let (words, tail) = rest.as_chunks::<WORD>();
        for (i, w) in words.iter().enumerate() {
            self.word(at + WORD * i)
                .store(u32::from_ne_bytes(*w), Ordering::Relaxed);
        }
        let at = at + WORD * words.len();
        for (i, b) in tail.iter().enumerate() {
            self.byte(at + i).store(*b, Ordering::Relaxed);
        }
    }
    /// Copies into a new vector.
    pub fn to_vec(&self, at: usize, len: usize) -> Vec<u8> {
        let mut v = vec![0; len];
        self.read(at, &mut v);
        v
    }
}
