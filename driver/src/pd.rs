//! Protection domains: a queue pair reaches only regions of its own.
use crate::context::{Context, Inner, lock};
use crate::cq::Cq;
use crate::error::Result;
use crate::mr::{Access, Mr, MrBuilder};
use crate::qp::QpBuilder;
use crate::srq::Srq;
use crate::transport::UserMemory;
use std::sync::Arc;

/// A protection domain. Cheap to clone; its number is free again when the last user is gone.
#[derive(Clone)]
pub struct Pd {
    pub(crate) inner: Arc<PdInner>,
}

pub(crate) struct PdInner {
    pub ctx: Arc<Inner>,
    pub number: u16,
}

impl Drop for PdInner {
    fn drop(&mut self) {
        lock(&self.ctx.pds).give_back(self.number as u32);
    }
}

impl Pd {
    pub(crate) fn new(ctx: &Context) -> Result<Self> {
        let number = lock(&ctx.inner.pds).take()? as u16;
        Ok(Pd {
            inner: Arc::new(PdInner {
                ctx: ctx.inner.clone(),
                number,
            }),
        })
    }
    /// Zeroed, registered memory of `bytes` bytes.
    pub fn alloc_mr(&self, bytes: usize, access: Access) -> Result<Mr> {
        self.mr(bytes, access).register()
    }
    /// Memory of the program, registered where the transport can (in this process, by kernel VFIO). Its virtual address is
    /// its address.
    pub fn register(&self, memory: UserMemory, access: Access) -> Result<Mr> {
        MrBuilder::of(self, memory, access).register()
    }
    /// As `alloc_mr`, with more to choose.
    pub fn mr(&self, bytes: usize, access: Access) -> MrBuilder<'_> {
        MrBuilder::new(self, bytes, access)
    }
    /// A shared receive queue with room for at least `entries` receives.
    pub fn create_srq(&self, entries: u32) -> Result<Srq> {
        Srq::create(self, entries)
    }
    /// A reliable connection whose completions go to these queues.
    pub fn qp(&self, send_cq: &Cq, recv_cq: &Cq) -> QpBuilder {
        QpBuilder::new(self, send_cq, recv_cq)
    }
}
