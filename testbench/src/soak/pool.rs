//! A shared receive queue: which of its places are with the device.
use super::memory::Memory;
use super::queue::{Limits, cut};
use crate::Random;
use anyhow::{Result, ensure};
use rocenic_driver::{Pd, RecvRequest, Srq};

pub struct Pool {
    pub srq: Srq,
    /// Places the device does not have.
    free: Vec<usize>,
    places: usize,
    /// The device is to say when few are left.
    armed: bool,
}
impl Pool {
    pub fn new(pd: &Pd, places: usize) -> Result<Pool> {
        Ok(Pool {
            srq: pd.create_srq(places as u32)?,
            free: (0..places).collect(),
            places,
            armed: false,
        })
    }
    /// Posts up to `n` receives.
    pub fn receive(
        &mut self,
        memory: &Memory,
        limits: &Limits,
        r: &mut Random,
        n: usize,
    ) -> Result<()> {
        for _ in 0..n.min(self.srq.room() as usize) {
            let Some(id) = self.free.pop() else { break };
            let (mr, place) = memory.slot(id);
            let pieces = cut(r, mr, place, limits.receive_pieces)?;
            let request = RecvRequest::new(&pieces).id(id as u64);
            self.srq.post_recv(&request)?;
        }
        if !self.armed && r.percent(10) {
            self.armed = true;
            self.srq.arm(r.within(1, self.places as u64 / 2) as u16)?;
        }
        Ok(())
    }
    /// A receive completed.
    pub fn take_back(&mut self, id: usize) -> Result<()> {
        ensure!(
            id < self.places && !self.free.contains(&id),
            "the receive at place {id} completed, which the device does not have"
        );
        self.free.push(id);
        Ok(())
    }
    /// The device says that few are left; whether it had to.
    pub fn few_left(&mut self) -> bool {
        std::mem::replace(&mut self.armed, false)
    }
}
