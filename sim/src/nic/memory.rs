//! Host memory as the device reaches it through the IOMMU.

/// Bytes of a line, which is a beat of the bus.
pub const LINE: usize = 64;

/// What is behind the device's bus master port. Lines are aligned to their size.
pub trait Memory: Send {
    /// Reads a line; `false` when it is not mapped.
    fn read(&mut self, iova: u64, line: &mut [u8; LINE]) -> bool;
    /// Writes the bytes whose bit in `strobe` is 1; `false` when they are not mapped.
    fn write(&mut self, iova: u64, line: &[u8; LINE], strobe: u64) -> bool;
}

/// What the bus does with a write into what is not mapped. Reads of it always answer DECERR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockedWrite {
    /// The device is told.
    #[default]
    DecErr,
    /// The write vanishes and is answered OKAY, as PCIe's posted writes may.
    Vanish,
}

pub(super) fn words(line: &[u8; LINE]) -> [u64; 8] {
    let (w, _) = line.as_chunks::<8>();
    std::array::from_fn(|i| u64::from_le_bytes(w[i]))
}
pub(super) fn bytes(words: &[u64; 8]) -> [u8; LINE] {
    let mut line = [0; LINE];
    for (b, w) in line.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *b = w.to_le_bytes();
    }
    line
}
