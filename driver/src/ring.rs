//! Rings in DMA memory: work queues (the driver produces) and completion or event queues (the device produces).
use crate::indices::Indices;
use crate::transport::DmaMemory;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

/// A send or receive queue. The queue pair posts; whoever polls the completion queue retires.
pub(crate) struct WorkQueue {
    memory: DmaMemory,
    indices: Indices,
    /// Entries that go on with the request of the entry before.
    follows: Box<[AtomicBool]>,
    /// Index of the last entry that completed with an error; only who polls changes it.
    failed: AtomicU32,
}
/// No index.
const NONE: u32 = u32::MAX;

impl WorkQueue {
    pub fn new(memory: DmaMemory, size: u32) -> Self {
        WorkQueue {
            memory,
            indices: Indices::new(size),
            follows: (0..size).map(|_| AtomicBool::new(false)).collect(),
            failed: AtomicU32::new(NONE),
        }
    }
    pub fn iova(&self) -> u64 {
        self.memory.iova()
    }
    pub fn size(&self) -> u32 {
        self.indices.size()
    }
    /// Entries posted and not completed.
    pub fn used(&self) -> u32 {
        self.indices.used()
    }
    /// Index the next entry gets.
    pub fn next_index(&self) -> u16 {
        self.indices.next()
    }
    /// Notes that an entry completed with an error; whether its request has already, with the entry before.
    pub fn fail(&self, index: u16) -> bool {
        let before = self.failed.swap(index.into(), Ordering::Relaxed);
        let follows = self.follows[self.indices.slot(index)].load(Ordering::Relaxed);
        follows && before == u32::from(index.wrapping_sub(1))
    }
    /// Writes an entry; the caller has seen that there is room. Gives the new producer index, to be doorbelled after
    /// [`publish`](Self::publish).
    pub fn put<const N: usize>(&self, id: u64, entry: &[u8; N]) -> u16 {
        self.put_part(id, entry, false)
    }
    /// The same of an entry that may go on with the request before.
    pub fn put_part<const N: usize>(&self, id: u64, entry: &[u8; N], follows: bool) -> u16 {
        self.indices.put(id, |slot| {
            self.follows[slot].store(follows, Ordering::Relaxed);
            self.memory.write_entry(N * slot, entry)
        })
    }
    /// What was put is visible to the device before a doorbell that follows.
    pub fn publish() {
        fence(Ordering::Release);
    }
    /// See [`Indices::retire`].
    pub fn retire(&self, index: u16) -> Option<u64> {
        self.indices.retire(index)
    }
    /// See [`Indices::reset`].
    pub fn reset(&self) {
        self.failed.store(NONE, Ordering::Relaxed);
        self.indices.reset();
    }
    pub fn into_memory(self) -> DmaMemory {
        self.memory
    }
}

/// A ring the device fills; an entry is new when its phase bit fits the lap.
pub(crate) struct DeviceRing<const N: usize> {
    memory: DmaMemory,
    log2: u32,
    /// Free-running index of the next entry to look at.
    consumer: u32,
}

impl<const N: usize> DeviceRing<N> {
    pub fn new(memory: DmaMemory, log2: u32) -> Self {
        DeviceRing {
            memory,
            log2,
            consumer: 0,
        }
    }
    pub fn iova(&self) -> u64 {
        self.memory.iova()
    }
    pub fn consumer(&self) -> u16 {
        self.consumer as u16
    }
    /// The next entry, if the device has written it. `phase` is the byte of the word whose bit 0 is the phase.
    #[inline(always)]
    pub fn take(&mut self, phase: usize) -> Option<[u8; N]> {
        let lap = self.consumer >> self.log2;
        let at = N * (self.consumer & ((1 << self.log2) - 1)) as usize;
        if self.memory.read_u32(at + phase) & 1 == lap & 1 {
            return None; // first lap: 1 is new
        }
        let entry = self.memory.read_entry(at);
        self.consumer = self.consumer.wrapping_add(1);
        Some(entry)
    }
    pub fn into_memory(self) -> DmaMemory {
        self.memory
    }
}
