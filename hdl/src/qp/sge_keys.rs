//! Looks the keys of a message's pieces up, and makes one answer of theirs.
//!
//! | port | what |
//! |---|---|
//! | `look` | pieces, in order; `touch`: it has bytes, so its key counts; `last`: the message's last one |
//! | `mr_req`, `mr_rsp` | key table; answers come in order after a fixed time |
//! | `key` | for each message: all its keys are good; where its first byte is |
//! | `put` | to `sge_walk`: the place of each piece with bytes, in `list` from entry 0 on |
//!
//! No back-pressure anywhere. Latency: `look` to `mr_req` and `mr_rsp` to `key` none. Throughput: a piece a cycle.
use super::sq_types::*;
use crate::prim::{Fifo, Reg};
use crate::types::*;
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

/// Lookups under way, log2: more than the key table's latency.
const WAY_W: usize = 3;

/// A piece to be looked up.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct SgeLook {
    pub mr: MrReq,
    pub list: Bits<LIST_W>,
    pub touch: Bit,
    pub last: Bit,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Waiting {
    list: Bits<LIST_W>,
    touch: Bit,
    last: Bit,
    len: Bits<32>,
}
/// The message's pieces so far.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct SoFar {
    bad: Bit,
    /// Pieces with bytes, and where the first of them is.
    count: Bits<SGE_W>,
    any: Bit,
    iova: Bits<64>,
}

#[derive(LogicBlock, Default)]
pub struct SgeKeys {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub look_valid: Signal<In, Bit>,
    pub look: Signal<In, SgeLook>,
    pub mr_req_valid: Signal<Out, Bit>,
    pub mr_req: Signal<Out, MrReq>,
    pub mr_rsp_valid: Signal<In, Bit>,
    pub mr_rsp: Signal<In, MrRsp>,
    pub key_valid: Signal<Out, Bit>,
    pub key: Signal<Out, MrRsp>,
    pub put_valid: Signal<Out, Bit>,
    pub put: Signal<Out, SgePut>,
    waiting: Fifo<Waiting, WAY_W, { WAY_W + 1 }>,
    so_far: Reg<SoFar>,
}
impl Logic for SgeKeys {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, so_far);
        clocks!(self, clock, waiting);
        self.waiting.reset.next = self.reset.val();
        let look = self.look.val();
        self.mr_req_valid.next = self.look_valid.val() && look.touch;
        self.mr_req.next = look.mr;
        self.waiting.i_valid.next = self.look_valid.val();
        self.waiting.i_data.next = Waiting {
            list: look.list,
            touch: look.touch,
            last: look.last,
            len: look.mr.len,
        };

        let w = self.waiting.o_data.val();
        let a = self.mr_rsp.val();
        let f = self.so_far.q.val();
        let known = self.waiting.o_valid.val() && (!w.touch || self.mr_rsp_valid.val());
        self.waiting.o_ready.next = known;
        let bad = f.bad || (w.touch && !a.ok);
        let iova = if f.any { f.iova } else { a.iova };
        self.key_valid.next = known && w.last;
        self.key.next = MrRsp { ok: !bad, iova };
        self.put_valid.next = known && w.touch;
        self.put.next = SgePut {
            at: list_addr(w.list, f.count),
            place: SgePlace {
                iova: a.iova,
                len: w.len,
            },
        };
        if known {
            self.so_far.d.next = if w.last {
                SoFar::default()
            } else {
                SoFar {
                    bad,
                    count: if w.touch { f.count + 1 } else { f.count },
                    any: f.any || w.touch,
                    iova,
                }
            };
        }
        if self.reset.val() {
            self.so_far.d.next = SoFar::default();
        }
    }
}
