//! The event queue: completions of armed CQs, and what happens to queue pairs, the port and the device.
use crate::context::{Inner, not_destroyed};
use crate::error::{Error, Result};
use crate::ring::DeviceRing;
use rocenic_contract::cmd::create_eq::CreateEq;
use rocenic_contract::cmd::object::Object;
use rocenic_contract::cmd::opcode::Command;
use rocenic_contract::eqe::{self, Eqe, event::Event};
use rocenic_contract::regs::doorbell;
use rocenic_contract::rules::Check;
use std::sync::Arc;

/// The driver has one event queue, on one vector.
pub(crate) const EQN: u8 = 0;
pub(crate) const VECTOR: u16 = 0;

/// Something the device tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceEvent {
    pub event: Event,
    /// QPN or CQN, by event.
    pub number: u32,
    /// The check that failed.
    pub check: Option<Check>,
    pub info: u32,
}

pub(crate) struct EventQueue {
    ring: DeviceRing<{ eqe::BYTES }>,
}

fn name() -> String {
    format!("EQ {EQN}")
}

impl EventQueue {
    pub fn create(ctx: &Arc<Inner>, log2: u8) -> Result<Self> {
        let memory = ctx.transport.alloc_dma(eqe::BYTES << log2)?;
        let ring = DeviceRing::new(memory, log2 as u32);
        let input = CreateEq {
            eqn: EQN,
            log2_size: log2,
            vector: VECTOR,
            base_iova: ring.iova(),
            ..Default::default()
        };
        ctx.command(Command::CreateEq, &input.to_bytes(), &name)?;
        ctx.doorbell(doorbell::EQ_CI, ring.consumer(), EQN as u32)?;
        Ok(EventQueue { ring })
    }
    /// The next event; the device may interrupt for those behind it.
    pub fn poll(&mut self, ctx: &Inner) -> Result<Option<DeviceEvent>> {
        let e = self.take();
        if !matches!(e, Ok(None)) {
            self.rearm(ctx)?;
        }
        e
    }
    /// Tells the device how far events have been taken: it interrupts for the next one, at once if it is there.
    pub fn rearm(&self, ctx: &Inner) -> Result<()> {
        ctx.doorbell(doorbell::EQ_CI, self.ring.consumer(), EQN as u32)
    }
    /// The next event; the device does not learn that it was taken.
    pub fn take(&mut self) -> Result<Option<DeviceEvent>> {
        let Some(bytes) = self.ring.take(eqe::PHASE.byte()) else {
            return Ok(None);
        };
        let e = Eqe::from_bytes(&bytes);
        let event = Event::from_number(e.etype).ok_or_else(|| Error::Device {
            object: name(),
            what: format!("event type {:#x}", e.etype),
        })?;
        let check = u8::try_from(e.syndrome).ok().and_then(Check::from_number);
        let check = check.filter(|c| *c != Check::None);
        Ok(Some(DeviceEvent {
            event,
            number: e.number,
            check,
            info: e.info,
        }))
    }
    pub fn destroy(self, ctx: &Inner) {
        let input = Object {
            number: EQN as u32,
            ..Default::default()
        };
        if let Err(e) = ctx.command(Command::DestroyEq, &input.to_bytes(), &name) {
            not_destroyed(&e);
            ctx.keep(&e, [self.ring.into_memory()]);
        }
    }
}
