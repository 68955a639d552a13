//! What a mailbox command would be refused for: every check of every command, none of its effects.
//!
//! | port | what |
//! |---|---|
//! | `opcode`, `words` | the command; `words` hold still from the step that looks at them on |
//! | `qp_exists`, `qp`, `qp_in_use`, `cq_exists`, `cq_in_use`, `mr_exists` | the objects' entries, in the same cycle |
//! | `eqs`, `eq_in_use` | event queues that exist; the one that the command names is in use |
//! | `verdict` | `contract` status the command ends with (OK: it may be carried out), two cycles later |
//!
//! Two stages: single conditions, then the first of them that fails.
use super::axil_regs::IN_BITS;
use super::cmd_check::*;
use crate::cfg::*;
use crate::prim::Reg;
use crate::types::QpCfg;
use rocenic_contract::cmd::{
    create_cq, create_eq, create_mr, create_qp, modify_qp, object, opcode, set_port, status,
};
use rocenic_contract::{caps, cqe, eqe};
use rtl::{regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

const CQE_LOG2: usize = cqe::BYTES.trailing_zeros() as usize;
const EQE_LOG2: usize = eqe::BYTES.trailing_zeros() as usize;

/// Conditions of the command at hand, each named by what is right.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Right {
    opcode: Bits<8>,
    /// The number is one of the table's, and its object is there, or is used.
    index: Bit,
    exists: Bit,
    used: Bit,
    state: Bit,
    supported: Bit,
    /// Fields other than numbers.
    param: Bit,
    ends: MrEnds,
}

/// A status, by the order in which reasons count: `index`, then existence, then the others.
#[rtl_fn]
fn creation(r: Right, param: bool) -> Bits<8> {
    if !r.index {
        status::BAD_INDEX.into()
    } else if r.exists {
        status::IN_USE.into()
    } else if !r.supported {
        status::UNSUPPORTED.into()
    } else if !param {
        status::BAD_PARAM.into()
    } else {
        status::OK.into()
    }
}
#[rtl_fn]
fn use_of(r: Right) -> Bits<8> {
    if !r.index || !r.exists {
        status::BAD_INDEX.into()
    } else if !r.state {
        status::BAD_STATE.into()
    } else if !r.param {
        status::BAD_PARAM.into()
    } else {
        status::OK.into()
    }
}
#[rtl_fn]
fn removal(r: Right) -> Bits<8> {
    if !r.param {
        status::BAD_PARAM.into()
    } else if !r.index || !r.exists {
        status::BAD_INDEX.into()
    } else if r.used {
        status::IN_USE.into()
    } else {
        status::OK.into()
    }
}

#[derive(LogicBlock, Default)]
pub struct CmdVerdict {
    pub clock: Signal<In, Clock>,
    pub opcode: Signal<In, Bits<8>>,
    pub words: Signal<In, Bits<IN_BITS>>,
    pub qp_exists: Signal<In, Bit>,
    pub qp: Signal<In, QpCfg>,
    pub qp_in_use: Signal<In, Bit>,
    pub cq_exists: Signal<In, Bit>,
    pub cq_in_use: Signal<In, Bit>,
    pub mr_exists: Signal<In, Bit>,
    pub eqs: Signal<In, Bits<{ 1 << EQ_W }>>,
    pub eq_in_use: Signal<In, Bit>,
    pub verdict: Signal<Out, Bits<8>>,
    right: Reg<Right>,
    answer: Reg<Bits<8>>,
}
impl Logic for CmdVerdict {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, right, answer);
        let words = self.words.val();
        let obj = Object::unpack(words.get_bits::<{ 8 * object::BYTES }>(0));
        let setting = SetPort::unpack(words.get_bits::<{ 8 * set_port::BYTES }>(0));
        let new_eq = CreateEq::unpack(words.get_bits::<{ 8 * create_eq::BYTES }>(0));
        let new_cq = CreateCq::unpack(words.get_bits::<{ 8 * create_cq::BYTES }>(0));
        let new_mr = CreateMr::unpack(words.get_bits::<{ 8 * create_mr::BYTES }>(0));
        let making = CreateQp::unpack(words.get_bits::<{ 8 * create_qp::BYTES }>(0));
        let change = ModifyQp::unpack(words.get_bits::<{ 8 * modify_qp::BYTES }>(0));
        let eqs = self.eqs.val();
        let number_ok = obj.reserved == 0;
        let qpn_ok =
            (obj.number >> QP_W as u64) == 0 && obj.number >= bits::<24>(caps::FIRST_QPN as u64);
        let modify = modify_check(change, self.qp.val());
        let mut r = Right {
            opcode: self.opcode.val(),
            index: true,
            exists: false,
            used: false,
            state: true,
            supported: true,
            param: true,
            ends: mr_ends(new_mr),
        };
        match r.opcode.index() {
            opcode::index::SET_PORT => r.param = port_ok(setting),
            opcode::index::CREATE_EQ => {
                r.index = (new_eq.eqn >> EQ_W as u64) == 0;
                r.exists = (eqs >> new_eq.eqn.get_bits::<EQ_W>(0)).get_bit(0);
                r.param = ring_ok(new_eq.base_iova, new_eq.log2_size, EQE_LOG2)
                    && new_eq.vector < bits::<16>(caps::VECTORS as u64)
                    && new_eq.reserved == 0;
            }
            opcode::index::DESTROY_EQ => {
                r.index = (obj.number >> EQ_W as u64) == 0;
                r.exists = (eqs >> obj.number.get_bits::<EQ_W>(0)).get_bit(0);
                r.used = self.eq_in_use.val();
                r.param = number_ok;
            }
            opcode::index::CREATE_CQ => {
                r.index = (new_cq.cqn >> CQ_W as u64) == 0;
                r.exists = self.cq_exists.val();
                r.param = ring_ok(new_cq.base_iova, new_cq.log2_size, CQE_LOG2)
                    && (new_cq.eqn >> EQ_W as u64) == 0
                    && (eqs >> new_cq.eqn.get_bits::<EQ_W>(0)).get_bit(0)
                    && new_cq.reserved == 0;
            }
            opcode::index::DESTROY_CQ => {
                r.index = (obj.number >> CQ_W as u64) == 0;
                r.exists = self.cq_exists.val();
                r.used = self.cq_in_use.val();
                r.param = number_ok;
            }
            opcode::index::CREATE_MR => {
                r.index = (new_mr.index >> MR_W as u64) == 0;
                r.exists = self.mr_exists.val();
                r.param = mr_ok(new_mr);
            }
            opcode::index::DESTROY_MR => {
                r.index = (obj.number >> MR_W as u64) == 0;
                r.exists = self.mr_exists.val();
                r.param = number_ok;
            }
            opcode::index::REKEY_MR => {
                r.index = (new_mr.index >> MR_W as u64) == 0;
                r.exists = self.mr_exists.val();
            }
            opcode::index::CREATE_QP => {
                r.index = qpn_ok;
                r.exists = self.qp_exists.val();
                r.supported = transport_ok(making.transport);
                r.param = qp_ok(making);
            }
            opcode::index::MODIFY_QP => {
                r.index = qpn_ok;
                r.exists = self.qp_exists.val();
                r.state = modify.state_ok;
                r.param = modify.param_ok;
            }
            opcode::index::QUERY_QP => {
                r.index = qpn_ok;
                r.exists = self.qp_exists.val();
            }
            opcode::index::DESTROY_QP => {
                r.index = qpn_ok;
                r.exists = self.qp_exists.val();
                r.used = self.qp_in_use.val();
                r.param = number_ok;
            }
            _ => {}
        }
        self.right.d.next = r;

        let q = self.right.q.val();
        self.answer.d.next = match q.opcode.index() {
            opcode::index::NOP => bits::<8>(status::OK),
            opcode::index::SET_PORT => {
                if q.param {
                    bits::<8>(status::OK)
                } else {
                    bits::<8>(status::BAD_PARAM)
                }
            }
            opcode::index::CREATE_EQ => creation(q, q.param),
            opcode::index::CREATE_CQ => creation(q, q.param),
            opcode::index::CREATE_MR => creation(q, q.param && mr_fits(q.ends)),
            opcode::index::CREATE_QP => creation(q, q.param),
            opcode::index::DESTROY_EQ => removal(q),
            opcode::index::DESTROY_CQ => removal(q),
            opcode::index::DESTROY_MR => removal(q),
            opcode::index::DESTROY_QP => removal(q),
            opcode::index::REKEY_MR => use_of(q),
            opcode::index::MODIFY_QP => use_of(q),
            opcode::index::QUERY_QP => use_of(q),
            _ => bits::<8>(status::BAD_OPCODE),
        };
        self.verdict.next = self.answer.q.val();
    }
}
