//! What the command processor checks and merges: pure functions over the contract's command layouts.
use crate::arith::{Pieces, pieces, total};
use crate::cfg::*;
use crate::layout::logic_struct;
use crate::types::QpCfg;
use rocenic_contract::cmd::{
    TRANSITIONS, access, attr, create_cq, create_eq, create_mr, create_qp, modify_qp, object,
    qp_flag, qp_state, query_qp, rekey_mr, set_port, transport,
};
use rocenic_contract::{caps, regs as bar};
use rocenic_contract::{
    create_cq_fields, create_eq_fields, create_mr_fields, create_qp_fields, modify_qp_fields,
    object_fields, query_qp_fields, set_port_fields,
};
use rtl::rtl_fn;
use rust_hdl_core::prelude::*;

set_port_fields!(logic_struct, set_port);
create_eq_fields!(logic_struct, create_eq);
create_cq_fields!(logic_struct, create_cq);
create_mr_fields!(logic_struct, create_mr);
create_qp_fields!(logic_struct, create_qp);
modify_qp_fields!(logic_struct, modify_qp);
object_fields!(logic_struct, object);
query_qp_fields!(logic_struct, query_qp);

const ALL_RIGHTS: u64 =
    access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ | access::REMOTE_ATOMIC;
const REMOTE_RIGHTS: u64 = ALL_RIGHTS & !access::LOCAL_WRITE;
/// The first bit on the wire of a MAC address taken as a number: set for groups (IEEE 802.3, 3.2.3).
const GROUP_BIT: usize = 40;
const PAGE_MASK: u64 = bar::PAGE_BYTES - 1;
/// Upper 96 bits of an IPv4 address mapped to IPv6.
const MAPPED: u64 = 0xffff;

/// A ring of 2^log2 entries of 2^entry bytes begins at a multiple of its size or of a page, whichever is smaller.
#[rtl_fn]
pub fn ring_ok(base: Bits<64>, log2: Bits<8>, entry: usize) -> bool {
    let one = bits::<64>(1);
    let size = (one << log2.get_bits::<4>(0)) << (entry as u64);
    log2 <= bits::<8>(caps::LOG2_RING as u64) && (base & (size - 1) & bits::<64>(PAGE_MASK)) == 0
}

/// REKEY_MR names the key where CREATE_MR does.
const _: () = assert!(
    rekey_mr::KEY_VARIANT.offset == create_mr::KEY_VARIANT.offset
        && rekey_mr::INDEX.offset == create_mr::INDEX.offset
        && rekey_mr::INDEX.width == create_mr::INDEX.width
);

/// Where a region ends: the addresses behind its last byte.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct MrEnds {
    va: Pieces,
    iova: Pieces,
}
#[rtl_fn]
pub fn mr_ends(m: CreateMr) -> MrEnds {
    MrEnds {
        va: pieces(m.va, m.length),
        iova: pieces(m.iova, m.length),
    }
}
/// A range may end at 2^64 exactly.
#[rtl_fn]
fn fits(end: Pieces) -> bool {
    let e = total(end);
    !e.get_bit(64) || !e.get_bits::<64>(0).any()
}
#[rtl_fn]
pub fn mr_fits(e: MrEnds) -> bool {
    fits(e.va) && fits(e.iova)
}
/// A region's other fields.
#[rtl_fn]
pub fn mr_ok(m: CreateMr) -> bool {
    let rights = (m.rights & bits::<8>(0xff & !ALL_RIGHTS)) == 0;
    m.length != 0 && rights && m.reserved == 0
}

#[rtl_fn]
pub fn qp_ok(q: CreateQp) -> bool {
    let rings = ring_ok(q.sq_iova, q.sq_log2, 6) && ring_ok(q.rq_iova, q.rq_log2, 6);
    let known = qp_flag::SQ_SIG_ALL | qp_flag::SRQ | qp_flag::USES_SRQ;
    let flags = (q.flags & bits::<8>(0xff & !known)) == 0;
    rings && flags && shares_ok(q) && q.reserved == 0 && q.reserved1 == 0
}
#[rtl_fn]
fn shares_ok(q: CreateQp) -> bool {
    let srq = q.flags.get_bit(qp_flag::bit::SRQ);
    let uses = q.flags.get_bit(qp_flag::bit::USES_SRQ);
    let sends = q.sq_iova.any()
        || q.sq_log2.any()
        || q.send_cqn.any()
        || q.recv_cqn.any()
        || q.flags.get_bit(qp_flag::bit::SQ_SIG_ALL);
    let number = !(q.srqn >> QP_W as u64).any() && q.srqn >= u64::from(caps::FIRST_QPN);
    if uses {
        !srq && number && !q.rq_iova.any() && !q.rq_log2.any()
    } else {
        !(q.srqn.any() || (srq && sends))
    }
}

/// Attributes that may not be given with transition `i`.
const fn beyond(i: usize, uc: bool) -> u64 {
    let t = &TRANSITIONS[i];
    // UC has no use for what only makes sense with acknowledgements
    let allowed = if uc {
        t.required_uc | (t.optional & !attr::MIN_RNR_TIMER)
    } else {
        t.required_rc | t.optional
    };
    0xffff_ffff & !(allowed | attr::STATE)
}

/// Reasons to refuse a MODIFY_QP, in the order they are looked at.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct ModifyCheck {
    pub state_ok: Bit,
    pub param_ok: Bit,
}

#[rtl_fn]
pub fn modify_check(m: ModifyQp, old: QpCfg) -> ModifyCheck {
    let any_time =
        m.new_state == bits::<8>(qp_state::RESET) || m.new_state == bits::<8>(qp_state::ERROR);
    let uc = old.transport == bits::<2>(transport::UC);
    let mut legal = any_time;
    let mut given = any_time && m.attr_mask == bits::<32>(attr::STATE);
    for i in 0..TRANSITIONS.len() {
        let from = bits::<3>(TRANSITIONS[i].from as u64);
        let to = bits::<8>(TRANSITIONS[i].to as u64);
        let required = if uc {
            bits::<32>(TRANSITIONS[i].required_uc)
        } else {
            bits::<32>(TRANSITIONS[i].required_rc)
        };
        let other = if uc {
            bits::<32>(beyond(i, true))
        } else {
            bits::<32>(beyond(i, false))
        };
        let this = old.state == from && m.new_state == to;
        legal = legal || this;
        given =
            given || (this && (m.attr_mask & required) == required && (m.attr_mask & other) == 0);
    }
    let mask = m.attr_mask;
    let state = mask.get_bit(attr::bit::STATE);
    let pmtu = !mask.get_bit(attr::bit::PMTU)
        || (m.pmtu >= bits::<8>(caps::pmtu::MTU_256) && m.pmtu <= bits::<8>(caps::pmtu::MTU_4096));
    let path = !mask.get_bit(attr::bit::PATH)
        || (m.dst_ip.get_bits::<96>(32) == bits::<96>(MAPPED) && m.tos.get_bits::<2>(0) == 0);
    let times = (!mask.get_bit(attr::bit::TIMEOUT) || m.timeout < 32)
        && (!mask.get_bit(attr::bit::MIN_RNR_TIMER) || m.min_rnr_timer < 32);
    let retries = (!mask.get_bit(attr::bit::RETRY_CNT) || m.retry_cnt < 8)
        && (!mask.get_bit(attr::bit::RNR_RETRY) || m.rnr_retry < 8);
    let most = bits::<8>(1 << RD_SLOT_W as u64);
    let depths = (!mask.get_bit(attr::bit::MAX_RD_ATOMIC) || m.max_rd_atomic <= most)
        && (!mask.get_bit(attr::bit::MAX_DEST_RD_ATOMIC) || m.max_dest_rd_atomic <= most);
    let rights =
        !mask.get_bit(attr::bit::ACCESS) || (m.access & bits::<8>(0xff & !REMOTE_RIGHTS)) == 0;
    let dest = !mask.get_bit(attr::bit::DEST_QPN) || m.dest_qpn != 0;
    ModifyCheck {
        state_ok: state && legal && !old.srq,
        param_ok: given
            && pmtu
            && path
            && times
            && retries
            && depths
            && rights
            && dest
            && m.reserved == 0,
    }
}

/// The configuration after a MODIFY_QP.
#[rtl_fn]
pub fn merge(m: ModifyQp, old: QpCfg) -> QpCfg {
    let mask = m.attr_mask;
    let path = mask.get_bit(attr::bit::PATH);
    QpCfg {
        state: m.new_state.get_bits::<3>(0),
        access: if mask.get_bit(attr::bit::ACCESS) {
            m.access.get_bits::<4>(0)
        } else {
            old.access
        },
        pkey: if mask.get_bit(attr::bit::PKEY) {
            m.pkey
        } else {
            old.pkey
        },
        dmac: if path { m.dst_mac } else { old.dmac },
        dip: if path {
            m.dst_ip.get_bits::<32>(0)
        } else {
            old.dip
        },
        sport: if path { m.udp_sport } else { old.sport },
        ttl: if path { m.ttl } else { old.ttl },
        tos: if path { m.tos } else { old.tos },
        pmtu: if mask.get_bit(attr::bit::PMTU) {
            m.pmtu.get_bits::<3>(0)
        } else {
            old.pmtu
        },
        timeout: if mask.get_bit(attr::bit::TIMEOUT) {
            m.timeout.get_bits::<5>(0)
        } else {
            old.timeout
        },
        retry_cnt: if mask.get_bit(attr::bit::RETRY_CNT) {
            m.retry_cnt.get_bits::<3>(0)
        } else {
            old.retry_cnt
        },
        rnr_retry: if mask.get_bit(attr::bit::RNR_RETRY) {
            m.rnr_retry.get_bits::<3>(0)
        } else {
            old.rnr_retry
        },
        rq_psn: if mask.get_bit(attr::bit::RQ_PSN) {
            m.rq_psn
        } else {
            old.rq_psn
        },
        sq_psn: if mask.get_bit(attr::bit::SQ_PSN) {
            m.sq_psn
        } else {
            old.sq_psn
        },
        min_rnr_timer: if mask.get_bit(attr::bit::MIN_RNR_TIMER) {
            m.min_rnr_timer.get_bits::<5>(0)
        } else {
            old.min_rnr_timer
        },
        max_rd_atomic: if mask.get_bit(attr::bit::MAX_RD_ATOMIC) {
            m.max_rd_atomic.get_bits::<{ RD_SLOT_W + 1 }>(0)
        } else {
            old.max_rd_atomic
        },
        max_dest_rd_atomic: if mask.get_bit(attr::bit::MAX_DEST_RD_ATOMIC) {
            m.max_dest_rd_atomic.get_bits::<{ RD_SLOT_W + 1 }>(0)
        } else {
            old.max_dest_rd_atomic
        },
        dest_qpn: if mask.get_bit(attr::bit::DEST_QPN) {
            m.dest_qpn
        } else {
            old.dest_qpn
        },
        ..old
    }
}

/// The configuration of a new queue pair, in RESET.
#[rtl_fn]
pub fn new_qp(q: CreateQp) -> QpCfg {
    QpCfg {
        state: bits::<3>(qp_state::RESET),
        transport: q.transport.get_bits::<2>(0),
        pd: q.pd,
        pmtu: bits::<3>(caps::pmtu::MTU_256),
        dest_qpn: 0.into(),
        pkey: bits::<16>(caps::DEFAULT_PKEY as u64),
        dmac: 0.into(),
        dip: 0.into(),
        sport: 0.into(),
        tos: 0.into(),
        ttl: 0.into(),
        sq_base: q.sq_iova,
        sq_log2: q.sq_log2.get_bits::<4>(0),
        rq_base: q.rq_iova,
        rq_log2: q.rq_log2.get_bits::<4>(0),
        send_cqn: q.send_cqn.get_bits::<CQ_W>(0),
        recv_cqn: q.recv_cqn.get_bits::<CQ_W>(0),
        db_page: q.db_page,
        sq_psn: 0.into(),
        rq_psn: 0.into(),
        retry_cnt: 0.into(),
        rnr_retry: 0.into(),
        timeout: 0.into(),
        min_rnr_timer: 0.into(),
        max_rd_atomic: 0.into(),
        max_dest_rd_atomic: 0.into(),
        access: 0.into(),
        sq_sig_all: q.flags.get_bit(qp_flag::bit::SQ_SIG_ALL),
        srq: q.flags.get_bit(qp_flag::bit::SRQ),
        uses_srq: q.flags.get_bit(qp_flag::bit::USES_SRQ),
        srqn: q.srqn.get_bits::<QP_W>(0),
    }
}

/// Transports this build has.
#[rtl_fn]
pub fn transport_ok(t: Bits<8>) -> bool {
    t == bits::<8>(transport::RC) || t == bits::<8>(transport::UC)
}

/// A unicast MAC address that is not zero, and a unicast IPv4 address.
#[rtl_fn]
pub fn port_ok(p: SetPort) -> bool {
    let unicast = !p.mac.get_bit(GROUP_BIT) && p.mac != 0;
    let ip = p.ipv4 != 0 && p.ipv4.get_bits::<4>(28) < 14;
    let pmtu =
        p.pmtu >= bits::<8>(caps::pmtu::MTU_256) && p.pmtu <= bits::<8>(caps::pmtu::MTU_4096);
    unicast && ip && pmtu && p.reserved0 == 0 && p.reserved1 == 0
}
