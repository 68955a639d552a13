//! Packets of responses on their way to `payload_read`: each with the answer to its key.
//!
//! | port | what |
//! |---|---|
//! | `look` | packets, taken always |
//! | `room` | a turn of packets has place |
//! | `mr_req` / `mr_rsp` | region table; packets of no bytes are not looked up |
//! | `tx` | packets whose key is good; `job`: atomics to be executed |
//! | `fail` | one whose key is not: NAK remote access error |
//! | `drain_req` / `drain_ack` | the packets looked up before the request have gone; hold the request until the answer |
//!
//! Latency: 5 cycles from `look` to `tx`. Throughput: a packet a cycle.
use super::resp_turn::TURN;
use super::{AtomicJob, RespLook, RespPkt};
use crate::cfg::*;
use crate::prim::{Fifo, Reg};
use crate::types::*;
use rocenic_contract::rules;
use rocenic_contract::syndrome::{self, nak::NakCode};
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

const ACK: u64 = syndrome::ACK as u64;
const NAK_ACCESS: u64 = syndrome::nak_syndrome(NakCode::RemoteAccess) as u64;
/// Packets under way, log2.
const WAY_W: usize = 4;

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Drain {
    on: Bit,
    left: Bits<{ WAY_W + 1 }>,
}

#[derive(LogicBlock, Default)]
pub struct RespSend {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub look_valid: Signal<In, Bit>,
    pub look: Signal<In, RespLook>,
    pub room: Signal<Out, Bit>,
    pub mr_req_valid: Signal<Out, Bit>,
    pub mr_req: Signal<Out, MrReq>,
    pub mr_rsp_valid: Signal<In, Bit>,
    pub mr_rsp: Signal<In, MrRsp>,
    pub tx_valid: Signal<Out, Bit>,
    pub tx_ready: Signal<In, Bit>,
    pub tx: Signal<Out, TxCmd>,
    pub job_valid: Signal<Out, Bit>,
    pub job_ready: Signal<In, Bit>,
    pub job: Signal<Out, AtomicJob>,
    pub fail_valid: Signal<Out, Bit>,
    pub fail_ready: Signal<In, Bit>,
    pub fail: Signal<Out, RespFail>,
    pub drain_req: Signal<In, Bit>,
    pub drain_ack: Signal<Out, Bit>,
    packets: Fifo<RespPkt, WAY_W, { WAY_W + 1 }>,
    answers: Fifo<MrRsp, WAY_W, { WAY_W + 1 }>,
    count: Reg<Bits<{ WAY_W + 1 }>>,
    drain: Reg<Drain>,
}
impl Logic for RespSend {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, count, drain);
        clocks!(self, clock, packets, answers);
        self.packets.reset.next = self.reset.val();
        self.answers.reset.next = self.reset.val();
        let look = self.look.val();
        let comes = self.look_valid.val();
        self.packets.i_valid.next = comes;
        self.packets.i_data.next = look.pkt;
        self.mr_req_valid.next = comes && (look.pkt.len.any() || look.pkt.execute);
        self.mr_req.next = look.mr;
        self.answers.i_valid.next = self.mr_rsp_valid.val();
        self.answers.i_data.next = self.mr_rsp.val();

        let p = self.packets.o_data.val();
        let a = self.answers.o_data.val();
        let keyed = p.len.any() || p.execute;
        let known = self.packets.o_valid.val() && (!keyed || self.answers.o_valid.val());
        let bad = keyed && !a.ok;
        self.tx_valid.next = known && !bad && !p.execute;
        self.job_valid.next = known && !bad && p.execute;
        self.job.next = AtomicJob {
            pkt: p,
            iova: a.iova,
        };
        self.fail_valid.next = known && bad;
        let goes = known
            && if bad {
                self.fail_ready.val()
            } else if p.execute {
                self.job_ready.val()
            } else {
                self.tx_ready.val()
            };
        self.packets.o_ready.next = goes;
        self.answers.o_ready.next = goes && keyed;
        self.tx.next = TxCmd {
            pkt: TxPkt {
                qpn: p.qpn,
                response: true,
                epoch: p.epoch,
                idx: bit_cast::<IDX_W, RD_W>(p.idx),
                opcode: p.opcode,
                psn: p.psn,
                syndrome: ACK.into(),
                msn: p.msn,
                va: p.value,
                payload_len: p.len,
                iova: a.iova,
                ..TxPkt::default()
            },
            ..TxCmd::default()
        };
        self.fail.next = RespFail {
            qpn: p.qpn,
            epoch: p.epoch,
            idx: p.idx,
            psn: p.psn,
            syndrome: NAK_ACCESS.into(),
            check: rules::RKEY.into(),
            msn: p.msn,
        };

        let count = self.count.q.val();
        self.count.d.next = if comes && !goes {
            count + 1
        } else if goes && !comes {
            count - 1
        } else {
            count
        };
        self.room.next = count <= (1 << WAY_W) - TURN;
        let drain = self.drain.q.val();
        self.drain.d.next = if !drain.on {
            Drain {
                on: self.drain_req.val(),
                left: if goes { count - 1 } else { count },
            }
        } else {
            Drain {
                on: self.drain_req.val(),
                left: if goes && drain.left.any() {
                    drain.left - 1
                } else {
                    drain.left
                },
            }
        };
        self.drain_ack.next = drain.on && !drain.left.any();
        if self.reset.val() {
            self.count.d.next = 0.into();
            self.drain.d.next.on = false;
        }
    }
}
