//! Rings in DMA memory: work queues (the driver produces) and completion or event queues (the device produces).
use crate::transport::DmaMemory;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A send or receive queue. The queue pair posts; whoever polls the completion queue retires.
pub(crate) struct WorkQueue {
    memory: DmaMemory,
    size: u32,
    /// The user's number of each entry.
    ids: Box<[AtomicU64]>,
    /// Next entry to write, as a free-running 16-bit index.
    producer: AtomicU32,
    /// Oldest entry that has not completed.
    consumer: AtomicU32,
}

impl WorkQueue {
    pub fn new(memory: DmaMemory, size: u32) -> Self {
        WorkQueue {
            memory,
            size,
            ids: (0..size).map(|_| AtomicU64::new(0)).collect(),
            producer: AtomicU32::new(0),
            consumer: AtomicU32::new(0),
        }
    }
    pub fn size(&self) -> u32 {
        self.size
    }
    pub fn iova(&self) -> u64 {
        self.memory.iova()
    }
    /// Entries posted and not completed.
    pub fn used(&self) -> u32 {
        let (p, c) = (
            self.producer.load(Ordering::Acquire),
            self.consumer.load(Ordering::Acquire),
        );
        (p as u16).wrapping_sub(c as u16) as u32
    }
    /// Index the next entry gets.
    pub fn next_index(&self) -> u16 {
        self.producer.load(Ordering::Relaxed) as u16
    }
    /// Writes an entry; the caller has seen that there is room. Gives the new producer index, to be doorbelled after
    /// [`publish`](Self::publish).
    pub fn put<const N: usize>(&self, id: u64, entry: &[u8; N]) -> u16 {
        let index = self.next_index();
        let slot = index as u32 & (self.size - 1);
        self.ids[slot as usize].store(id, Ordering::Relaxed);
        self.memory.write_entry(N * slot as usize, entry);
        let next = index.wrapping_add(1);
        self.producer.store(next as u32, Ordering::Release);
        next
    }
    /// What was put is visible to the device before a doorbell that follows.
    pub fn publish() {
        fence(Ordering::Release);
    }
    /// The device says that this entry completed, and with it all before it. Gives the entry's number; `None` when no
    /// such entry is outstanding.
    pub fn retire(&self, index: u16) -> Option<u64> {
        let (p, c) = (
            self.producer.load(Ordering::Acquire),
            self.consumer.load(Ordering::Relaxed),
        );
        let outstanding = (p as u16).wrapping_sub(c as u16);
        if index.wrapping_sub(c as u16) >= outstanding {
            return None;
        }
        let id = self.ids[(index as u32 & (self.size - 1)) as usize].load(Ordering::Relaxed);
        self.consumer
            .store(index.wrapping_add(1) as u32, Ordering::Release);
        Some(id)
    }
    /// After RESET: both indices begin at 0 again.
    pub fn reset(&self) {
        self.producer.store(0, Ordering::Release);
        self.consumer.store(0, Ordering::Release);
    }
    /// Keeps the memory for ever: the device may still use it.
    pub fn leak(self) {
        std::mem::forget(self.memory);
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
    /// Keeps the memory for ever: the device may still use it.
    pub fn leak(self) {
        std::mem::forget(self.memory);
    }
}
