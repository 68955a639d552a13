//! Atomics of all QPs, one at a time (rule R13): read 8 bytes, compute, write them, and only then tell the result.
//!
//! | port | what |
//! |---|---|
//! | `job` | an atomic whose key is good; 32 may wait |
//! | `rd` / `beat` | the read |
//! | `line` / `line_done` | the write; none when a comparison fails |
//! | `executed` | it is done, what stood there before |
//! | `fail` | a bus error, or an IOVA that is no multiple of 8: NAK remote operational error |
//! | `drain_req` / `drain_ack` | the jobs taken before the request are done; hold the request until the answer |
//!
//! Numbers are little-endian in memory. Latency: read and write of the host, and 8 cycles.
use super::{AtomicDone, AtomicJob};
use crate::arith::{Pieces, pieces, total64};
use crate::prim::{Fifo, Reg};
use crate::types::*;
use rocenic_contract::rules;
use rocenic_contract::syndrome::{self, nak::NakCode};
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

const NAK_OPERATION: u64 = syndrome::nak_syndrome(NakCode::RemoteOperational) as u64;
const BYTES: u64 = 8;
/// Jobs that wait, log2.
const JOB_W: usize = 5;

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
enum Step {
    Idle,
    Ask,
    /// The beat, the 8 bytes in it, what they become.
    Beat,
    Compute,
    Sum,
    Write,
    Written,
    Tell,
    Fail,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct State {
    step: Step,
    job: AtomicJob,
    old: Bits<64>,
    new: Bits<64>,
    sum: Pieces,
    equal: Bit,
    check: Bits<8>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Drain {
    on: Bit,
    left: Bits<{ JOB_W + 2 }>,
}

#[derive(LogicBlock, Default)]
pub struct AtomicUnit {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub job_valid: Signal<In, Bit>,
    pub job_ready: Signal<Out, Bit>,
    pub job: Signal<In, AtomicJob>,
    pub rd_valid: Signal<Out, Bit>,
    pub rd_ready: Signal<In, Bit>,
    pub rd: Signal<Out, ReadReq>,
    pub beat_valid: Signal<In, Bit>,
    pub beat: Signal<In, ReadBeat>,
    pub line_valid: Signal<Out, Bit>,
    pub line_ready: Signal<In, Bit>,
    pub line: Signal<Out, LineWrite>,
    pub line_done_valid: Signal<In, Bit>,
    pub line_done_error: Signal<In, Bit>,
    pub executed_valid: Signal<Out, Bit>,
    pub executed_ready: Signal<In, Bit>,
    pub executed: Signal<Out, AtomicDone>,
    pub fail_valid: Signal<Out, Bit>,
    pub fail_ready: Signal<In, Bit>,
    pub fail: Signal<Out, RespFail>,
    pub drain_req: Signal<In, Bit>,
    pub drain_ack: Signal<Out, Bit>,
    jobs: Fifo<AtomicJob, JOB_W, { JOB_W + 1 }>,
    state: Reg<State>,
    /// Jobs taken and not done.
    count: Reg<Bits<{ JOB_W + 2 }>>,
    drain: Reg<Drain>,
}
impl Logic for AtomicUnit {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, state, count, drain);
        clocks!(self, clock, jobs);
        self.jobs.reset.next = self.reset.val();
        self.jobs.i_valid.next = self.job_valid.val();
        self.jobs.i_data.next = self.job.val();
        self.job_ready.next = self.jobs.i_ready.val();
        let s = self.state.q.val();
        let p = s.job.pkt;
        let mut n = s;
        self.jobs.o_ready.next = s.step == Step::Idle;
        let lane = s.job.iova.get_bits::<3>(3);
        let beat = self.beat.val();
        let mut old = bits::<64>(0);
        let mut data = bits::<512>(0);
        let mut strobe = bits::<64>(0);
        for i in 0..8 {
            if lane == i as u64 {
                old = beat.data.get_bits::<64>(64 * i);
                data = bit_cast::<512, 64>(s.new) << (64 * i) as u64;
                strobe = bits::<64>(0xff) << (8 * i) as u64;
            }
        }
        match s.step {
            Step::Idle => {
                n.job = self.jobs.o_data.val();
                n.check = rules::RESPONSE_READ.into();
                if self.jobs.o_valid.val() {
                    n.step = Step::Ask;
                }
            }
            Step::Ask => {
                if s.job.iova.get_bits::<3>(0).any() {
                    n.step = Step::Fail;
                } else if self.rd_ready.val() {
                    n.step = Step::Beat;
                }
            }
            Step::Beat => {
                n.old = old;
                if self.beat_valid.val() {
                    n.step = if beat.error {
                        Step::Fail
                    } else {
                        Step::Compute
                    };
                }
            }
            Step::Compute => {
                n.sum = pieces(s.old, p.value);
                n.equal = s.old == p.compare;
                n.step = Step::Sum;
            }
            Step::Sum => {
                n.new = if p.add { total64(s.sum) } else { p.value };
                n.check = rules::PAYLOAD_WRITE.into();
                n.step = if p.add || s.equal {
                    Step::Write
                } else {
                    Step::Tell
                };
            }
            Step::Write => {
                if self.line_ready.val() {
                    n.step = Step::Written;
                }
            }
            Step::Written => {
                if self.line_done_valid.val() {
                    n.step = if self.line_done_error.val() {
                        Step::Fail
                    } else {
                        Step::Tell
                    };
                }
            }
            Step::Tell => {
                if self.executed_ready.val() {
                    n.step = Step::Idle;
                }
            }
            Step::Fail => {
                if self.fail_ready.val() {
                    n.step = Step::Idle;
                }
            }
        }
        self.rd_valid.next = s.step == Step::Ask && !s.job.iova.get_bits::<3>(0).any();
        self.rd.next = ReadReq {
            tag: 0.into(),
            iova: s.job.iova,
            bytes: BYTES.into(),
        };
        self.line_valid.next = s.step == Step::Write;
        self.line.next = LineWrite {
            iova: s.job.iova,
            data,
            strobe,
        };
        self.executed_valid.next = s.step == Step::Tell;
        self.executed.next = AtomicDone {
            qpn: p.qpn,
            epoch: p.epoch,
            idx: p.idx,
            original: s.old,
        };
        self.fail_valid.next = s.step == Step::Fail;
        self.fail.next = RespFail {
            qpn: p.qpn,
            epoch: p.epoch,
            idx: p.idx,
            psn: p.psn,
            syndrome: NAK_OPERATION.into(),
            check: s.check,
            msn: p.msn,
        };
        self.state.d.next = n;

        let comes = self.job_valid.val() && self.jobs.i_ready.val();
        let told = s.step == Step::Tell && self.executed_ready.val();
        let goes = told || (s.step == Step::Fail && self.fail_ready.val());
        let count = self.count.q.val();
        self.count.d.next = if comes && !goes {
            count + 1
        } else if goes && !comes {
            count - 1
        } else {
            count
        };
        let drain = self.drain.q.val();
        let left = if drain.on { drain.left } else { count };
        self.drain.d.next = Drain {
            on: self.drain_req.val(),
            left: if goes && left.any() { left - 1 } else { left },
        };
        self.drain_ack.next = drain.on && !drain.left.any();
        if self.reset.val() {
            self.state.d.next = State::default();
            self.count.d.next = 0.into();
            self.drain.d.next.on = false;
        }
    }
}
