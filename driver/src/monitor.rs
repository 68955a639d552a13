//! Looking at a device without using it.
use crate::context::identify;
use crate::error::Result;
use crate::transport::vfio_user::Look;
use crate::transport::{Address, Transport};
use rocenic_contract::counters::Counter;
use rocenic_contract::regs::control;
use std::sync::Arc;

/// Registers and counters of a device, beside the program that uses it.
///
/// A simulated device can be looked at by anybody. A PCI device belongs to one process: it can be looked at while nobody uses
/// it, and is reset by that.
pub struct Monitor(Way);

enum Way {
    Look(Look),
    Own(Arc<dyn Transport>),
}

impl Monitor {
    /// Checks that the device is ours and speaks this driver's contract.
    pub fn open(address: &Address) -> Result<Monitor> {
        let way = match address {
            Address::VfioUser(path) => Way::Look(Look::at(path)?),
            Address::Vfio(_) => Way::Own(address.open()?),
        };
        let m = Monitor(way);
        identify(&|register| m.raw(register))?;
        Ok(m)
    }
    fn raw(&self, addr: u64) -> std::result::Result<u32, crate::TransportError> {
        match &self.0 {
            Way::Look(l) => l.read32(addr),
            Way::Own(t) => t.read32(addr),
        }
    }
    /// A register of BAR0.
    pub fn register(&self, addr: u64) -> Result<u32> {
        Ok(self.raw(addr)?)
    }
    fn wide(&self, addr: u64) -> Result<u64> {
        match &self.0 {
            Way::Look(l) => Ok(l.read64(addr)?),
            // nobody else reads it
            Way::Own(t) => {
                let low = t.read32(addr)?;
                let high = t.read32(addr + size_of::<u32>() as u64)?;
                Ok(u64::from(high) << u32::BITS | u64::from(low))
            }
        }
    }
    /// A counter of the device.
    pub fn counter(&self, c: Counter) -> Result<u64> {
        self.wide(c.addr())
    }
    /// The device's cycle counter.
    pub fn cycles(&self) -> Result<u64> {
        self.wide(control::CYCLES_LO)
    }
}
