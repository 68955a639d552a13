//! BAR0: an AXI4-Lite slave with the identity, the command mailbox, the counters and the way to the doorbells.
//!
//! | port | what |
//! |---|---|
//! | `aw`, `w`, `b`, `ar`, `r` | AXI4-Lite, 32 bit |
//! | `db` | a write to a doorbell page |
//! | `go`, `words` | a command begins: opcode, token, input |
//! | `done`, `status`, `out` | it ended |
//! | `count_addr` → `count` | the counters' read port |
//!
//! A register write takes two cycles, a doorbell as long as its way is taken; a read three. Reads outside the map give
//! 0, writes there do nothing: no access ever hangs or fails.
use super::counters;
use super::doorbells::{DbWrite, WORD_W};
use crate::cfg::*;
use crate::layout::logic_struct;
use crate::prim::*;
use crate::types::*;
use rocenic_contract::regs::{self as bar, cmd_go, cmd_status, limits, request_limits, status};
use rocenic_contract::{
    LAYOUT_HASH, VERSION, caps, cmd_go_fields, cmd_status_fields, device_status_fields,
    limits_fields, request_limits_fields, wqe,
};
use rtl::{regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

cmd_go_fields!(logic_struct, cmd_go);
cmd_status_fields!(logic_struct, cmd_status);
limits_fields!(logic_struct, limits);
request_limits_fields!(logic_struct, request_limits);
device_status_fields!(logic_struct, status);

/// Address bits of BAR0.
pub const ADDR_W: usize = bar::BAR0_BYTES.next_power_of_two().trailing_zeros() as usize;
const PAGE_LSB: usize = bar::PAGE_BYTES.trailing_zeros() as usize;
/// Pages of BAR0.
const BAR_PAGE_W: usize = ADDR_W - PAGE_LSB;
const DB_PAGE: usize = (bar::DOORBELL_BASE / bar::PAGE_BYTES) as usize;
const CONTROL_PAGE: usize = (bar::control::BASE / bar::PAGE_BYTES) as usize;
const MAILBOX_PAGE: usize = (bar::mailbox::BASE / bar::PAGE_BYTES) as usize;
const COUNTER_PAGE: usize = (rocenic_contract::counters::BASE / bar::PAGE_BYTES) as usize;
const IN_WORDS: usize = bar::mailbox::REGS[0].words as usize;
const OUT_WORDS: usize = bar::mailbox::REGS[4].words as usize;
/// Bits of the command's input and output.
pub const IN_BITS: usize = 32 * IN_WORDS;
pub const OUT_BITS: usize = 32 * OUT_WORDS;

/// A command begins.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Go {
    pub opcode: Bits<8>,
    pub token: Bits<8>,
}
/// A command ended; it keeps its output until the next one.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Done {
    pub status: Bits<8>,
    pub out: Bits<OUT_BITS>,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct WriteState {
    full: Bit,
    addr: Bits<ADDR_W>,
    data: Bits<32>,
    answer: Bit,
}
#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
enum ReadStep {
    Idle,
    Look,
    Answer,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct ReadState {
    step: ReadStep,
    addr: Bits<ADDR_W>,
    data: Bits<32>,
    /// High half of the last 64-bit value whose low half was read.
    high: Bits<32>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Mailbox {
    busy: Bit,
    go: Bit,
    opcode: Bits<8>,
    token: Bits<8>,
    done: Done,
}

/// A word, or zero.
#[rtl_fn]
fn only_if(hit: bool, word: Bits<32>) -> Bits<32> {
    if hit { word } else { 0.into() }
}

#[derive(LogicBlock, Default)]
pub struct AxilRegs {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub aw_valid: Signal<In, Bit>,
    pub aw_ready: Signal<Out, Bit>,
    pub aw_addr: Signal<In, Bits<ADDR_W>>,
    pub w_valid: Signal<In, Bit>,
    pub w_ready: Signal<Out, Bit>,
    pub w_data: Signal<In, Bits<32>>,
    pub w_strb: Signal<In, Bits<4>>,
    pub b_valid: Signal<Out, Bit>,
    pub b_ready: Signal<In, Bit>,
    pub ar_valid: Signal<In, Bit>,
    pub ar_ready: Signal<Out, Bit>,
    pub ar_addr: Signal<In, Bits<ADDR_W>>,
    pub r_valid: Signal<Out, Bit>,
    pub r_ready: Signal<In, Bit>,
    pub r_data: Signal<Out, Bits<32>>,
    pub db_valid: Signal<Out, Bit>,
    pub db_ready: Signal<In, Bit>,
    pub db: Signal<Out, DbWrite>,
    pub go_valid: Signal<Out, Bit>,
    pub go_ready: Signal<In, Bit>,
    pub go: Signal<Out, Go>,
    pub words: Signal<Out, Bits<IN_BITS>>,
    pub done_valid: Signal<In, Bit>,
    pub done: Signal<In, Done>,
    pub count_addr: Signal<Out, Bits<{ counters::AW }>>,
    pub count: Signal<In, Bits<64>>,
    /// Capability bits of this build.
    pub caps: Signal<In, Bits<32>>,
    pub port: Signal<In, PortCfg>,
    pub pmtu: Signal<In, Bits<3>>,
    pub cycles: Signal<In, Bits<64>>,
    pub status: Signal<In, DeviceStatus>,
    pub enable: Signal<Out, Bit>,
    write: Reg<WriteState>,
    read: Reg<ReadState>,
    mailbox: Reg<Mailbox>,
    enabled: Reg<Bit>,
    cmd_in: [Reg<Bits<32>>; IN_WORDS],
}
impl Logic for AxilRegs {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, write, read, mailbox, enabled);
        // writes: address and data are taken together
        let w = self.write.q.val();
        let mut wn = w;
        let take =
            !w.full && !w.answer && self.aw_valid.val() && self.w_valid.val() && !self.reset.val();
        self.aw_ready.next = take;
        self.w_ready.next = take;
        if take {
            // a partial write would be a torn register: it does nothing
            wn.full = self.w_strb.val().all();
            wn.answer = !self.w_strb.val().all();
            wn.addr = self.aw_addr.val();
            wn.data = self.w_data.val();
        }
        let page = w.addr.get_bits::<BAR_PAGE_W>(PAGE_LSB);
        let word = w.addr.get_bits::<WORD_W>(2);
        let to_db = page >= bits::<BAR_PAGE_W>(DB_PAGE as u64);
        let db_page = page - bits::<BAR_PAGE_W>(DB_PAGE as u64);
        self.db_valid.next = w.full && to_db;
        self.db.next = DbWrite {
            page: db_page.get_bits::<PAGE_W>(0),
            word,
            data: w.data,
        };
        let written = w.full && (!to_db || self.db_ready.val());
        if written {
            wn.full = false;
            wn.answer = true;
        }
        self.b_valid.next = w.answer;
        if w.answer && self.b_ready.val() {
            wn.answer = false;
        }
        let write_control = written && page == bits::<BAR_PAGE_W>(CONTROL_PAGE as u64);
        let write_mailbox = written && page == bits::<BAR_PAGE_W>(MAILBOX_PAGE as u64);
        if write_control && word == bits::<WORD_W>(bar::control::index::CTRL as u64) {
            self.enabled.d.next = w.data.get_bit(bar::ctrl::ENABLE.lsb);
        }
        self.enable.next = self.enabled.q.val();

        // the mailbox
        let m = self.mailbox.q.val();
        let mut mn = m;
        let mut words = bits::<IN_BITS>(0);
        for i in 0..IN_WORDS {
            self.cmd_in[i].clock.next = self.clock.val();
            let v = self.cmd_in[i].q.val();
            let hit =
                write_mailbox && word == bits::<WORD_W>((bar::mailbox::index::CMD_IN + i) as u64);
            self.cmd_in[i].d.next = if hit && !m.busy { w.data } else { v };
            words = words | (bit_cast::<IN_BITS, 32>(v) << (32 * i as u64));
        }
        self.words.next = words;
        let go = CmdGo::unpack(w.data);
        if write_mailbox && word == bits::<WORD_W>(bar::mailbox::index::CMD_GO as u64) && !m.busy {
            mn.busy = true;
            mn.go = true;
            mn.opcode = go.opcode;
            mn.token = go.token;
        }
        self.go_valid.next = m.go;
        self.go.next = Go {
            opcode: m.opcode,
            token: m.token,
        };
        if m.go && self.go_ready.val() {
            mn.go = false;
        }
        if self.done_valid.val() {
            mn.busy = false;
            mn.done = self.done.val();
        }

        // reads
        let r = self.read.q.val();
        let mut rn = r;
        // what is offered while the block is cleared would be lost
        self.ar_ready.next = r.step == ReadStep::Idle && !self.reset.val();
        let addr = if r.step == ReadStep::Idle {
            self.ar_addr.val()
        } else {
            r.addr
        };
        self.count_addr.next = addr.get_bits::<{ counters::AW }>(3);
        let rpage = r.addr.get_bits::<BAR_PAGE_W>(PAGE_LSB);
        let rword = r.addr.get_bits::<WORD_W>(2);
        let sizes = Limits {
            log2_qps: bits(QP_W as u64),
            log2_cqs: bits(CQ_W as u64),
            log2_mrs: bits(MR_W as u64),
            log2_eqs: bits(EQ_W as u64),
            log2_outstanding: bits(REC_W as u64),
            log2_ring: bits(caps::LOG2_RING as u64),
            log2_rd_atomic: bits(RD_SLOT_W as u64),
        };
        let request_sizes = RequestLimits {
            send_sges: bits(SEND_SGES as u64),
            recv_sges: bits(RECV_SGES as u64),
            inline: bits(wqe::MAX_INLINE as u64),
            reserved: 0.into(),
        };
        let status_word = CmdStatus {
            status: m.done.status,
            token: m.token,
            reserved: 0.into(),
            busy: if m.busy { bits::<1>(1) } else { bits::<1>(0) },
        };
        let identity: Bits<32> = match rword.index() {
            bar::control::index::MAGIC => bits(bar::MAGIC_VALUE as u64),
            bar::control::index::VERSION => bits(VERSION as u64),
            bar::control::index::LAYOUT_HASH_LO => bits(LAYOUT_HASH & 0xffff_ffff),
            bar::control::index::LAYOUT_HASH_HI => bits(LAYOUT_HASH >> 32),
            bar::control::index::CAPS => self.caps.val(),
            bar::control::index::LIMITS => sizes.into(),
            bar::control::index::REQUEST_LIMITS => request_sizes.into(),
            bar::control::index::VECTORS => bits(caps::VECTORS as u64),
            bar::control::index::MAX_MSG => bits(caps::MAX_MSG_BYTES),
            bar::control::index::CLOCK_KHZ => bits(CLOCK_KHZ),
            bar::control::index::CTRL => bit_cast::<32, 1>(if self.enabled.q.val() {
                bits::<1>(1)
            } else {
                bits::<1>(0)
            }),
            bar::control::index::STATUS => self.status.val().into(),
            bar::control::index::PORT_MAC_LO => self.port.val().mac.get_bits::<32>(0),
            bar::control::index::PORT_MAC_HI => {
                bit_cast::<32, 16>(self.port.val().mac.get_bits::<16>(32))
            }
            bar::control::index::PORT_IPV4 => self.port.val().ipv4,
            bar::control::index::PORT_PMTU => bit_cast::<32, 3>(self.pmtu.val()),
            bar::control::index::CYCLES_LO => self.cycles.val().get_bits::<32>(0),
            bar::control::index::CYCLES_HI => r.high,
            _ => bits(0),
        };
        // one word at most is not zero: an OR is a tree where a choice in turn would be a chain
        let is_status = rword == bits::<WORD_W>(bar::mailbox::index::CMD_STATUS as u64);
        let mut mail = only_if(is_status, status_word.into());
        for i in 0..IN_WORDS {
            let hit = rword == bits::<WORD_W>((bar::mailbox::index::CMD_IN + i) as u64);
            mail = mail | only_if(hit, self.cmd_in[i].q.val());
        }
        for i in 0..OUT_WORDS {
            let hit = rword == bits::<WORD_W>((bar::mailbox::index::CMD_OUT + i) as u64);
            mail = mail | only_if(hit, m.done.out.get_bits::<32>(32 * i));
        }
        let counts = self.count.val();
        let counted = (rword >> 1) < bits::<WORD_W>(rocenic_contract::counters::COUNT as u64);
        let count_word = if !counted {
            0.into()
        } else if rword.get_bit(0) {
            r.high
        } else {
            counts.get_bits::<32>(0)
        };
        let is_control = rpage == bits::<BAR_PAGE_W>(CONTROL_PAGE as u64);
        let is_counter = rpage == bits::<BAR_PAGE_W>(COUNTER_PAGE as u64);
        let is_mailbox = rpage == bits::<BAR_PAGE_W>(MAILBOX_PAGE as u64);
        match r.step {
            ReadStep::Idle => {
                if self.ar_valid.val() {
                    rn.step = ReadStep::Look;
                    rn.addr = self.ar_addr.val();
                }
            }
            ReadStep::Look => {
                rn.step = ReadStep::Answer;
                rn.data = if is_control {
                    identity
                } else if is_mailbox {
                    mail
                } else if is_counter {
                    count_word
                } else {
                    bits::<32>(0)
                };
                if is_counter && !rword.get_bit(0) {
                    rn.high = counts.get_bits::<32>(32);
                }
                if is_control && rword == bits::<WORD_W>(bar::control::index::CYCLES_LO as u64) {
                    rn.high = self.cycles.val().get_bits::<32>(32);
                }
            }
            ReadStep::Answer => {
                if self.r_ready.val() {
                    rn.step = ReadStep::Idle;
                }
            }
        }
        self.r_valid.next = r.step == ReadStep::Answer;
        self.r_data.next = r.data;
        if self.reset.val() {
            wn.full = false;
            wn.answer = false;
            rn.step = ReadStep::Idle;
            mn.busy = false;
            mn.go = false;
            mn.token = 0.into();
            self.enabled.d.next = false;
        }
        self.write.d.next = wn;
        self.read.d.next = rn;
        self.mailbox.d.next = mn;
    }
}
