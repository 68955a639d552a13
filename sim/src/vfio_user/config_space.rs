//! PCI configuration space of the simulated function: what it says, and which bits of it can be written.
use rocenic_contract::{caps, pci, regs};

/// Bytes: a PCI Express function's.
pub const BYTES: usize = 4096;

const COMMAND: usize = 0x04;
const STATUS: usize = 0x06;
const BARS: usize = 0x10;
const SUBSYSTEM: usize = 0x2c;
const CAPABILITIES: usize = 0x34;
const INTERRUPT_LINE: usize = 0x3c;
const POWER: usize = 0x40;
const POWER_STATE: usize = POWER + 4;
const D3_HOT: u16 = 3;
const MSIX: usize = 0x50;
const EXPRESS: usize = 0x70;

const MEMORY_SPACE: u16 = 1 << 1;
const BUS_MASTER: u16 = 1 << 2;
const PARITY_SERR_INTX: u16 = 1 << 6 | 1 << 8 | 1 << 10;
const HAS_CAPABILITIES: u8 = 1 << 4;
const BAR_64_BIT: u32 = 1 << 2;
const BAR_PREFETCHABLE: u32 = 1 << 3;
const MSIX_CONTROL: usize = MSIX + 2;
const MSIX_ENABLE_AND_MASK: u16 = 3 << 14;
const DEVICE_CONTROL: usize = EXPRESS + 8;
const INITIATE_FLR: u16 = 1 << 15;

/// What a write asks for beside changing bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    pub reset: bool,
    /// Bus mastering was switched on or off.
    pub bus_master: Option<bool>,
}

pub struct ConfigSpace {
    bytes: [u8; BYTES],
    /// Bits that software may write.
    writable: [u8; BYTES],
}

impl ConfigSpace {
    pub fn new() -> Self {
        let mut c = ConfigSpace {
            bytes: [0; BYTES],
            writable: [0; BYTES],
        };
        c.fixed16(0x00, pci::VENDOR_ID);
        c.fixed16(0x02, pci::DEVICE_ID);
        c.bytes[STATUS] = HAS_CAPABILITIES;
        c.fixed32(0x08, pci::CLASS << 8 | u32::from(pci::REVISION));
        c.fixed16(SUBSYSTEM, pci::VENDOR_ID);
        c.fixed16(SUBSYSTEM + 2, pci::DEVICE_ID);
        c.may_write16(COMMAND, MEMORY_SPACE | BUS_MASTER | PARITY_SERR_INTX);
        c.writable[INTERRUPT_LINE] = 0xff;
        c.bar(pci::REGISTER_BAR, regs::BAR0_BYTES, BAR_64_BIT);
        c.bar(
            pci::PUSH_BAR,
            regs::BAR2_BYTES,
            BAR_64_BIT | BAR_PREFETCHABLE,
        );
        c.bytes[CAPABILITIES] = POWER as u8;
        // power management: D0 and D3hot, no reset on the way back
        c.capability(POWER, 0x01, MSIX);
        c.fixed16(POWER + 2, 0x0003);
        c.fixed16(POWER_STATE, 0x0008);
        c.may_write16(POWER_STATE, D3_HOT);
        c.capability(MSIX, 0x11, EXPRESS);
        c.fixed16(MSIX_CONTROL, caps::VECTORS as u16 - 1);
        c.may_write16(MSIX_CONTROL, MSIX_ENABLE_AND_MASK);
        c.fixed32(MSIX + 4, pci::MSIX_TABLE as u32 | pci::REGISTER_BAR);
        c.fixed32(MSIX + 8, pci::MSIX_PENDING as u32 | pci::REGISTER_BAR);
        // an endpoint, version 2, that reports errors by role and can be reset
        c.capability(EXPRESS, 0x10, 0);
        c.fixed16(EXPRESS + 2, 0x0002);
        c.fixed32(EXPRESS + 4, 1 << 15 | 1 << 28);
        c.may_write16(DEVICE_CONTROL, !INITIATE_FLR);
        // 16 lanes at 8 GT/s
        c.fixed32(EXPRESS + 0xc, 16 << 4 | 3);
        c.fixed16(EXPRESS + 0x12, 16 << 4 | 3);
        c
    }
    fn fixed16(&mut self, at: usize, v: u16) {
        self.bytes[at..at + 2].copy_from_slice(&v.to_le_bytes());
    }
    fn fixed32(&mut self, at: usize, v: u32) {
        self.bytes[at..at + 4].copy_from_slice(&v.to_le_bytes());
    }
    fn may_write16(&mut self, at: usize, bits: u16) {
        self.writable[at..at + 2].copy_from_slice(&bits.to_le_bytes());
    }
    /// A 64-bit BAR: address bits below its size read 0, so that software can find the size.
    fn bar(&mut self, number: u32, size: u64, kind: u32) {
        let at = BARS + 4 * number as usize;
        self.fixed32(at, kind);
        self.writable[at..at + 8].copy_from_slice(&(!(size - 1)).to_le_bytes());
    }
    fn capability(&mut self, at: usize, id: u8, next: usize) {
        self.bytes[at] = id;
        self.bytes[at + 1] = next as u8;
    }
    fn word(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }
    /// A function that sleeps neither answers nor does DMA.
    fn allows(&self, bit: u16) -> bool {
        self.word(COMMAND) & bit != 0 && self.word(POWER_STATE) & D3_HOT == 0
    }
    pub fn bus_master(&self) -> bool {
        self.allows(BUS_MASTER)
    }
    pub fn memory_space(&self) -> bool {
        self.allows(MEMORY_SPACE)
    }
    /// `None` when it is not all inside.
    pub fn read(&self, at: u64, len: usize) -> Option<&[u8]> {
        let at = usize::try_from(at).ok()?;
        self.bytes.get(at..at.checked_add(len)?)
    }
    /// `None` when it is not all inside.
    pub fn write(&mut self, at: u64, data: &[u8]) -> Option<Effect> {
        let at = usize::try_from(at).ok()?;
        let end = at.checked_add(data.len()).filter(|e| *e <= BYTES)?;
        let before = self.bus_master();
        let power = self.word(POWER_STATE);
        for ((b, w), d) in self.bytes[at..end]
            .iter_mut()
            .zip(&self.writable[at..end])
            .zip(data)
        {
            *b = *b & !w | d & w;
        }
        // D1 and D2 there are not
        if !matches!(self.word(POWER_STATE) & D3_HOT, 0 | D3_HOT) {
            self.fixed16(POWER_STATE, power);
        }
        let flr = DEVICE_CONTROL + 1;
        let reset = (at..end).contains(&flr) && u16::from(data[flr - at]) << 8 & INITIATE_FLR != 0;
        let after = self.bus_master();
        Some(Effect {
            reset,
            bus_master: (before != after).then_some(after),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_finds_the_sizes_of_both_bars() {
        let mut c = ConfigSpace::new();
        for (bar, size) in [
            (pci::REGISTER_BAR, regs::BAR0_BYTES),
            (pci::PUSH_BAR, regs::BAR2_BYTES),
        ] {
            let at = BARS as u64 + 4 * u64::from(bar);
            assert!(c.write(at, &[0xff; 8]).is_some());
            let read = c.read(at, 8).and_then(|b| b.try_into().ok());
            let mask = u64::from_le_bytes(read.unwrap_or_default()) & !0xf;
            assert_eq!(mask.wrapping_neg(), size, "BAR{bar}");
        }
    }
    #[test]
    fn capabilities_lead_from_one_to_the_next_and_end() {
        let c = ConfigSpace::new();
        let mut at = usize::from(c.bytes[CAPABILITIES]);
        let mut ids = vec![];
        while at != 0 && ids.len() < 10 {
            ids.push(c.bytes[at]);
            at = usize::from(c.bytes[at + 1]);
        }
        assert_eq!(ids, [0x01, 0x11, 0x10]);
    }
    #[test]
    fn flr_is_asked_for_by_one_bit_which_does_not_stay() {
        let mut c = ConfigSpace::new();
        let at = DEVICE_CONTROL as u64;
        assert_eq!(c.write(at, &[0, 0x80]).map(|e| e.reset), Some(true));
        assert_eq!(c.word(DEVICE_CONTROL) & INITIATE_FLR, 0);
        assert_eq!(c.write(at, &[0xff, 0x7f]).map(|e| e.reset), Some(false));
        assert_eq!(c.write(at + 1, &[0x80]).map(|e| e.reset), Some(true));
    }
    #[test]
    fn a_function_that_sleeps_is_no_bus_master_and_wakes_as_it_was() {
        let mut c = ConfigSpace::new();
        let at = POWER_STATE as u64;
        assert!(c.write(COMMAND as u64, &[6, 0]).is_some());
        assert_eq!(c.write(at, &[1, 0]), Some(Effect::default()), "no D1");
        assert_eq!(c.write(at, &[3, 0]).and_then(|e| e.bus_master), Some(false));
        assert_eq!(c.word(POWER_STATE), 0x000b);
        assert!(!c.memory_space());
        assert_eq!(c.write(at, &[0, 0]).and_then(|e| e.bus_master), Some(true));
        assert!(c.memory_space());
    }
    #[test]
    fn bus_mastering_is_told_when_it_changes_and_identity_cannot_be_written() {
        let mut c = ConfigSpace::new();
        let on = c.write(COMMAND as u64, &[0xff, 0xff]);
        assert_eq!(on.and_then(|e| e.bus_master), Some(true));
        let again = c.write(COMMAND as u64, &[0xff, 0xff]);
        assert_eq!(again.and_then(|e| e.bus_master), None);
        assert!(c.write(0, &[0; 4]).is_some());
        assert_eq!(c.word(0), pci::VENDOR_ID);
        assert!(c.read(BYTES as u64 - 1, 2).is_none());
        assert!(c.write(u64::MAX, &[0; 2]).is_none());
    }
}
