//! Memory regions: DMA memory that queue pairs may name by key.
use crate::context::{lock, not_destroyed};
use crate::error::{Error, Result};
use crate::pd::{Pd, PdInner};
use crate::transport::{DmaMemory, UserMemory};
use rocenic_contract::cmd::{
    self, create_mr::CreateMr, object::Object, opcode::Command, rekey_mr::RekeyMr,
};
use std::ops::{BitOr, Range};
use std::sync::Arc;

/// Virtual addresses of regions are IOVAs above this number. They are not addresses of this process: then the same
/// program makes the same packets each time, and virtual addresses and IOVAs cannot be mistaken for each other.
const VA_BASE: u64 = 0x5500_0000_0000;

/// Rights on a region, or of remote requests on a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Access(u8);

impl Access {
    /// Reading locally, which is always allowed.
    pub const NONE: Access = Access(0);
    pub const LOCAL_WRITE: Access = Access(cmd::access::LOCAL_WRITE as u8);
    pub const REMOTE_WRITE: Access = Access(cmd::access::REMOTE_WRITE as u8);
    pub const REMOTE_READ: Access = Access(cmd::access::REMOTE_READ as u8);
    pub const REMOTE_ATOMIC: Access = Access(cmd::access::REMOTE_ATOMIC as u8);
    /// As a number of the contract.
    pub const fn bits(self) -> u8 {
        self.0
    }
    pub const fn contains(self, other: Access) -> bool {
        self.0 & other.0 == other.0
    }
}
impl BitOr for Access {
    type Output = Access;
    fn bitor(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}

/// A region to be made.
pub struct MrBuilder<'p> {
    pd: &'p Pd,
    bytes: usize,
    memory: Option<UserMemory>,
    access: Access,
    va: Option<u64>,
    offset: usize,
    number: Option<u32>,
}

impl<'p> MrBuilder<'p> {
    pub(crate) fn new(pd: &'p Pd, bytes: usize, access: Access) -> Self {
        MrBuilder {
            pd,
            bytes,
            memory: None,
            access,
            va: None,
            offset: 0,
            number: None,
        }
    }
    pub(crate) fn of(pd: &'p Pd, memory: UserMemory, access: Access) -> Self {
        MrBuilder {
            va: Some(memory.address()),
            offset: memory.page_offset(),
            bytes: memory.len(),
            memory: Some(memory),
            ..MrBuilder::new(pd, 0, access)
        }
    }
    /// Virtual address of the first byte; 0 makes a zero-based region.
    pub fn va(mut self, va: u64) -> Self {
        self.va = Some(va);
        self
    }
    /// Begins the region `offset` bytes behind a page boundary (memory of the program is where it is).
    pub fn page_offset(mut self, offset: usize) -> Self {
        if self.memory.is_none() {
            self.offset = offset;
        }
        self
    }
    /// Region number: the upper bytes of the key.
    pub fn number(mut self, number: u32) -> Self {
        self.number = Some(number);
        self
    }
    /// Registers the memory, allocating it unless it is the program's.
    pub fn register(self) -> Result<Mr> {
        let ctx = &self.pd.inner.ctx;
        let bad = |value: u64, allowed: &str| Error::Argument {
            what: "length of a region",
            value,
            allowed: allowed.into(),
        };
        if self.bytes == 0 {
            return Err(bad(0, "at least 1 byte"));
        }
        let whole = self.offset.checked_add(self.bytes);
        let whole = whole.ok_or(bad(self.bytes as u64, "offset and length must not wrap"))?;
        let memory = match self.memory {
            Some(m) => ctx.transport.map_user(m)?,
            None => ctx.transport.alloc_dma(whole)?,
        };
        let iova = memory.iova() + self.offset as u64;
        let va = self.va.unwrap_or(VA_BASE + iova);
        if va.checked_add(self.bytes as u64).is_none() {
            return Err(bad(self.bytes as u64, "the region must end below 2^64"));
        }
        let index = {
            let mut r = lock(&ctx.regions);
            match self.number {
                Some(n) => r.take_this(n)?,
                None => r.take()?,
            }
        };
        let variant = lock(&ctx.variants)[index as usize];
        let input = CreateMr {
            key_variant: variant,
            index,
            pd: self.pd.inner.number,
            rights: self.access.bits(),
            va,
            length: self.bytes as u64,
            iova,
            ..Default::default()
        };
        let made = ctx.command(Command::CreateMr, &input.to_bytes(), &|| {
            format!("memory region {index}")
        });
        if let Err(e) = made {
            lock(&ctx.regions).give_back(index);
            return Err(e);
        }
        Ok(Mr {
            pd: self.pd.inner.clone(),
            memory: Some(memory),
            offset: self.offset,
            bytes: self.bytes,
            access: self.access,
            va,
            key: cmd::key(index, variant),
        })
    }
}

/// Registered memory. Dropping it deregisters: the memory is free when the device has finished with it.
///
/// Pieces of it for work requests borrow it, so that a request cannot be built from memory that is gone:
/// ```compile_fail,E0505
/// # use rocenic_driver::*;
/// fn f(mr: Mr, qp: &mut Qp<Rts>) -> Result<()> {
///     let piece = mr.all();
///     drop(mr);
///     qp.post_send(&SendRequest::send(&[piece]))
/// }
/// ```
pub struct Mr {
    pd: Arc<PdInner>,
    /// `None` once it is deregistered.
    memory: Option<DmaMemory>,
    offset: usize,
    bytes: usize,
    access: Access,
    va: u64,
    key: u32,
}

impl Mr {
    pub fn len(&self) -> usize {
        self.bytes
    }
    pub fn is_empty(&self) -> bool {
        false // a region has at least one byte
    }
    /// Local key.
    pub fn lkey(&self) -> u32 {
        self.key
    }
    /// Remote key.
    pub fn rkey(&self) -> u32 {
        self.key
    }
    /// Virtual address of the first byte.
    pub fn va(&self) -> u64 {
        self.va
    }
    pub fn access(&self) -> Access {
        self.access
    }
    /// Copies data in.
    ///
    /// # Panics
    /// Out of bounds.
    pub fn write(&self, at: usize, data: &[u8]) {
        self.check(at, data.len());
        self.memory().write(self.offset + at, data);
    }
    /// Copies data out.
    ///
    /// # Panics
    /// Out of bounds.
    pub fn read(&self, at: usize, to: &mut [u8]) {
        self.check(at, to.len());
        self.memory().read(self.offset + at, to);
    }
    /// Copies into a new vector.
    ///
    /// # Panics
    /// Out of bounds.
    pub fn to_vec(&self, range: Range<usize>) -> Vec<u8> {
        let mut v = vec![0; range.len()];
        self.read(range.start, &mut v);
        v
    }
    fn check(&self, at: usize, len: usize) {
        let ok = at.checked_add(len).is_some_and(|end| end <= self.bytes);
        assert!(
            ok,
            "region of {} bytes: access to {len} bytes at {at}",
            self.bytes
        );
    }
    fn checked(&self, range: Range<usize>) -> Result<(usize, u32)> {
        let ok = range.start <= range.end && range.end <= self.bytes;
        match u32::try_from(range.len()) {
            Ok(len) if ok => Ok((range.start, len)),
            _ => Err(Error::Argument {
                what: "end of a piece",
                value: range.end as u64,
                allowed: format!("region {:#x} has {} bytes", self.key, self.bytes),
            }),
        }
    }
    /// A piece of the region for a work request.
    pub fn slice(&self, range: Range<usize>) -> Result<Sge<'_>> {
        let (at, len) = self.checked(range)?;
        Ok(Sge { mr: self, at, len })
    }
    /// The whole region (up to 4 GiB - 1) for a work request.
    pub fn all(&self) -> Sge<'_> {
        Sge {
            mr: self,
            at: 0,
            len: u32::try_from(self.bytes).unwrap_or(u32::MAX),
        }
    }
    /// A piece of the region for the other side.
    pub fn remote(&self, range: Range<usize>) -> Result<RemoteMemory> {
        let (at, len) = self.checked(range)?;
        Ok(RemoteMemory {
            va: self.va.wrapping_add(at as u64),
            rkey: self.key,
            len,
        })
    }
    fn memory(&self) -> &DmaMemory {
        self.memory
            .as_ref()
            .expect("only `release` takes it, at the end of the region's life")
    }
    pub(crate) fn pd_number(&self) -> u16 {
        self.pd.number
    }
    /// Gives the region a new key, and kills the old one if a message or a request has not done that already. Who is to
    /// use the region next needs the new key. Nothing of the device's reads or writes under the old one any more.
    /// After an error the region may have no key that is known: ask again, or destroy it.
    pub fn rekey(&mut self) -> Result<()> {
        let (index, key_variant) = self.next_variant();
        let input = RekeyMr { key_variant, index };
        self.pd
            .ctx
            .command(Command::RekeyMr, &input.to_bytes(), &|| {
                format!("memory region {index}")
            })?;
        self.key = cmd::key(index, key_variant);
        Ok(())
    }
    fn next_variant(&self) -> (u32, u8) {
        let index = cmd::key_index(self.key);
        let mut v = lock(&self.pd.ctx.variants);
        let v = &mut v[index as usize];
        *v = v.wrapping_add(1);
        (index, *v)
    }
    /// The key that a request is to make valid.
    pub(crate) fn next_key(&mut self) -> u32 {
        let (index, variant) = self.next_variant();
        self.key = cmd::key(index, variant);
        self.key
    }
    /// Deregisters and says whether that worked. After an error the memory stays mapped until the
    /// device is closed: it may still use it.
    pub fn destroy(mut self) -> Result<()> {
        self.release()
    }
    fn release(&mut self) -> Result<()> {
        let Some(memory) = self.memory.take() else {
            return Ok(());
        };
        let ctx = &self.pd.ctx;
        let index = cmd::key_index(self.key);
        let input = Object {
            number: index,
            ..Default::default()
        };
        let what = || format!("memory region {index}");
        if let Err(e) = ctx.command(Command::DestroyMr, &input.to_bytes(), &what) {
            ctx.keep(&e, [memory]);
            return Err(e);
        }
        let mut v = lock(&ctx.variants);
        v[index as usize] = v[index as usize].wrapping_add(1);
        lock(&ctx.regions).give_back(index);
        Ok(())
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        if let Err(e) = self.release() {
            not_destroyed(&e);
        }
    }
}

/// A piece of a region, for a work request.
#[derive(Clone, Copy)]
pub struct Sge<'m> {
    mr: &'m Mr,
    at: usize,
    len: u32,
}

impl Sge<'_> {
    pub(crate) fn mr(&self) -> &Mr {
        self.mr
    }
    pub fn len(&self) -> u32 {
        self.len
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// As the rings hold it.
    pub(crate) fn entry(&self) -> rocenic_contract::sge::Sge {
        rocenic_contract::sge::Sge {
            va: self.mr.va.wrapping_add(self.at as u64),
            length: self.len,
            lkey: self.mr.key,
        }
    }
    /// Copies the piece out.
    pub(crate) fn copy_to(&self, to: &mut [u8]) {
        self.mr.read(self.at, to);
    }
}

/// Memory of the other side: what it tells us about a region it lets us use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteMemory {
    pub va: u64,
    pub rkey: u32,
    pub len: u32,
}

impl RemoteMemory {
    /// A part of it.
    pub fn slice(&self, range: Range<u32>) -> Result<RemoteMemory> {
        if range.start > range.end || range.end > self.len {
            return Err(Error::Argument {
                what: "end of a remote piece",
                value: range.end as u64,
                allowed: format!("remote region {:#x} has {} bytes", self.rkey, self.len),
            });
        }
        let va = self.va.wrapping_add(range.start as u64);
        Ok(RemoteMemory {
            va,
            rkey: self.rkey,
            len: range.end - range.start,
        })
    }
}
