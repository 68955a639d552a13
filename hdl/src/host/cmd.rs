//! The command processor: mailbox commands, faults of queue pairs, and with them every change of a QP's state.
//!
//! | port | what |
//! |---|---|
//! | `go`, `words`, `done` | the mailbox |
//! | `op` | broadcast to the engines, one valid and ready bit each; all have the same data |
//! | `mr`, `cq`, `eq` | entries to create or remove |
//! | `qp_page`, `cq_page` | who may ring doorbells |
//! | `fault_*` | faults the engines found |
//! | `eqe` | asynchronous events, to event queue 0 |
//! | `pass`, `passed` | drain what is in flight for a local invalidate: taken when it begins; pulse when it is over |
//! | `drain_req`, `drain_ack` | in-flight DMA before a removal, then (`drain_cq_*`) the completions it made |
//!
//! One command at a time, a few tens of cycles without the drains. Faults go between commands, and so do drains for local
//! invalidates, in turn with them; one that takes too long begins anew. A command ends with a
//! status in bounded time: a drain that takes longer than 2^DRAIN_W cycles ends it with TIMEOUT; a queue stays then,
//! while the key of a region is dead from the beginning of its drain on.
//! Never answers a command before all engines have taken its operation (rule R9).
use super::axil_regs::{Done, Go, IN_BITS, OUT_BITS};
use super::cmd_check::*;
use super::cmd_steps::*;
use super::cmd_verdict::CmdVerdict;
use super::cq_engine::{CqCfg, CqWrite};
use super::doorbells::{CqPage, QpPage};
use super::eq_engine::{EqCfg, EqWrite};
use super::mr_table::{MrEntry, MrWrite};
use crate::cfg::*;
use crate::prim::*;
use crate::types::*;
use rocenic_contract::cmd::{
    create_cq, create_eq, create_mr, create_qp, modify_qp, object, opcode, qp_state, query_qp,
    set_port, status, transport,
};
use rocenic_contract::{caps, eqe};
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

#[derive(LogicBlock, Default)]
pub struct Cmd {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub go_valid: Signal<In, Bit>,
    pub go_ready: Signal<Out, Bit>,
    pub go: Signal<In, Go>,
    pub words: Signal<In, Bits<IN_BITS>>,
    pub done_valid: Signal<Out, Bit>,
    pub done: Signal<Out, Done>,
    pub op_valid: Signal<Out, Bits<ENGINES>>,
    pub op_ready: Signal<In, Bits<ENGINES>>,
    pub op: Signal<Out, QpOp>,
    pub mr_valid: Signal<Out, Bit>,
    pub mr: Signal<Out, MrWrite>,
    pub cq_valid: Signal<Out, Bit>,
    pub cq_ready: Signal<In, Bit>,
    pub cq: Signal<Out, CqWrite>,
    pub eq_valid: Signal<Out, Bit>,
    pub eq_ready: Signal<In, Bit>,
    pub eq: Signal<Out, EqWrite>,
    pub qp_page_valid: Signal<Out, Bit>,
    pub qp_page: Signal<Out, QpPage>,
    pub cq_page_valid: Signal<Out, Bit>,
    pub cq_page: Signal<Out, CqPage>,
    pub fault_a_valid: Signal<In, Bit>,
    pub fault_a_ready: Signal<Out, Bit>,
    pub fault_a: Signal<In, QpFault>,
    pub fault_b_valid: Signal<In, Bit>,
    pub fault_b_ready: Signal<Out, Bit>,
    pub fault_b: Signal<In, QpFault>,
    pub fault_c_valid: Signal<In, Bit>,
    pub fault_c_ready: Signal<Out, Bit>,
    pub fault_c: Signal<In, QpFault>,
    pub eqe_valid: Signal<Out, Bit>,
    pub eqe_ready: Signal<In, Bit>,
    pub eqe: Signal<Out, EqeReq>,
    /// Held until the acknowledge.
    pub sq_view: Signal<In, SqView>,
    pub rq_view: Signal<In, RqView>,
    pub pass_valid: Signal<In, Bit>,
    pub pass_ready: Signal<Out, Bit>,
    pub passed: Signal<Out, Bit>,
    pub drain_req: Signal<Out, Bits<DRAINS>>,
    pub drain_ack: Signal<In, Bits<DRAINS>>,
    pub drain_cq_req: Signal<Out, Bit>,
    pub drain_cq_ack: Signal<In, Bit>,
    /// Another block still clears its tables.
    pub others_busy: Signal<In, Bit>,
    pub port: Signal<Out, PortCfg>,
    pub port_pmtu: Signal<Out, Bits<3>>,
    pub enable: Signal<In, Bit>,
    pub is_ready: Signal<Out, Bit>,
    qps: Sdpram<QpEntry, QP_W>,
    /// Queue pairs that use a shared receive queue.
    sharers: Sdpram<Bits<{ QP_W + 1 }>, QP_W>,
    cqs: Sdpram<CqEntry, CQ_W>,
    mrs: Sdpram<Bit, MR_W>,
    clear: Clear<MR_W>,
    eqs: Reg<Bits<EQS>>,
    eq_users: [Reg<Bits<{ CQ_W + 1 }>>; EQS],
    faults: Fifo<QpFault, FAULT_W, { FAULT_W + 1 }>,
    verdict: CmdVerdict,
    now: Reg<Now>,
    /// What the engines are told.
    telling: Reg<QpOp>,
    my_port: Reg<PortCfg>,
    my_pmtu: Reg<Bits<3>>,
    out: Reg<Bits<OUT_BITS>>,
}
impl Logic for Cmd {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, eqs, now, telling, my_port, my_pmtu, out);
        clocks!(self, clock, qps, sharers, cqs, mrs, clear, faults, verdict);
        self.clear.reset.next = self.reset.val();
        self.faults.reset.next = self.reset.val();

        // faults of the three sources, one a cycle
        let fa = self.fault_a_valid.val();
        let fb = self.fault_b_valid.val();
        let room = self.faults.i_ready.val();
        self.fault_a_ready.next = room;
        self.fault_b_ready.next = room && !fa;
        self.fault_c_ready.next = room && !fa && !fb;
        self.faults.i_valid.next = fa || fb || self.fault_c_valid.val();
        self.faults.i_data.next = if fa {
            self.fault_a.val()
        } else if fb {
            self.fault_b.val()
        } else {
            self.fault_c.val()
        };

        // the command as each of its layouts
        let words = self.words.val();
        let obj = Object::unpack(words.get_bits::<{ 8 * object::BYTES }>(0));
        let setting = SetPort::unpack(words.get_bits::<{ 8 * set_port::BYTES }>(0));
        let new_eq = CreateEq::unpack(words.get_bits::<{ 8 * create_eq::BYTES }>(0));
        let new_cq = CreateCq::unpack(words.get_bits::<{ 8 * create_cq::BYTES }>(0));
        let new_mr = CreateMr::unpack(words.get_bits::<{ 8 * create_mr::BYTES }>(0));
        let making = CreateQp::unpack(words.get_bits::<{ 8 * create_qp::BYTES }>(0));
        let change = ModifyQp::unpack(words.get_bits::<{ 8 * modify_qp::BYTES }>(0));

        let now = self.now.q.val();
        let t = self.telling.q.val();
        let mut n = now;
        let mut tell = t;
        let entry = self.qps.rdata.val();
        let cq_entry = self.cqs.rdata.val();
        let taking_fault = now.step == Step::Idle && self.faults.o_valid.val();
        self.faults.o_ready.next = taking_fault;
        let passes = now.step == Step::Idle
            && !self.faults.o_valid.val()
            && self.pass_valid.val()
            && !(self.go_valid.val() && now.yields);
        self.pass_ready.next = passes;
        let drained = (now.drained | self.drain_ack.val()).all();
        self.passed.next = now.step == Step::Drain && now.passing && drained;
        let qpn_in = if taking_fault {
            self.faults.o_data.val().qpn
        } else {
            obj.number.get_bits::<QP_W>(0)
        };
        let qpn_now = if now.faulted {
            now.fault.qpn
        } else {
            obj.number.get_bits::<QP_W>(0)
        };
        let qpn = if now.step == Step::Idle {
            qpn_in
        } else {
            qpn_now
        };
        let counts_srq = now.step == Step::Srq || now.step == Step::SrqUse;
        let looked = if counts_srq { t.cfg.srqn } else { qpn };
        self.qps.raddr.next = looked;
        self.sharers.raddr.next = looked;
        let is_create_qp = now.opcode == bits::<8>(opcode::CREATE_QP);
        let is_query_qp = !now.faulted && now.opcode == bits::<8>(opcode::QUERY_QP);
        let is_destroy_qp = now.opcode == bits::<8>(opcode::DESTROY_QP);
        let is_create_cq = now.opcode == bits::<8>(opcode::CREATE_CQ);
        let is_create_eq = now.opcode == bits::<8>(opcode::CREATE_EQ);
        let is_create_mr = now.opcode == bits::<8>(opcode::CREATE_MR);
        let is_rekey_mr = now.opcode == bits::<8>(opcode::REKEY_MR);
        let revives = is_create_mr || is_rekey_mr;
        let cqn = if is_create_cq {
            new_cq.cqn.get_bits::<CQ_W>(0)
        } else {
            obj.number.get_bits::<CQ_W>(0)
        };
        let looks_send = now.step == Step::Act && is_create_qp;
        let looks_recv = now.step == Step::SendCq;
        let counts_send = now.step == Step::SendUse || now.step == Step::SendUsed;
        let counts_recv = now.step == Step::RecvUse || now.step == Step::RecvUsed;
        let cq_at = if looks_send || counts_send {
            t.cfg.send_cqn
        } else if looks_recv || counts_recv {
            t.cfg.recv_cqn
        } else {
            cqn
        };
        let making_cfg = new_qp(making);
        // in `Act` of CREATE_QP the operation is not stored yet
        let cq_look = if looks_send {
            making_cfg.send_cqn
        } else {
            cq_at
        };
        let idle_cqn = if self.go.val().opcode == bits::<8>(opcode::CREATE_CQ) {
            new_cq.cqn.get_bits::<CQ_W>(0)
        } else {
            obj.number.get_bits::<CQ_W>(0)
        };
        self.cqs.raddr.next = if now.step == Step::Idle {
            idle_cqn
        } else {
            cq_look
        };
        // both commands that give a key name it alike
        let op_in = self.go.val().opcode;
        let keyed_in =
            op_in == bits::<8>(opcode::CREATE_MR) || op_in == bits::<8>(opcode::REKEY_MR);
        let mr_in = if keyed_in { new_mr.index } else { obj.number };
        let mr_number = if revives { new_mr.index } else { obj.number };
        self.mrs.raddr.next = mr_in.get_bits::<MR_W>(0);
        let mr_exists = self.mrs.rdata.val();
        let eqn8 = if is_create_eq {
            new_eq.eqn
        } else {
            obj.number.get_bits::<8>(0)
        };
        let eqn = eqn8.get_bits::<EQ_W>(0);
        let eqs = self.eqs.q.val();
        let mut eq_in_use = false;
        for i in 0..EQS {
            if eqn == bits::<EQ_W>(i as u64) {
                eq_in_use = self.eq_users[i].q.val() != 0;
            }
        }

        self.verdict.opcode.next = now.opcode;
        self.verdict.words.next = words;
        self.verdict.qp_exists.next = entry.exists;
        self.verdict.qp.next = entry.cfg;
        self.verdict.qp_in_use.next = self.sharers.rdata.val().any();
        self.verdict.cq_exists.next = cq_entry.exists;
        self.verdict.cq_in_use.next = cq_entry.users != 0;
        self.verdict.mr_exists.next = mr_exists;
        self.verdict.eqs.next = eqs;
        self.verdict.eq_in_use.next = eq_in_use;
        let verdict = self.verdict.verdict.val();

        // outputs that a step may give
        let mut mr_write = false;
        let mut port = self.my_port.q.val();
        let mut largest = self.my_pmtu.q.val();
        let mut output = self.out.q.val();
        let merged = merge(change, entry.cfg);
        let kind = match change.new_state.index() {
            qp_state::index::RESET => QpOpKind::Reset,
            qp_state::index::INIT => {
                if entry.cfg.state == bits::<3>(qp_state::RESET) {
                    QpOpKind::Create
                } else {
                    QpOpKind::Modify
                }
            }
            qp_state::index::RTR => QpOpKind::StartRq,
            qp_state::index::RTS => {
                if entry.cfg.state == bits::<3>(qp_state::RTR) {
                    QpOpKind::StartSq
                } else {
                    QpOpKind::Modify
                }
            }
            // a second time changes nothing: what was flushed is not flushed again
            qp_state::index::ERROR => {
                if entry.cfg.state == bits::<3>(qp_state::ERROR) {
                    QpOpKind::Modify
                } else {
                    QpOpKind::Error
                }
            }
            _ => QpOpKind::Modify,
        };
        let sq = self.sq_view.val();
        let rq = self.rq_view.val();
        let answer = QueryQp {
            state: bit_cast::<8, 3>(entry.cfg.state),
            retry_left: bit_cast::<8, 3>(sq.retry),
            rnr_left: bit_cast::<8, 3>(sq.rnr_retry),
            epoch: sq.epoch,
            sq_psn: sq.psn,
            una_psn: sq.una,
            rq_psn: rq.psn,
            msn: rq.msn,
            sq_pi: sq.pi,
            sq_ci: sq.ci,
            rq_pi: rq.pi,
            rq_ci: rq.ci,
            tx_packets: sq.counts.packets,
            retries: sq.counts.retries,
            timeouts: sq.counts.timeouts,
            rx_naks_seq: sq.counts.naks_seq,
            rx_rnrs: sq.counts.rnrs,
            rx_packets: rq.counts.packets,
            rx_duplicates: rq.counts.duplicates,
            rx_out_of_order: rq.counts.out_of_order,
            rx_drops: rq.counts.drops,
            tx_naks_seq: rq.counts.naks_seq,
            tx_rnrs: rq.counts.rnrs,
            tx_naks: rq.counts.naks,
            ..QueryQp::unpack(0.into())
        };
        let answer_bits: Bits<{ 8 * query_qp::BYTES }> = answer.into();

        match now.step {
            Step::Clearing => {
                if !self.clear.busy.val() && !self.others_busy.val() {
                    n.step = Step::Idle;
                }
            }
            Step::Idle => {
                n.told = 0.into();
                n.drained = 0.into();
                n.ticks = 0.into();
                n.faulted = taking_fault;
                n.passing = passes;
                if taking_fault {
                    n.fault = self.faults.o_data.val();
                    n.step = Step::Fault;
                } else if passes {
                    n.step = Step::Drain;
                    n.yields = true;
                } else if self.go_valid.val() {
                    n.yields = false;
                    n.opcode = self.go.val().opcode;
                    n.status = bits::<8>(status::OK);
                    n.step = Step::Look;
                }
            }
            Step::Look => n.step = Step::Judge,
            Step::Judge => n.step = Step::Act,
            Step::Act => {
                n.status = verdict;
                if verdict != bits::<8>(status::OK) {
                    n.step = Step::Finish;
                } else {
                    match now.opcode.index() {
                        opcode::index::SET_PORT => {
                            n.step = Step::Finish;
                            port.mac = setting.mac;
                            port.ipv4 = setting.ipv4;
                            largest = setting.pmtu.get_bits::<3>(0);
                        }
                        opcode::index::CREATE_EQ => n.step = Step::WriteEq,
                        opcode::index::DESTROY_EQ => n.step = Step::WriteEq,
                        opcode::index::CREATE_CQ => n.step = Step::WriteCq,
                        opcode::index::DESTROY_CQ => n.step = Step::DrainCq,
                        opcode::index::CREATE_MR => {
                            mr_write = true;
                            n.step = Step::Finish;
                        }
                        opcode::index::DESTROY_MR | opcode::index::REKEY_MR => {
                            mr_write = true;
                            n.step = Step::Drain;
                        }
                        opcode::index::CREATE_QP => {
                            n.up = true;
                            n.step = if making_cfg.srq {
                                Step::Tell
                            } else {
                                Step::SendCq
                            };
                            tell = QpOp {
                                kind: QpOpKind::Create,
                                qpn: qpn_now,
                                cfg: making_cfg,
                            };
                        }
                        opcode::index::MODIFY_QP => {
                            n.step = Step::Tell;
                            tell = QpOp {
                                kind,
                                qpn: qpn_now,
                                cfg: merged,
                            };
                        }
                        // an operation that changes nothing: what the engines find is the answer
                        opcode::index::QUERY_QP => {
                            n.step = Step::Tell;
                            tell = QpOp {
                                kind: QpOpKind::Modify,
                                qpn: qpn_now,
                                cfg: entry.cfg,
                            };
                        }
                        opcode::index::DESTROY_QP => {
                            n.step = Step::Tell;
                            tell = QpOp {
                                kind: QpOpKind::Reset,
                                qpn: qpn_now,
                                cfg: QpCfg {
                                    state: bits::<3>(qp_state::RESET),
                                    ..entry.cfg
                                },
                            };
                        }
                        // NOP
                        _ => n.step = Step::Finish,
                    }
                }
            }
            Step::SendCq => {
                let there = cq_entry.exists && (making.send_cqn >> CQ_W as u64) == 0;
                if there {
                    n.step = Step::RecvCq;
                } else {
                    n = ends(n, status::BAD_PARAM);
                }
            }
            Step::RecvCq => {
                let there = cq_entry.exists && (making.recv_cqn >> CQ_W as u64) == 0;
                if !there {
                    n = ends(n, status::BAD_PARAM);
                } else if t.cfg.uses_srq {
                    n.step = Step::Srq;
                } else {
                    n.step = Step::SendUse;
                }
            }
            Step::Srq => n.step = Step::SrqUse,
            Step::SrqUse => {
                // going down the queue is there: it is in use
                let there = entry.exists && entry.cfg.srq && entry.cfg.pd == t.cfg.pd;
                n.step = Step::SrqUsed;
                if now.up && !there {
                    n = ends(n, status::BAD_PARAM);
                }
            }
            Step::SrqUsed => n.step = Step::SendUse,
            Step::SendUse => n.step = Step::SendUsed,
            Step::SendUsed => n.step = Step::RecvUse,
            Step::RecvUse => n.step = Step::RecvUsed,
            Step::RecvUsed => n.step = if now.up { Step::Tell } else { Step::Store },
            Step::Tell => {
                n.told = now.told | self.op_ready.val();
                if (now.told | self.op_ready.val()).all() {
                    n.drained = !bits::<DRAINS>(DRAINS_OF_QP);
                    n.step = if t.kind == QpOpKind::Reset {
                        Step::Drain
                    } else {
                        Step::Store
                    };
                }
            }
            Step::Drain => {
                n.drained = now.drained | self.drain_ack.val();
                n.ticks = now.ticks + 1;
                if now.passing && (drained || now.ticks.all()) {
                    n.step = Step::Idle;
                } else if drained {
                    n.step = Step::DrainCq;
                    n.ticks = 0.into();
                } else if now.ticks.all() {
                    n = ends(n, status::TIMEOUT);
                }
            }
            Step::DrainCq => {
                n.ticks = now.ticks + 1;
                if self.drain_cq_ack.val() {
                    n.up = false;
                    n.step = if is_destroy_qp && t.cfg.uses_srq {
                        Step::Srq
                    } else if is_destroy_qp && !t.cfg.srq {
                        Step::SendUse
                    } else if now.opcode == bits::<8>(opcode::DESTROY_CQ) {
                        Step::WriteCq
                    } else if is_rekey_mr || now.opcode == bits::<8>(opcode::DESTROY_MR) {
                        Step::Finish
                    } else {
                        Step::Store
                    };
                } else if now.ticks.all() {
                    n = ends(n, status::TIMEOUT);
                }
            }
            Step::Store => {
                if is_query_qp {
                    output = bit_cast::<OUT_BITS, { 8 * query_qp::BYTES }>(answer_bits);
                }
                // a fault without an event: its completion tells
                n.step = if now.faulted && now.fault.etype == 0 {
                    Step::Idle
                } else if now.faulted {
                    Step::Event
                } else {
                    Step::Finish
                }
            }
            Step::WriteCq => {
                if self.cq_ready.val() {
                    n.step = Step::Finish;
                }
            }
            Step::WriteEq => {
                if self.eq_ready.val() {
                    n.step = Step::Finish;
                }
            }
            Step::Finish => n.step = Step::Idle,
            Step::Fault => {
                let dead = entry.cfg.state == bits::<3>(qp_state::RESET)
                    || entry.cfg.state == bits::<3>(qp_state::ERROR);
                let established = now.fault.etype == bits::<8>(eqe::event::COMM_ESTABLISHED);
                let low = now.fault.etype == bits::<8>(eqe::event::SRQ_LIMIT_REACHED);
                let last = now.fault.etype == bits::<8>(eqe::event::LAST_WQE_REACHED);
                let drained = now.fault.etype == bits::<8>(eqe::event::SQ_DRAINED);
                let only_event = ((established || drained) && !dead)
                    || (low && entry.cfg.srq)
                    || (last && entry.cfg.state == bits::<3>(qp_state::ERROR));
                // a send that failed leaves the receive side of a UC queue pair as it is
                let half = now.fault.sends && entry.cfg.transport == bits::<2>(transport::UC);
                tell = QpOp {
                    kind: if half {
                        QpOpKind::Modify
                    } else {
                        QpOpKind::Error
                    },
                    qpn: qpn_now,
                    cfg: QpCfg {
                        state: if half {
                            bits::<3>(qp_state::SQE)
                        } else {
                            bits::<3>(qp_state::ERROR)
                        },
                        ..entry.cfg
                    },
                };
                n.step = if !entry.exists {
                    Step::Idle
                } else if only_event {
                    Step::Event
                } else if dead || low || last {
                    Step::Idle
                } else {
                    Step::Tell
                };
            }
            Step::Event => {
                if self.eqe_ready.val() {
                    n.step = Step::Idle;
                }
            }
        }

        // mailbox
        self.go_ready.next = now.step == Step::Idle && !taking_fault && !passes;
        self.done_valid.next = now.step == Step::Finish;
        self.done.next = Done {
            status: now.status,
            out: self.out.q.val(),
        };
        self.out.d.next = output;
        self.is_ready.next = now.step != Step::Clearing;

        // engines
        self.op.next = t;
        self.op_valid.next = if now.step == Step::Tell {
            !now.told
        } else {
            0.into()
        };
        self.drain_req.next = if now.step == Step::Drain {
            !now.drained
        } else {
            0.into()
        };
        self.drain_cq_req.next = now.step == Step::DrainCq;

        // tables
        let clearing = self.clear.busy.val();
        let at = self.clear.addr.val();
        let nothing = QpEntry {
            exists: false,
            cfg: t.cfg,
        };
        let store = now.step == Step::Store;
        let exists = now.faulted || !is_destroy_qp;
        self.qps.we.next = clearing || store;
        self.qps.waddr.next = if clearing {
            at.get_bits::<QP_W>(0)
        } else {
            t.qpn
        };
        self.qps.wdata.next = if clearing {
            nothing
        } else {
            QpEntry { exists, cfg: t.cfg }
        };
        let shares = now.step == Step::SrqUsed;
        let users_now = self.sharers.rdata.val();
        self.sharers.we.next = clearing || shares;
        self.sharers.waddr.next = if clearing {
            at.get_bits::<QP_W>(0)
        } else {
            t.cfg.srqn
        };
        self.sharers.wdata.next = if clearing {
            0.into()
        } else if now.up {
            users_now + 1
        } else {
            users_now - 1
        };
        self.qp_page_valid.next = store && !now.faulted;
        self.qp_page.next = QpPage {
            qpn: t.qpn,
            exists: !is_destroy_qp,
            page: t.cfg.db_page,
        };

        let counted = now.step == Step::SendUsed || now.step == Step::RecvUsed;
        let writes_cq = now.step == Step::WriteCq;
        let users = if now.up {
            cq_entry.users + 1
        } else {
            cq_entry.users - 1
        };
        self.cqs.we.next = clearing || counted || writes_cq;
        self.cqs.waddr.next = if clearing {
            at.get_bits::<CQ_W>(0)
        } else {
            cq_at
        };
        self.cqs.wdata.next = if clearing {
            CqEntry {
                exists: false,
                eqn: 0.into(),
                users: 0.into(),
            }
        } else if writes_cq {
            CqEntry {
                exists: is_create_cq,
                eqn: new_cq.eqn.get_bits::<EQ_W>(0),
                users: 0.into(),
            }
        } else {
            CqEntry { users, ..cq_entry }
        };
        self.cq_valid.next = writes_cq;
        self.cq.next = CqWrite {
            cqn,
            cfg: CqCfg {
                valid: is_create_cq,
                base: new_cq.base_iova,
                log2: new_cq.log2_size.get_bits::<4>(0),
                eqn: new_cq.eqn.get_bits::<EQ_W>(0),
            },
        };
        self.cq_page_valid.next = writes_cq;
        self.cq_page.next = CqPage {
            cqn,
            exists: is_create_cq,
            page: new_cq.db_page,
        };
        let cq_written = writes_cq && self.cq_ready.val();
        let cq_eqn = if is_create_cq {
            new_cq.eqn.get_bits::<EQ_W>(0)
        } else {
            cq_entry.eqn
        };
        for i in 0..EQS {
            self.eq_users[i].clock.next = self.clock.val();
            let u = self.eq_users[i].q.val();
            let hit = cq_written && cq_eqn == bits::<EQ_W>(i as u64);
            self.eq_users[i].d.next = if self.reset.val() {
                0.into()
            } else if hit {
                if is_create_cq { u + 1 } else { u - 1 }
            } else {
                u
            };
        }

        let eq_written = now.step == Step::WriteEq && self.eq_ready.val();
        let one = bits::<EQS>(1);
        self.eq_valid.next = now.step == Step::WriteEq;
        self.eq.next = EqWrite {
            eqn,
            cfg: EqCfg {
                valid: is_create_eq,
                base: new_eq.base_iova,
                log2: new_eq.log2_size.get_bits::<4>(0),
                vector: new_eq.vector.get_bits::<EQ_W>(0),
            },
        };
        if eq_written {
            self.eqs.d.next = if is_create_eq {
                eqs | (one << eqn)
            } else {
                eqs & !(one << eqn)
            };
        }

        self.mrs.we.next = clearing || mr_write;
        self.mrs.waddr.next = if clearing {
            at
        } else {
            mr_number.get_bits::<MR_W>(0)
        };
        self.mrs.wdata.next = !clearing && revives;
        self.mr_valid.next = mr_write;
        self.mr.next = MrWrite {
            key_only: is_rekey_mr,
            index: mr_number.get_bits::<MR_W>(0),
            entry: MrEntry {
                valid: revives,
                variant: new_mr.key_variant,
                pd: new_mr.pd,
                rights: new_mr.rights.get_bits::<4>(0),
                va: new_mr.va,
                len: new_mr.length,
                iova: new_mr.iova,
            },
        };

        // events
        self.eqe_valid.next = now.step == Step::Event;
        self.eqe.next = EqeReq {
            eqn: bits::<EQ_W>(ASYNC_EQ),
            etype: now.fault.etype,
            syndrome: now.fault.syndrome,
            number: bit_cast::<32, QP_W>(now.fault.qpn),
            info: 0.into(),
        };

        port.enable = self.enable.val();
        if self.reset.val() {
            n.step = Step::Clearing;
            self.eqs.d.next = 0.into();
            port.mac = 0.into();
            port.ipv4 = 0.into();
            largest = bits::<3>(caps::pmtu::MTU_4096);
        }
        self.port.next = self.my_port.q.val();
        self.port_pmtu.next = self.my_pmtu.q.val();
        self.my_port.d.next = port;
        self.my_pmtu.d.next = largest;
        self.now.d.next = n;
        self.telling.d.next = tell;
    }
}
