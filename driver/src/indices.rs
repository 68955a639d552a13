//! Who owns which entry of a work queue: one thread posts, another retires what the device completed, without a lock.
//! Atomics come from `crate::sync`, so that a test can put those of a model checker there.
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Free-running 16-bit indices of a ring and the user's number of each entry.
pub(crate) struct Indices {
    ids: Box<[AtomicU64]>,
    /// Next entry to write; only who posts changes it.
    producer: AtomicU32,
    /// Oldest entry that has not completed; only who polls changes it.
    consumer: AtomicU32,
}

impl Indices {
    /// `size` is a power of two, at most 2^15.
    pub fn new(size: u32) -> Self {
        Indices {
            ids: (0..size).map(|_| AtomicU64::new(0)).collect(),
            producer: AtomicU32::new(0),
            consumer: AtomicU32::new(0),
        }
    }
    pub fn size(&self) -> u32 {
        self.ids.len() as u32
    }
    /// Place of an index in the ring.
    pub fn slot(&self, index: u16) -> usize {
        index as usize & (self.ids.len() - 1)
    }
    /// Entries posted and not completed.
    pub fn used(&self) -> u32 {
        let p = self.producer.load(Ordering::Acquire);
        let c = self.consumer.load(Ordering::Acquire);
        (p as u16).wrapping_sub(c as u16) as u32
    }
    /// Index the next entry gets.
    pub fn next(&self) -> u16 {
        self.producer.load(Ordering::Relaxed) as u16
    }
    /// Posts the next entry, for which the caller has seen room; `write` puts it into its slot. Gives the new producer
    /// index.
    pub fn put(&self, id: u64, write: impl FnOnce(usize)) -> u16 {
        let index = self.next();
        let slot = self.slot(index);
        self.ids[slot].store(id, Ordering::Relaxed);
        write(slot);
        let next = index.wrapping_add(1);
        self.producer.store(next as u32, Ordering::Release);
        next
    }
    /// The device says that this entry completed, and with it all before it. Gives the entry's number; `None` when no
    /// such entry is outstanding.
    pub fn retire(&self, index: u16) -> Option<u64> {
        let p = self.producer.load(Ordering::Acquire);
        let c = self.consumer.load(Ordering::Relaxed);
        let outstanding = (p as u16).wrapping_sub(c as u16);
        if index.wrapping_sub(c as u16) >= outstanding {
            return None;
        }
        let id = self.ids[self.slot(index)].load(Ordering::Relaxed);
        self.consumer
            .store(index.wrapping_add(1) as u32, Ordering::Release);
        Some(id)
    }
    /// After RESET: both begin at 0 again.
    pub fn reset(&self) {
        self.producer.store(0, Ordering::Release);
        self.consumer.store(0, Ordering::Release);
    }
}
