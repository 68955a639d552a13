//! Work requests.
use crate::mr::{Mr, RemoteMemory, Sge};
use rocenic_contract::caps;
use rocenic_contract::wqe::{self, opcode::WqeOpcode};

/// What a send request sends, or where a READ puts what it reads.
#[derive(Clone, Copy)]
pub enum Data<'a> {
    /// Pieces of registered memory, which must stay as they are until the request completes.
    Pieces(&'a [Sge<'a>]),
    /// Bytes copied at once; they need not be registered.
    Inline(&'a [u8]),
}
impl<'a> From<&'a [Sge<'a>]> for Data<'a> {
    fn from(p: &'a [Sge<'a>]) -> Self {
        Data::Pieces(p)
    }
}
impl<'a, const N: usize> From<&'a [Sge<'a>; N]> for Data<'a> {
    fn from(p: &'a [Sge<'a>; N]) -> Self {
        Data::Pieces(p)
    }
}
impl<'a> From<&'a [u8]> for Data<'a> {
    fn from(b: &'a [u8]) -> Self {
        Data::Inline(b)
    }
}
impl<'a, const N: usize> From<&'a [u8; N]> for Data<'a> {
    fn from(b: &'a [u8; N]) -> Self {
        Data::Inline(b)
    }
}

/// A request for the send queue. Signalled unless said otherwise.
///
/// A READ needs a place: there is no way to write one without.
/// ```compile_fail,E0061
/// # use rocenic_driver::*;
/// # fn f(remote: RemoteMemory) {
/// let r = SendRequest::read(remote);
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct SendRequest<'a> {
    pub(crate) id: u64,
    pub(crate) opcode: WqeOpcode,
    pub(crate) data: Data<'a>,
    pub(crate) remote: Option<RemoteMemory>,
    pub(crate) imm_or_invkey: u32,
    pub(crate) flags: u64,
    /// Swap or add, and compare.
    pub(crate) operands: Option<[u64; 2]>,
}

impl<'a> SendRequest<'a> {
    fn new(opcode: WqeOpcode, data: Data<'a>, remote: Option<RemoteMemory>) -> Self {
        SendRequest {
            id: 0,
            opcode,
            data,
            remote,
            imm_or_invkey: 0,
            flags: wqe::flag::SIGNALED,
            operands: None,
        }
    }
    /// SEND.
    pub fn send(data: impl Into<Data<'a>>) -> Self {
        Self::new(WqeOpcode::Send, data.into(), None)
    }
    /// SEND that invalidates a key of the other side.
    pub fn send_invalidate(data: impl Into<Data<'a>>, rkey: u32) -> Self {
        SendRequest {
            imm_or_invkey: rkey,
            ..Self::new(WqeOpcode::SendInv, data.into(), None)
        }
    }
    /// RDMA WRITE to the beginning of `remote`.
    pub fn write(data: impl Into<Data<'a>>, remote: RemoteMemory) -> Self {
        Self::new(WqeOpcode::Write, data.into(), Some(remote))
    }
    /// RDMA READ from the beginning of `remote` into `place`. Several pieces make several READs on the wire and in the
    /// queue, of which the last one completes.
    pub fn read(place: &'a [Sge<'a>], remote: RemoteMemory) -> Self {
        Self::new(WqeOpcode::Read, Data::Pieces(place), Some(remote))
    }
    /// Atomic compare and swap; the old value goes to `place`.
    pub fn compare_swap(
        place: &'a [Sge<'a>; 1],
        remote: RemoteMemory,
        compare: u64,
        swap: u64,
    ) -> Self {
        let r = Self::new(WqeOpcode::AtomicCas, Data::Pieces(place), Some(remote));
        SendRequest {
            operands: Some([swap, compare]),
            ..r
        }
    }
    /// Atomic fetch and add; the old value goes to `place`.
    pub fn fetch_add(place: &'a [Sge<'a>; 1], remote: RemoteMemory, add: u64) -> Self {
        let r = Self::new(WqeOpcode::AtomicFaa, Data::Pieces(place), Some(remote));
        SendRequest {
            operands: Some([add, 0]),
            ..r
        }
    }
    /// Takes a key of the queue pair's own protection domain away. It waits for all requests before it, and those behind
    /// it wait for it; when it completes, nothing uses the key any more, from here or from elsewhere. Its region lives on:
    /// [`SendRequest::register`] or [`Mr::rekey`] gives it the next key.
    pub fn local_invalidate(key: u32) -> Self {
        SendRequest {
            imm_or_invkey: key,
            ..Self::new(WqeOpcode::LocalInv, Data::Pieces(&[]), None)
        }
    }
    /// Makes a region valid again, under its next key, which it has from here on: pieces and remote memory taken from it now
    /// are good for requests behind this one. A request of the queue pair's own protection domain or a message must have
    /// taken the old key away, as [`SendRequest::local_invalidate`] does, or this one fails. When posting it is refused (a full
    /// queue, say), the region is without a key of use until another one of these, or [`Mr::rekey`](crate::Mr::rekey), is done.
    pub fn register(mr: &mut Mr) -> Self {
        SendRequest {
            imm_or_invkey: mr.next_key(),
            ..Self::new(WqeOpcode::RegMr, Data::Pieces(&[]), None)
        }
    }
    /// The request's number; comes back in its completion.
    pub fn id(mut self, id: u64) -> Self {
        self.id = id;
        self
    }
    /// Makes a SEND or WRITE one with immediate data (without effect on other requests).
    pub fn immediate(mut self, imm: u32) -> Self {
        self.opcode = match self.opcode {
            WqeOpcode::Send => WqeOpcode::SendImm,
            WqeOpcode::Write => WqeOpcode::WriteImm,
            other => {
                return SendRequest {
                    opcode: other,
                    ..self
                };
            }
        };
        self.imm_or_invkey = imm;
        self
    }
    /// Completes silently. A later signalled request of the queue must free its entry.
    pub fn unsignaled(mut self) -> Self {
        self.flags &= !wqe::flag::SIGNALED;
        self
    }
    /// Wakes the other side when it armed for solicited events.
    pub fn solicited(mut self) -> Self {
        self.flags |= wqe::flag::SOLICITED;
        self
    }
    /// Waits for earlier READs and atomics.
    pub fn fence(mut self) -> Self {
        self.flags |= wqe::flag::FENCE;
        self
    }
    /// The message may be copied into the WQE.
    pub(crate) fn may_be_inline(&self) -> bool {
        use WqeOpcode::*;
        matches!(self.opcode, Send | SendImm | SendInv | Write | WriteImm)
    }
    /// An unreliable connection can do it.
    pub(crate) fn may_be_unreliable(&self) -> bool {
        use WqeOpcode::*;
        matches!(
            self.opcode,
            Send | SendImm | Write | WriteImm | LocalInv | RegMr
        )
    }
    /// What the device must be able to do, and its name.
    pub(crate) fn needs(&self) -> (u64, &'static str) {
        use WqeOpcode::*;
        match self.opcode {
            Send => (caps::SEND, "SEND"),
            SendImm => (caps::SEND | caps::IMMEDIATE, "SEND with immediate"),
            SendInv => (caps::SEND | caps::INVALIDATE, "SEND with invalidate"),
            Write => (caps::WRITE, "RDMA WRITE"),
            WriteImm => (caps::WRITE | caps::IMMEDIATE, "RDMA WRITE with immediate"),
            Read => (caps::READ, "RDMA READ"),
            AtomicCas | AtomicFaa => (caps::ATOMIC, "atomics"),
            LocalInv => (caps::LOCAL_INVALIDATE, "local invalidate"),
            RegMr => (caps::REG_MR, "making a region valid"),
            MoreSge => unreachable!("no request has this opcode"),
        }
    }
}

/// A request for the receive queue: where the next message goes.
#[derive(Clone, Copy)]
pub struct RecvRequest<'a> {
    pub(crate) id: u64,
    pub(crate) pieces: &'a [Sge<'a>],
}

impl<'a> RecvRequest<'a> {
    /// Into these pieces, in order.
    pub fn new(pieces: &'a [Sge<'a>]) -> Self {
        RecvRequest { id: 0, pieces }
    }
    /// The request's number; comes back in its completion.
    pub fn id(mut self, id: u64) -> Self {
        self.id = id;
        self
    }
}
