//! Counters, 64 bits each, at page 0x2000 of BAR0: low word, then high word. Reading a low word latches its high word.
//! They wrap and are cleared by reset only.
use crate::layout::{Access, Reg, RegPage};

/// First address of the counter page.
pub const BASE: u64 = 0x2000;
/// Bytes a counter takes.
pub const COUNTER_BYTES: u64 = 8;

/// One counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterInfo {
    pub name: &'static str,
    pub doc: &'static str,
}

macro_rules! counters {
    ($( $(#[doc = $doc:literal])* $up:ident $var:ident ; )*) => {
        /// A counter; the discriminant is its place in the page.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Counter { $( $(#[doc = $doc])* $var ),* }
        impl Counter {
            pub const ALL: &[Counter] = &[$(Counter::$var),*];
            pub const fn info(self) -> CounterInfo { match self { $( Counter::$var => CounterInfo { name: stringify!($up), doc: concat!($($doc),*).trim_ascii() } ),* } }
            /// Address of the low word in BAR0.
            pub const fn addr(self) -> u64 { BASE + COUNTER_BYTES * self as u64 }
        }
        /// Place of each counter in the page, for RTL.
        pub mod index { $( $(#[doc = $doc])* pub const $up: usize = super::Counter::$var as usize; )* }
        /// Number of counters.
        pub const COUNT: usize = Counter::ALL.len();
        /// The page as registers of two words.
        pub const REGS: [Reg; COUNT] = crate::layout::place_regs([$(
            Reg { name: stringify!($up), addr: 0, words: COUNTER_BYTES / 4, access: Access::RO, reset: 0, doc: concat!($($doc),*).trim_ascii() }
        ),*], BASE);
    };
}

/// The page in the list of register pages.
pub const PAGE: RegPage = RegPage {
    name: "counters",
    doc: "Counters: 64-bit pairs, low word first. No packet disappears without one of them, except requests that were under way in the receive path behind a payload write that failed: their queue pair is dead.",
    base: BASE,
    regs: &REGS,
};

counters! {
    /// Frames received, good or bad.
    RX_FRAMES RxFrames;
    /// Frames accepted by all stateless checks.
    RX_ROCE RxRoce;
    /// Payload bytes written to host memory by the responder and by READ responses.
    RX_BYTES RxBytes;
    /// Dropped: ICRC wrong.
    RX_ICRC_BAD RxIcrcBad;
    /// Dropped: Ethertype is not IPv4 (or IPv6 where the capability says so).
    RX_DROP_ETHERTYPE RxDropEthertype;
    /// Dropped: IP version field.
    RX_DROP_IP_VERSION RxDropIpVersion;
    /// Dropped: IPv4 header length is not 5 words.
    RX_DROP_IHL RxDropIhl;
    /// Dropped: IPv4 header checksum wrong.
    RX_DROP_IP_CSUM RxDropIpCsum;
    /// Dropped: IP fragment.
    RX_DROP_FRAGMENT RxDropFragment;
    /// Dropped: not UDP, or not UDP port 4791 (not ours).
    RX_DROP_NOT_ROCE RxDropNotRoce;
    /// Dropped: IP, UDP, pad and frame lengths do not agree.
    RX_DROP_LENGTH RxDropLength;
    /// Dropped: BTH header version.
    RX_DROP_BTH_VERSION RxDropBthVersion;
    /// Dropped: opcode undefined or not done by this device.
    RX_DROP_OPCODE RxDropOpcode;
    /// Dropped: destination MAC is not the port's.
    RX_DROP_DST_MAC RxDropDstMac;
    /// Dropped: destination IP is not the port's.
    RX_DROP_DST_IP RxDropDstIp;
    /// Dropped: source IP is not the queue pair's path.
    RX_DROP_SRC_IP RxDropSrcIp;
    /// Dropped: queue pair 0 or 1 addressed without support.
    RX_DROP_QP0 RxDropQp0;
    /// Dropped: no such queue pair.
    RX_DROP_QPN RxDropQpn;
    /// Dropped: the queue pair's state takes no such packet.
    RX_DROP_QP_STATE RxDropQpState;
    /// Dropped: P_Key does not match.
    RX_DROP_PKEY RxDropPkey;
    /// Dropped: transport of the opcode is not the queue pair's.
    RX_DROP_TRANSPORT RxDropTransport;
    /// Dropped: payload length does not fit the opcode on a transport that sends no NAK.
    RX_DROP_PAYLOAD RxDropPayload;
    /// Dropped: message sequence broken on a transport that sends no NAK.
    RX_DROP_SEQUENCE RxDropSequence;
    /// Dropped: no receive WQE on a transport that sends no RNR NAK.
    RX_DROP_NO_RQE RxDropNoRqe;
    /// Dropped: remote key refused on a transport that sends no NAK.
    RX_DROP_RKEY RxDropRkey;
    /// Dropped: queue key does not match (UD).
    RX_DROP_QKEY RxDropQkey;
    /// Dropped: receive buffer full.
    RX_DROP_OVERFLOW RxDropOverflow;
    /// Dropped: MAC signalled an error in the frame.
    RX_DROP_MAC_ERROR RxDropMacError;
    /// Dropped: the port is not enabled.
    RX_DROP_DISABLED RxDropDisabled;
    /// Dropped: ACK, NAK or response with a PSN that is not outstanding, or a repeated one.
    RX_DROP_STALE_RESPONSE RxDropStaleResponse;
    /// Requests ahead of the expected PSN after the one NAK that is allowed.
    RX_DROP_OUT_OF_ORDER RxDropOutOfOrder;
    /// Duplicate requests, answered but not executed again.
    RX_DUPLICATES RxDuplicates;
    /// Congestion notification packets received.
    RX_CNP RxCnp;
    /// Frames with the IP congestion-experienced mark.
    RX_ECN RxEcn;
    /// ACKs received.
    RX_ACKS RxAcks;
    /// NAKs received: PSN sequence error.
    RX_NAK_SEQ RxNakSeq;
    /// NAKs received: invalid request.
    RX_NAK_INV_REQ RxNakInvReq;
    /// NAKs received: remote access error.
    RX_NAK_ACCESS RxNakAccess;
    /// NAKs received: remote operational error.
    RX_NAK_OP RxNakOp;
    /// RNR NAKs received.
    RX_RNR RxRnr;
    /// Frames sent.
    TX_FRAMES TxFrames;
    /// Frames to the NIC's own address, which do not go to the wire.
    LOOP_FRAMES LoopFrames;
    /// Such frames that had waited too long for the receive side: lost as on a wire.
    LOOP_DROPPED LoopDropped;
    /// Payload bytes sent.
    TX_BYTES TxBytes;
    /// ACKs sent.
    TX_ACKS TxAcks;
    /// NAKs sent: PSN sequence error.
    TX_NAK_SEQ TxNakSeq;
    /// NAKs sent: invalid request.
    TX_NAK_INV_REQ TxNakInvReq;
    /// NAKs sent: remote access error.
    TX_NAK_ACCESS TxNakAccess;
    /// NAKs sent: remote operational error.
    TX_NAK_OP TxNakOp;
    /// RNR NAKs sent.
    TX_RNR TxRnr;
    /// Congestion notification packets sent.
    TX_CNP TxCnp;
    /// Go-back-N restarts, for whatever reason.
    RETRIES Retries;
    /// Restarts because the ACK timer ran out.
    TIMEOUTS Timeouts;
    /// Waits for a receiver that was not ready.
    RNR_WAITS RnrWaits;
    /// Queue pairs in error because the retries ran out.
    RETRY_EXCEEDED RetryExceeded;
    /// Queue pairs in error because the RNR retries ran out.
    RNR_RETRY_EXCEEDED RnrRetryExceeded;
    /// Requester completions with an error status (flushes not counted).
    REQ_ERRORS ReqErrors;
    /// Responder completions or events with an error (flushes not counted).
    RESP_ERRORS RespErrors;
    /// Completions with status flushed.
    FLUSHED Flushed;
    /// Send WQEs refused: malformed, wrong index, wrong queue pair or opcode not done.
    WQE_BAD WqeBad;
    /// Doorbells from a page that does not own the queue.
    DOORBELL_BAD_PAGE DoorbellBadPage;
    /// Doorbells with an impossible index or a queue that does not exist.
    DOORBELL_BAD_VALUE DoorbellBadValue;
    /// Pushed WQEs used.
    PUSH_ACCEPTED PushAccepted;
    /// Pushed WQEs not used: the ring's copy was fetched instead.
    PUSH_FALLBACK PushFallback;
    /// Completions written.
    CQES Cqes;
    /// CQs that overflowed.
    CQ_OVERFLOW CqOverflow;
    /// Events written.
    EQES Eqes;
    /// Events lost: the EQ was full or could not be written.
    EQ_OVERFLOW EqOverflow;
    /// Interrupts requested.
    INTERRUPTS Interrupts;
    /// Commands finished, with any status.
    COMMANDS Commands;
    /// DMA reads answered with an error.
    DMA_READ_ERROR DmaReadError;
    /// DMA writes answered with an error.
    DMA_WRITE_ERROR DmaWriteError;
    /// Work thrown away because its queue pair's epoch was old.
    STALE_EPOCH StaleEpoch;
    /// Cycles: transmit beat ready, MAC not ready.
    STALL_TX_MAC StallTxMac;
    /// Cycles: a frame waits for its payload read.
    STALL_TX_PAYLOAD StallTxPayload;
    /// Cycles: a payload read waits for a free tag or reorder space.
    STALL_READ_TAGS StallReadTags;
    /// Cycles: read address channel not ready.
    STALL_AR StallAr;
    /// Cycles: write address or data channel not ready.
    STALL_AW StallAw;
    /// Cycles: work is ready, but every queue pair with work is at its outstanding limit.
    STALL_WINDOW StallWindow;
    /// Cycles: WQE fetch is what the segmenter waits for.
    STALL_WQE StallWqe;
    /// Cycles: receive pipeline waits for DMA write space.
    STALL_RX_WRITE StallRxWrite;
    /// Cycles: a completion waits for its CQ write.
    STALL_CQE StallCqe;
}
