//! The PCI function that carries the device: identity, BARs, MSI-X. The PCIe shell and the simulator present it, drivers
//! look for it.
use crate::caps::VECTORS;
use crate::regs::MSIX_PAGE;

/// Vendor ID. Rocenic has none from the PCI-SIG; this one belongs to nobody.
pub const VENDOR_ID: u16 = 0xf0ce;
pub const DEVICE_ID: u16 = 0x0001;
pub const REVISION: u8 = 0;
/// Network controller, Ethernet.
pub const CLASS: u32 = 0x02_0000;
/// BAR with registers, doorbells and the MSI-X page: 64-bit, not prefetchable, `regs::BAR0_BYTES` long.
pub const REGISTER_BAR: u32 = 0;
/// BAR with the push windows: 64-bit, prefetchable (write-combining), `regs::BAR2_BYTES` long.
pub const PUSH_BAR: u32 = 2;
/// MSI-X table in `REGISTER_BAR`: 16 bytes a vector.
pub const MSIX_TABLE: u64 = MSIX_PAGE;
/// MSI-X pending bits in `REGISTER_BAR`.
pub const MSIX_PENDING: u64 = MSIX_PAGE + 0x800;
/// Bytes of an entry of the MSI-X table.
pub const MSIX_ENTRY_BYTES: usize = 16;

const _: () = assert!(MSIX_TABLE as usize + MSIX_ENTRY_BYTES * VECTORS <= MSIX_PENDING as usize);
