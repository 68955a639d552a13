//! The command mailbox: commands, their input and output layouts, statuses, queue pair states.
//!
//! Input dword i of a layout goes to `CMD_IN[i]`, output dword i comes from `CMD_OUT[i]`. Every command ends in bounded
//! time with a status. Reserved fields are 0; the device refuses other values with `BAD_PARAM`.
use crate::layout::{Layout, flags, layout, values};

/// Dwords of CMD_IN and CMD_OUT are sized for these layouts.
const IN_BYTES: usize = 4 * crate::regs::mailbox::REGS[0].words as usize;
const OUT_BYTES: usize = 4 * crate::regs::mailbox::REGS[4].words as usize;

/// Command opcodes.
pub mod opcode {
    use super::*;
    values! {
        /// Commands.
        Command: u8, source "this contract";
        /// Does nothing and succeeds.
        NOP Nop = 0;
        /// Sets the port's addresses (`set_port`).
        SET_PORT SetPort = 1;
        /// Makes an event queue (`create_eq`).
        CREATE_EQ CreateEq = 2;
        /// Removes an event queue (`destroy`).
        DESTROY_EQ DestroyEq = 3;
        /// Makes a completion queue (`create_cq`).
        CREATE_CQ CreateCq = 4;
        /// Removes a completion queue (`destroy`); refused while a queue pair uses it.
        DESTROY_CQ DestroyCq = 5;
        /// Makes a memory region (`create_mr`).
        CREATE_MR CreateMr = 6;
        /// Removes a region (`destroy`); ends when DMA under it has drained.
        DESTROY_MR DestroyMr = 7;
        /// Makes a queue pair in RESET (`create_qp`), or a shared receive queue (flag SRQ).
        CREATE_QP CreateQp = 8;
        /// Changes state or attributes (`modify_qp`).
        MODIFY_QP ModifyQp = 9;
        /// Reads state (`destroy` in, `query_qp` out).
        QUERY_QP QueryQp = 10;
        /// Removes a queue pair (`destroy`); ends when DMA under it has drained. A shared receive queue is refused while a
        /// queue pair uses it.
        DESTROY_QP DestroyQp = 11;
        /// Gives a region another key, alive whether or not the old one was (`rekey_mr`); ends when DMA under the old one
        /// has drained.
        REKEY_MR RekeyMr = 12;
    }
}

/// Command statuses.
pub mod status {
    use super::*;
    values! {
        /// How a command ended.
        CmdError: u8, source "this contract";
        /// Done.
        OK Ok = 0;
        /// Unknown command.
        BAD_OPCODE BadOpcode = 1;
        /// A field has an impossible value.
        BAD_PARAM BadParam = 2;
        /// The queue pair's state does not allow it.
        BAD_STATE BadState = 3;
        /// Number out of range, or nothing has that number.
        BAD_INDEX BadIndex = 4;
        /// The number is taken, or something still uses the object.
        IN_USE InUse = 5;
        /// Another command is running.
        BUSY Busy = 6;
        /// In-flight work did not drain in time. A queue stays. A region has lost its key, and its index if it was destroyed;
        /// DMA that began before may use its memory until the function is reset.
        TIMEOUT Timeout = 7;
        /// A DMA access of the command failed.
        DMA_ERROR DmaError = 8;
        /// This build of the device does not do it.
        UNSUPPORTED Unsupported = 9;
        /// The device is not enabled or not ready.
        NOT_READY NotReady = 10;
    }
}

/// SET_PORT.
pub mod set_port {
    use super::*;
    layout! { ($)
        /// SET_PORT input.
        SetPort, set_port_fields, Little, source "this contract";
        /// MAC address as a number (first byte on the wire is the most significant).
        MAC mac: u64 [48];
        /// Largest PMTU as a code (`caps::pmtu`).
        PMTU pmtu: u8;
        /// Zero.
        RESERVED0 reserved0: u8;
        /// IPv4 address as a number.
        IPV4 ipv4: u32;
        /// Zero.
        RESERVED1 reserved1: u32;
        /// IPv6 address as a number.
        IPV6 ipv6: u128;
    }
}
/// CREATE_EQ.
pub mod create_eq {
    use super::*;
    layout! { ($)
        /// CREATE_EQ input. The ring must be zeroed.
        CreateEq, create_eq_fields, Little, source "this contract";
        /// Event queue number.
        EQN eqn: u8;
        /// log2 of the number of entries.
        LOG2_SIZE log2_size: u8;
        /// MSI-X vector.
        VECTOR vector: u16;
        /// Zero.
        RESERVED reserved: u32;
        /// IOVA of the ring, aligned to its size or 4 KiB, whichever is smaller.
        BASE_IOVA base_iova: u64;
    }
}
/// CREATE_CQ.
pub mod create_cq {
    use super::*;
    layout! { ($)
        /// CREATE_CQ input. The ring must be zeroed.
        CreateCq, create_cq_fields, Little, source "this contract";
        /// Completion queue number.
        CQN cqn: u16;
        /// log2 of the number of entries.
        LOG2_SIZE log2_size: u8;
        /// Event queue that takes its events.
        EQN eqn: u8;
        /// Doorbell page that may ring for it.
        DB_PAGE db_page: u8;
        /// Zero.
        RESERVED reserved: u32 [24];
        /// IOVA of the ring, aligned to its size or 4 KiB, whichever is smaller.
        BASE_IOVA base_iova: u64;
    }
}
/// CREATE_MR.
pub mod create_mr {
    use super::*;
    layout! { ($)
        /// CREATE_MR input. The region's lkey and rkey are `key(index, variant)`.
        CreateMr, create_mr_fields, Little, source "this contract";
        /// Low byte of the key.
        KEY_VARIANT key_variant: u8;
        /// Region number: the upper three bytes of the key.
        INDEX index: u32 [24];
        /// Protection domain.
        PD pd: u16;
        /// `cmd::access` bits.
        RIGHTS rights: u8;
        /// Zero.
        RESERVED reserved: u8;
        /// Virtual address of the first byte, as remote and local users name it.
        VA va: u64;
        /// Bytes; not 0, and `va + length` does not pass 2^64.
        LENGTH length: u64;
        /// IOVA of the first byte; one contiguous range.
        IOVA iova: u64;
    }
}
/// REKEY_MR.
pub mod rekey_mr {
    use super::*;
    layout! { ($)
        /// REKEY_MR input: the key the region has from now on. Memory, domain and rights stay as they are.
        RekeyMr, rekey_mr_fields, Little, source "this contract";
        /// Low byte of the key.
        KEY_VARIANT key_variant: u8;
        /// Region number.
        INDEX index: u32 [24];
    }
}
/// The lkey and rkey of a region.
pub const fn key(index: u32, variant: u8) -> u32 {
    index << create_mr::KEY_VARIANT.width | variant as u32
}
/// The region number in a key.
pub const fn key_index(key: u32) -> u32 {
    key >> create_mr::KEY_VARIANT.width
}
/// CREATE_QP.
pub mod create_qp {
    use super::*;
    layout! { ($)
        /// CREATE_QP input.
        CreateQp, create_qp_fields, Little, source "this contract";
        /// Queue pair number.
        QPN qpn: u32 [24];
        /// `cmd::transport`.
        TRANSPORT transport: u8;
        /// Protection domain.
        PD pd: u16;
        /// Doorbell page that may ring for it.
        DB_PAGE db_page: u8;
        /// `cmd::qp_flag` bits.
        FLAGS flags: u8;
        /// Completion queue of the send queue.
        SEND_CQN send_cqn: u16;
        /// Completion queue of the receive queue.
        RECV_CQN recv_cqn: u16;
        /// log2 of the number of send ring entries.
        SQ_LOG2 sq_log2: u8;
        /// log2 of the number of receive ring entries.
        RQ_LOG2 rq_log2: u8;
        /// Zero.
        RESERVED reserved: u16;
        /// IOVA of the send ring, aligned to its size or 4 KiB, whichever is smaller.
        SQ_IOVA sq_iova: u64;
        /// IOVA of the receive ring, aligned likewise.
        RQ_IOVA rq_iova: u64;
        /// Number of the shared receive queue (flag USES_SRQ).
        SRQN srqn: u32 [24];
        /// Zero.
        RESERVED1 reserved1: u8;
    }
}
/// MODIFY_QP.
pub mod modify_qp {
    use super::*;
    layout! { ($)
        /// MODIFY_QP input. Fields whose bit in `attr_mask` is 0 are ignored.
        ModifyQp, modify_qp_fields, Little, source "this contract; ibv_qp_attr";
        /// Queue pair number.
        QPN qpn: u32 [24];
        /// Wanted `cmd::qp_state` (mask bit STATE).
        NEW_STATE new_state: u8;
        /// `cmd::attr` bits.
        ATTR_MASK attr_mask: u32;
        /// Remote queue pair.
        DEST_QPN dest_qpn: u32 [24];
        /// PMTU as a code (`caps::pmtu`).
        PMTU pmtu: u8;
        /// First PSN to send.
        SQ_PSN sq_psn: u32 [24];
        /// Retries after timeouts and sequence NAKs, 0 to 7.
        RETRY_CNT retry_cnt: u8;
        /// First PSN to expect.
        RQ_PSN rq_psn: u32 [24];
        /// Retries after RNR NAKs, 0 to 6; 7 is without end.
        RNR_RETRY rnr_retry: u8;
        /// Partition key.
        PKEY pkey: u16;
        /// UDP source port.
        UDP_SPORT udp_sport: u16;
        /// Destination MAC address as a number.
        DST_MAC dst_mac: u64 [48];
        /// IP time to live (hop limit).
        TTL ttl: u8;
        /// IP type of service (traffic class); the two ECN bits are 0.
        TOS tos: u8;
        /// Destination IP address as a number; IPv4 as ::ffff:a.b.c.d, so that it stands in the lowest dword.
        DST_IP dst_ip: u128;
        /// ACK timeout is 4.096 µs · 2^timeout, 0 is none; 0 to 31.
        TIMEOUT timeout: u8;
        /// Code of the time an RNR NAK asks for (`syndrome::RNR_TIMER_10US`), 0 to 31.
        MIN_RNR_TIMER min_rnr_timer: u8;
        /// READs and atomics outstanding as requester.
        MAX_RD_ATOMIC max_rd_atomic: u8;
        /// READs and atomics accepted as responder.
        MAX_DEST_RD_ATOMIC max_dest_rd_atomic: u8;
        /// `cmd::access` bits that remote requests may use.
        ACCESS access: u8;
        /// Zero.
        RESERVED reserved: u32 [24];
    }
}
/// Input of DESTROY_EQ, DESTROY_CQ, DESTROY_MR, DESTROY_QP and QUERY_QP.
pub mod object {
    use super::*;
    layout! { ($)
        /// Names an object: input of the DESTROY commands and of QUERY_QP.
        Object, object_fields, Little, source "this contract";
        /// QPN, CQN, EQN or region number.
        NUMBER number: u32 [24];
        /// Zero.
        RESERVED reserved: u8;
    }
}
/// QUERY_QP output.
pub mod query_qp {
    use super::*;
    layout! { ($)
        /// QUERY_QP output: a snapshot taken between two packets.
        QueryQp, query_qp_fields, Little, source "this contract";
        /// `cmd::qp_state`.
        STATE state: u8;
        /// Retries left.
        RETRY_LEFT retry_left: u8;
        /// RNR retries left.
        RNR_LEFT rnr_left: u8;
        /// Epoch of the queue pair.
        EPOCH epoch: u8;
        /// Next PSN to send.
        SQ_PSN sq_psn: u32 [24];
        /// Zero.
        RESERVED0 reserved0: u8;
        /// Oldest PSN not acknowledged.
        UNA_PSN una_psn: u32 [24];
        /// Zero.
        RESERVED1 reserved1: u8;
        /// Next PSN expected.
        RQ_PSN rq_psn: u32 [24];
        /// Zero.
        RESERVED2 reserved2: u8;
        /// Messages completed as responder.
        MSN msn: u32 [24];
        /// Zero.
        RESERVED3 reserved3: u8;
        /// Send queue: producer index as last doorbelled.
        SQ_PI sq_pi: u16;
        /// Send queue: next index to complete.
        SQ_CI sq_ci: u16;
        /// Receive queue: producer index as last doorbelled.
        RQ_PI rq_pi: u16;
        /// Receive queue: next index to take.
        RQ_CI rq_ci: u16;
        /// Packets of requests sent, repeated ones included; since CREATE or RESET to INIT, like the counts below.
        TX_PACKETS tx_packets: u32;
        /// Returns to an earlier packet. This count and those below stop at 65535.
        RETRIES retries: u16;
        /// ACK timeouts.
        TIMEOUTS timeouts: u16;
        /// NAKs received: PSN sequence error.
        RX_NAKS_SEQ rx_naks_seq: u16;
        /// RNR NAKs received.
        RX_RNRS rx_rnrs: u16;
        /// Packets of requests that came in order and were executed; wraps. Since CREATE or RESET to INIT, like the counts
        /// below.
        RX_PACKETS rx_packets: u32;
        /// Duplicate requests. This count and those below stop at 65535.
        RX_DUPLICATES rx_duplicates: u16;
        /// Requests ahead of the expected PSN after the one NAK that is allowed.
        RX_OUT_OF_ORDER rx_out_of_order: u16;
        /// Packets dropped by the queue pair for the reasons of the port's RX_DROP counters, without those of
        /// `rx_out_of_order` and without ACKs and NAKs that the requester drops as stale.
        RX_DROPS rx_drops: u16;
        /// NAKs sent: PSN sequence error.
        TX_NAKS_SEQ tx_naks_seq: u16;
        /// RNR NAKs sent.
        TX_RNRS tx_rnrs: u16;
        /// All other NAKs sent: invalid request, remote access error, remote operational error.
        TX_NAKS tx_naks: u16;
    }
}

const _: () = {
    let mut i = 0;
    while i < LAYOUTS.len() {
        assert!(LAYOUTS[i].bytes.is_multiple_of(4) && LAYOUTS[i].bytes <= IN_BYTES);
        i += 1;
    }
    assert!(query_qp::BYTES <= OUT_BYTES);
};
/// All command layouts.
pub const LAYOUTS: [Layout; 9] = [
    set_port::LAYOUT,
    create_eq::LAYOUT,
    create_cq::LAYOUT,
    create_mr::LAYOUT,
    rekey_mr::LAYOUT,
    create_qp::LAYOUT,
    modify_qp::LAYOUT,
    object::LAYOUT,
    query_qp::LAYOUT,
];

/// Rights of a region, and of remote requests to a queue pair.
pub mod access {
    use super::*;
    flags! {
        /// Access rights (reading locally is always allowed).
        AccessFlag, source "ibv_access_flags";
        /// Local write: receives and READ responses may land there.
        LOCAL_WRITE = bit 0;
        /// Remote write.
        REMOTE_WRITE = bit 1;
        /// Remote read.
        REMOTE_READ = bit 2;
        /// Remote atomic.
        REMOTE_ATOMIC = bit 3;
    }
}
/// Flags of CREATE_QP.
pub mod qp_flag {
    use super::*;
    flags! {
        /// Flags of CREATE_QP.
        QpFlag, source "ibv_qp_init_attr";
        /// Every send WQE completes with a CQE.
        SQ_SIG_ALL = bit 0;
        /// Not a queue pair but a shared receive queue: a receive ring under a queue pair's number, and nothing else. It
        /// stays in RESET; PD, doorbell page and receive ring are given, all else is 0.
        SRQ = bit 1;
        /// Receives go to the shared receive queue `srqn`, which is of the same PD; the receive ring is 0.
        USES_SRQ = bit 2;
    }
}
/// Bits of `modify_qp::ATTR_MASK`.
pub mod attr {
    use super::*;
    flags! {
        /// Attribute mask; positions of `ibv_qp_attr_mask`.
        AttrFlag, source "ibv_qp_attr_mask";
        /// `new_state`.
        STATE = bit 0;
        /// `access`.
        ACCESS = bit 3;
        /// `pkey`.
        PKEY = bit 4;
        /// Path: `dst_mac`, `dst_ip`, `udp_sport`, `ttl`, `tos`.
        PATH = bit 7;
        /// `pmtu`.
        PMTU = bit 8;
        /// `timeout`.
        TIMEOUT = bit 9;
        /// `retry_cnt`.
        RETRY_CNT = bit 10;
        /// `rnr_retry`.
        RNR_RETRY = bit 11;
        /// `rq_psn`.
        RQ_PSN = bit 12;
        /// `max_rd_atomic`.
        MAX_RD_ATOMIC = bit 13;
        /// `min_rnr_timer`.
        MIN_RNR_TIMER = bit 15;
        /// `sq_psn`.
        SQ_PSN = bit 16;
        /// `max_dest_rd_atomic`.
        MAX_DEST_RD_ATOMIC = bit 17;
        /// `dest_qpn`.
        DEST_QPN = bit 20;
    }
}
/// Transport types of a queue pair.
pub mod transport {
    use super::*;
    values! {
        /// Transport type; the numbers are those of the upper three opcode bits.
        QpTransport: u8, source "IBTA 9.2.1, table 38";
        /// Reliable connection.
        RC Rc = 0;
        /// Unreliable connection.
        UC Uc = 1;
        /// Unreliable datagram.
        UD Ud = 3;
    }
}
/// Queue pair states.
pub mod qp_state {
    use super::*;
    values! {
        /// Queue pair states.
        QpState: u8, source "IBTA 10.3.1; ibv_qp_state";
        /// Nothing works.
        RESET Reset = 0;
        /// Receives may be posted; packets are dropped.
        INIT Init = 1;
        /// Receives.
        RTR Rtr = 2;
        /// Receives and sends.
        RTS Rts = 3;
        /// Finishes what was sent, starts nothing new, receives.
        SQD Sqd = 4;
        /// Send queue in error (not RC), receives.
        SQE Sqe = 5;
        /// Everything is flushed.
        ERROR Error = 6;
    }
}
use qp_state::QpState;

/// A transition that MODIFY_QP may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    pub from: QpState,
    pub to: QpState,
    /// Attribute bits an RC queue pair must give.
    pub required_rc: u64,
    /// The same for UC.
    pub required_uc: u64,
    /// Further attribute bits it may give.
    pub optional: u64,
}

/// Legal transitions beside "any state to RESET" and "any state to ERROR", which need no attributes (IBTA 10.3, figure
/// 121 and table 91; attributes as in `ib_modify_qp_is_ok`). Everything else is refused with `BAD_STATE`.
pub const TRANSITIONS: [Transition; 9] = {
    use QpState::*;
    const ALT: u64 = attr::ACCESS | attr::PKEY;
    const RTR_UC: u64 = attr::PATH | attr::PMTU | attr::DEST_QPN | attr::RQ_PSN;
    const RTR_RC: u64 = RTR_UC | attr::MAX_DEST_RD_ATOMIC | attr::MIN_RNR_TIMER;
    const RTS_RC: u64 =
        attr::TIMEOUT | attr::RETRY_CNT | attr::RNR_RETRY | attr::SQ_PSN | attr::MAX_RD_ATOMIC;
    const LIVE: u64 = attr::ACCESS | attr::MIN_RNR_TIMER;
    [
        Transition {
            from: Reset,
            to: Init,
            required_rc: ALT,
            required_uc: ALT,
            optional: 0,
        },
        Transition {
            from: Init,
            to: Init,
            required_rc: 0,
            required_uc: 0,
            optional: ALT,
        },
        Transition {
            from: Init,
            to: Rtr,
            required_rc: RTR_RC,
            required_uc: RTR_UC,
            optional: ALT,
        },
        Transition {
            from: Rtr,
            to: Rts,
            required_rc: RTS_RC,
            required_uc: attr::SQ_PSN,
            optional: LIVE,
        },
        Transition {
            from: Rts,
            to: Rts,
            required_rc: 0,
            required_uc: 0,
            optional: LIVE,
        },
        Transition {
            from: Rts,
            to: Sqd,
            required_rc: 0,
            required_uc: 0,
            optional: 0,
        },
        Transition {
            from: Sqd,
            to: Rts,
            required_rc: 0,
            required_uc: 0,
            optional: LIVE,
        },
        Transition {
            from: Sqd,
            to: Sqd,
            required_rc: 0,
            required_uc: 0,
            optional: LIVE,
        },
        Transition {
            from: Sqe,
            to: Rts,
            required_rc: 0,
            required_uc: 0,
            optional: LIVE,
        },
    ]
};

/// Whether MODIFY_QP may go from one state to another.
pub const fn transition_is_legal(from: QpState, to: QpState) -> bool {
    if matches!(to, QpState::Reset | QpState::Error) {
        return true;
    }
    let mut i = 0;
    while i < TRANSITIONS.len() {
        if TRANSITIONS[i].from as u8 == from as u8 && TRANSITIONS[i].to as u8 == to as u8 {
            return true;
        }
        i += 1;
    }
    false
}
