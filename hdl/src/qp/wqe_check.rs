//! Reads and checks the WQEs of a grant, and looks up their local keys.
//!
//! | port | what |
//! |---|---|
//! | `grant` | a QP's turn, from `send_sched` |
//! | `slot_at` → `slot` | slots of `sq_fetch`, one cycle later |
//! | `mr_req`, `mr_rsp` | key table; answers come in order after a fixed time, no back-pressure |
//! | `turn` | the grant again, to the segmenter |
//! | `job`, `key` | each WQE of the grant, and the key table's answer for those that are `keyed` |
//! | `put` | places of pieces, to `sge_walk` |
//!
//! A WQE of two blocks becomes a job when its second block has been checked too; if that is not in the grant, the job
//! says so (`short`) and the segmenter ends the turn before it.
//!
//! Latency: `grant` to `job` 6 cycles, to `key` 8. Throughput: a WQE a cycle, one of several pieces takes a cycle for
//! each; 2 cycles between grants.
//! Never: more WQEs or key lookups under way than the FIFOs hold.
use super::psn::PSN_W;
use super::sge_keys::{SgeKeys, SgeLook};
use super::sq_types::*;
use crate::cfg::*;
use crate::layout::logic_struct;
use crate::prim::{Fifo, Reg};
use crate::types::*;
use rocenic_contract::caps::pmtu::Pmtu;
use rocenic_contract::cmd::access;
use rocenic_contract::{caps, status, wqe};
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

rocenic_contract::wqe_fields!(logic_struct, wqe);

/// WQEs under way, log2.
const JOB_W: usize = 4;
/// Grants under way, log2.
const TURN_W: usize = 2;
const FLAGS: u64 =
    wqe::flag::SIGNALED | wqe::flag::SOLICITED | wqe::flag::FENCE | wqe::flag::INLINE;

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Walk {
    active: Bit,
    grant: Grant,
    idx: Bits<IDX_W>,
    left: Bits<GRANT_W>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct ReadStage {
    valid: Bit,
    qpn: Bits<QP_W>,
    idx: Bits<IDX_W>,
    final_job: Bit,
    pd: Bits<16>,
    pmtu: Bits<3>,
    rc: Bit,
    uc: Bit,
    sig_all: Bit,
    no_reads: Bit,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct JobStage {
    valid: Bit,
    job: SendJob,
    pmtu: Bits<3>,
    /// Offset of the last byte: 0 when there is none.
    last_byte: Bits<{ wqe::LENGTH.width }>,
    /// A piece is looked up in this cycle, and another one, `then`, in the next.
    looks: Bit,
    look: SgeLook,
    second: Bit,
    then: SgeLook,
}
/// A WQE that waits for its second block.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Half {
    on: Bit,
    job: SendJob,
    pmtu: Bits<3>,
    last_byte: Bits<{ wqe::LENGTH.width }>,
    /// Lengths of its two pieces; it has a fourth one.
    sge0_length: Bits<32>,
    sge1_length: Bits<32>,
    four: Bit,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct SizedStage {
    valid: Bit,
    job: SendJob,
}

/// Operations this device does.
#[rtl_fn]
fn known(op: Bits<{ wqe::OPCODE.width }>) -> bool {
    match op.index() {
        wqe::opcode::index::SEND
        | wqe::opcode::index::SEND_IMM
        | wqe::opcode::index::SEND_INV
        | wqe::opcode::index::WRITE
        | wqe::opcode::index::WRITE_IMM
        | wqe::opcode::index::LOCAL_INV
        | wqe::opcode::index::REG_MR => true,
        _ => false,
    }
}
/// Of a key, without a packet.
#[rtl_fn]
fn is_local(op: Bits<{ wqe::OPCODE.width }>) -> bool {
    op == wqe::opcode::LOCAL_INV || op == wqe::opcode::REG_MR
}
#[rtl_fn]
fn is_atomic(op: Bits<{ wqe::OPCODE.width }>) -> bool {
    op == wqe::opcode::ATOMIC_CAS || op == wqe::opcode::ATOMIC_FAA
}
/// A READ or atomic.
#[rtl_fn]
fn is_read(op: Bits<{ wqe::OPCODE.width }>) -> bool {
    op == wqe::opcode::READ || is_atomic(op)
}
/// Bytes of an atomic; longest READ at the smallest PMTU, at the others it is the longest message.
const ATOMIC_BYTES: u64 = 8;
const READ_256: u64 = caps::max_read_bytes(Pmtu::Mtu256);
const _: () = assert!(caps::max_read_bytes(Pmtu::Mtu512) == caps::MAX_MSG_BYTES);

/// What is wrong with a WQE, key apart.
#[rtl_fn]
fn check(w: Wqe, bus_err: bool, s: ReadStage) -> Bits<8> {
    let inline = (w.flags & wqe::flag::INLINE).any();
    let ours = w.index == s.idx && w.qpn == bit_cast::<24, QP_W>(s.qpn);
    let clean = w.reserved == 0 && (w.flags & !bits::<{ wqe::FLAGS.width }>(FLAGS)) == 0;
    let read = is_read(w.opcode);
    let atomic = is_atomic(w.opcode);
    let pieces = if is_local(w.opcode) {
        !inline && w.num_sge == 0
    } else if read {
        !inline && w.num_sge <= 1 && (!atomic || w.num_sge == 1)
    } else if inline {
        w.num_sge == 0
    } else {
        w.num_sge <= SEND_SGES as u64
    };
    let zero = bits::<32>(0);
    let one = if w.num_sge.any() { w.sge0_length } else { zero };
    let two = if w.num_sge >= 2 { w.sge1_length } else { zero };
    let whole = if inline {
        w.length <= wqe::MAX_INLINE as u64
    } else {
        // the sum of two blocks is checked with the second
        w.num_sge > wqe::BLOCK_SGES as u64 || sum_is(one, two, zero, zero, w.length)
    };
    if bus_err {
        status::FATAL_ERR.into()
    } else if !(s.rc || (s.uc && w.opcode != wqe::opcode::SEND_INV))
        || !ours
        || !clean
        || !pieces
        || !(known(w.opcode) || (read && s.rc && !s.no_reads))
    {
        status::LOC_QP_OP_ERR.into()
    } else if !whole
        || w.length > caps::MAX_MSG_BYTES
        || (atomic && w.length != ATOMIC_BYTES)
        || (read && s.pmtu == caps::pmtu::MTU_256 && w.length > READ_256)
    {
        status::LOC_LEN_ERR.into()
    } else {
        status::SUCCESS.into()
    }
}

/// `a + b + c + d == sum`, without carries that ripple.
#[rtl_fn]
fn sum_is(a: Bits<32>, b: Bits<32>, c: Bits<32>, d: Bits<32>, sum: Bits<32>) -> bool {
    let x = wide(a);
    let y = wide(b);
    let z = wide(c);
    let u = wide(d);
    let s1 = x ^ y ^ z;
    let c1 = ((x & y) | (y & z) | (x & z)) << 1;
    let s2 = s1 ^ c1 ^ u;
    let c2 = ((s1 & c1) | (c1 & u) | (s1 & u)) << 1;
    let k = wide(sum);
    // the carries that would make this sum are the ones that come about
    (s2 ^ c2 ^ k) == (((s2 & c2) | ((s2 | c2) & !k)) << 1)
}
#[rtl_fn]
fn wide(x: Bits<32>) -> Bits<36> {
    bit_cast::<36, 32>(x)
}

/// What is wrong with the second block of a WQE.
#[rtl_fn]
fn check_second(w: Wqe, bus_err: bool, s: ReadStage, h: Half) -> Bits<8> {
    let d = if h.four { w.sge1_length } else { 0.into() };
    let whole = sum_is(h.sge0_length, h.sge1_length, w.sge0_length, d, h.job.length);
    if bus_err {
        status::FATAL_ERR.into()
    } else if !is_second(w, s) {
        status::LOC_QP_OP_ERR.into()
    } else if !whole {
        status::LOC_LEN_ERR.into()
    } else {
        status::SUCCESS.into()
    }
}
#[rtl_fn]
fn is_second(w: Wqe, s: ReadStage) -> bool {
    w.opcode == wqe::opcode::MORE_SGE
        && w.index == s.idx
        && w.qpn == bit_cast::<24, QP_W>(s.qpn)
        && !w.flags.any()
        && !w.num_sge.any()
        && !w.length.any()
        && !w.imm_or_invkey.any()
        && !w.remote_va.any()
        && !w.rkey.any()
        && !w.reserved.any()
}

#[derive(LogicBlock, Default)]
pub struct WqeCheck {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub grant_valid: Signal<In, Bit>,
    pub grant_ready: Signal<Out, Bit>,
    pub grant: Signal<In, Grant>,
    pub slot_at: Signal<Out, Bits<SLOT_AW>>,
    pub slot: Signal<In, SqSlot>,
    pub mr_req_valid: Signal<Out, Bit>,
    pub mr_req: Signal<Out, MrReq>,
    pub mr_rsp_valid: Signal<In, Bit>,
    pub mr_rsp: Signal<In, MrRsp>,
    pub turn_valid: Signal<Out, Bit>,
    pub turn_ready: Signal<In, Bit>,
    pub turn: Signal<Out, Grant>,
    pub job_valid: Signal<Out, Bit>,
    pub job_ready: Signal<In, Bit>,
    pub job: Signal<Out, SendJob>,
    pub key_valid: Signal<Out, Bit>,
    pub key_ready: Signal<In, Bit>,
    pub key: Signal<Out, MrRsp>,
    pub put_valid: Signal<Out, Bit>,
    pub put: Signal<Out, SgePut>,
    /// No turn and no job is under way.
    pub idle: Signal<Out, Bit>,
    turns: Fifo<Grant, TURN_W, { TURN_W + 1 }>,
    jobs: Fifo<SendJob, JOB_W, { JOB_W + 1 }>,
    keys: Fifo<MrRsp, JOB_W, { JOB_W + 1 }>,
    walk: Reg<Walk>,
    read: Reg<ReadStage>,
    checked: Reg<JobStage>,
    half: Reg<Half>,
    /// List of the next WQE.
    list: Reg<Bits<LIST_W>>,
    lookups: SgeKeys,
    sized: Reg<SizedStage>,
    /// Jobs between the slot read and the segmenter.
    under_way: Reg<Bits<{ JOB_W + 1 }>>,
}
impl Logic for WqeCheck {
    #[rtl]
    fn update(&mut self) {
        regs!(
            self, clock, walk, read, checked, half, list, sized, under_way
        );
        clocks!(self, clock, turns, jobs, keys, lookups);
        self.lookups.reset.next = self.reset.val();
        self.turns.reset.next = self.reset.val();
        self.jobs.reset.next = self.reset.val();
        self.keys.reset.next = self.reset.val();
        let walk = self.walk.q.val();

        // a new grant; the segmenter gets it too
        let accept = self.grant_valid.val() && !walk.active && self.turns.i_ready.val();
        self.grant_ready.next = !walk.active && self.turns.i_ready.val();
        self.turns.i_valid.next = accept;
        self.turns.i_data.next = self.grant.val();
        self.turns.o_ready.next = self.turn_ready.val();
        self.turn_valid.next = self.turns.o_valid.val();
        self.turn.next = self.turns.o_data.val();
        if accept {
            self.walk.d.next = Walk {
                active: true,
                grant: self.grant.val(),
                idx: self.grant.val().at.idx,
                left: self.grant.val().wqes,
            };
        }

        // read a slot a cycle; while a second piece is looked up, the same again
        let s = self.read.q.val();
        let checked = self.checked.q.val();
        let hold = checked.looks && checked.second;
        let go = walk.active && self.under_way.q.val() < 1 << JOB_W && !hold;
        self.slot_at.next = if hold {
            slot_addr(s.qpn, s.idx.get_bits::<WQE_SLOT_W>(0))
        } else {
            slot_addr(walk.grant.qpn, walk.idx.get_bits::<WQE_SLOT_W>(0))
        };
        if go {
            self.walk.d.next.idx = walk.idx + 1;
            self.walk.d.next.left = walk.left - 1;
            self.walk.d.next.active = walk.left != 1;
        }
        if !hold {
            self.read.d.next = ReadStage {
                valid: go,
                qpn: walk.grant.qpn,
                idx: walk.idx,
                final_job: walk.left == 1,
                pd: walk.grant.pd,
                pmtu: walk.grant.pmtu,
                rc: walk.grant.rc,
                uc: walk.grant.uc,
                sig_all: walk.grant.sig_all,
                no_reads: walk.grant.no_reads,
            };
        }

        // check what came
        let half = self.half.q.val();
        let list = self.list.q.val();
        let slot = self.slot.val();
        let w = Wqe::unpack(slot.wqe);
        let fault = check(w, slot.bus_err, s);
        let inline = (w.flags & wqe::flag::INLINE).any();
        let any = w.length.any();
        let sge0 = w.sge0_length.any();
        let sge1 = w.sge1_length.any();
        let fine = fault == status::SUCCESS;
        let two = fine && !inline && w.num_sge > wqe::BLOCK_SGES as u64;
        let short = two && s.final_job;
        let keyed = fine && !inline && any && !short;
        let job = SendJob {
            final_job: s.final_job,
            opcode: w.opcode,
            status: fault,
            signaled: s.sig_all || (w.flags & wqe::flag::SIGNALED).any(),
            solicited: (w.flags & wqe::flag::SOLICITED).any(),
            inline,
            read: is_read(w.opcode),
            atomic: is_atomic(w.opcode),
            inval: is_local(w.opcode),
            revive: w.opcode == wqe::opcode::REG_MR,
            fence: (w.flags & wqe::flag::FENCE).any(),
            keyed,
            gather: keyed && (two || (w.num_sge == 2 && sge0 && sge1)),
            list,
            two,
            short,
            length: w.length,
            packets_1: 0.into(),
            last_len: 0.into(),
            va: w.remote_va,
            rkey: w.rkey,
            imm: w.imm_or_invkey,
            data: slot
                .wqe
                .get_bits::<{ 8 * wqe::MAX_INLINE }>(wqe::SGE0_VA.lsb),
        };
        let last_byte = if any { w.length - 1 } else { 0.into() };
        let ends_second = half.on && s.valid;
        let waits = s.valid && two && !short && !half.on;
        let more = w.num_sge >= 2;
        let first_look = SgeLook {
            mr: MrReq {
                key: w.sge0_lkey,
                va: w.sge0_va,
                len: w.sge0_length,
                pd: s.pd,
                need: if is_read(w.opcode) {
                    access::LOCAL_WRITE.into()
                } else {
                    0.into()
                },
            },
            list: if half.on { half.job.list } else { list },
            touch: sge0,
            last: !more,
        };
        let second_look = SgeLook {
            mr: MrReq {
                key: w.sge1_lkey,
                va: w.sge1_va,
                len: w.sge1_length,
                ..first_look.mr
            },
            touch: sge1,
            last: !two,
            ..first_look
        };
        let block_ok = !slot.bus_err && is_second(w, s);
        if hold {
            // the WQE has gone on, its second piece follows
            self.checked.d.next = JobStage {
                valid: false,
                look: checked.then,
                second: false,
                ..checked
            };
        } else if half.on {
            self.checked.d.next = JobStage {
                valid: s.valid,
                job: SendJob {
                    final_job: s.final_job,
                    status: check_second(w, slot.bus_err, s, half),
                    ..half.job
                },
                pmtu: half.pmtu,
                last_byte: half.last_byte,
                looks: s.valid && half.job.keyed,
                look: SgeLook {
                    touch: block_ok && sge0,
                    last: !block_ok || !half.four,
                    ..first_look
                },
                second: block_ok && half.four,
                then: SgeLook {
                    last: true,
                    ..second_look
                },
            };
        } else {
            self.checked.d.next = JobStage {
                valid: s.valid && (!two || short),
                job,
                pmtu: s.pmtu,
                last_byte,
                looks: s.valid && keyed,
                look: first_look,
                second: more,
                then: second_look,
            };
        }
        if !hold && s.valid {
            self.half.d.next = Half {
                on: waits,
                job,
                pmtu: s.pmtu,
                last_byte,
                sge0_length: w.sge0_length,
                sge1_length: w.sge1_length,
                four: w.num_sge == wqe::MAX_SGE as u64,
            };
            if !waits {
                self.list.d.next = list + 1;
            }
        }
        // cut it into packets
        let shift = pmtu_w(checked.pmtu);
        let offset = bit_cast::<PLEN_W, { wqe::LENGTH.width }>(checked.last_byte)
            & ((bits::<PLEN_W>(1) << shift) - 1);
        self.sized.d.next = SizedStage {
            valid: checked.valid,
            job: SendJob {
                // a local operation has none
                packets_1: if checked.job.inval {
                    !bits::<PSN_W>(0)
                } else {
                    bit_cast::<PSN_W, { wqe::LENGTH.width }>(checked.last_byte >> shift)
                },
                last_len: if checked.job.length.any() {
                    offset + 1
                } else {
                    0.into()
                },
                ..checked.job
            },
        };
        self.jobs.i_valid.next = self.sized.q.val().valid;
        self.jobs.i_data.next = self.sized.q.val().job;
        self.lookups.look_valid.next = checked.looks;
        self.lookups.look.next = checked.look;
        self.mr_req_valid.next = self.lookups.mr_req_valid.val();
        self.mr_req.next = self.lookups.mr_req.val();
        self.lookups.mr_rsp_valid.next = self.mr_rsp_valid.val();
        self.lookups.mr_rsp.next = self.mr_rsp.val();
        self.put_valid.next = self.lookups.put_valid.val();
        self.put.next = self.lookups.put.val();
        self.keys.i_valid.next = self.lookups.key_valid.val();
        self.keys.i_data.next = self.lookups.key.val();

        self.jobs.o_ready.next = self.job_ready.val();
        self.job_valid.next = self.jobs.o_valid.val();
        self.job.next = self.jobs.o_data.val();
        self.keys.o_ready.next = self.key_ready.val();
        self.key_valid.next = self.keys.o_valid.val();
        self.key.next = self.keys.o_data.val();
        self.idle.next = !walk.active && !self.turns.o_valid.val() && self.under_way.q.val() == 0;
        let pop = self.jobs.o_valid.val() && self.job_ready.val();
        // a second block is no job of its own
        self.under_way.d.next = self.under_way.q.val() + bit_cast::<{ JOB_W + 1 }, 1>(go.into())
            - bit_cast::<{ JOB_W + 1 }, 1>(pop.into())
            - bit_cast::<{ JOB_W + 1 }, 1>((ends_second && !hold).into());

        if self.reset.val() {
            self.walk.d.next.active = false;
            self.read.d.next.valid = false;
            self.checked.d.next.valid = false;
            self.checked.d.next.looks = false;
            self.half.d.next.on = false;
            self.list.d.next = 0.into();
            self.sized.d.next.valid = false;
            self.under_way.d.next = 0.into();
        }
    }
}
