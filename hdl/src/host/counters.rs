//! The counters of `contract::counters`: 64 bits each, in a RAM.
//!
//! | port | what |
//! |---|---|
//! | `pulses` | bit i counts one for counter i |
//! | `rx_bytes`, `tx_bytes` | amounts for the two byte counters |
//! | `raddr` → `rdata` | the counter, one cycle later; up to 2^AW + 4 cycles behind |
//!
//! Each counter has a small register that gathers what comes in; a scan adds one of them to the RAM every cycle and
//! visits all once in 2^AW cycles, so no pulse is lost at any rate. The sum is made in three steps of a third of the
//! bits each (rule R18); what comes in is registered first, so that a pulse may be the end of a block's longest path.
use crate::prim::*;
use rocenic_contract::counters::{COUNT, index};
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

/// log2 of the RAM's depth.
pub const AW: usize = 7;
/// A gathering register holds 64 bytes for each cycle of a scan.
const BYTES_W: usize = AW + 7;
const PULSE_W: usize = AW + 1;
/// Bits summed in each of the first two steps, and in the last one.
const THIRD: usize = 22;
const REST: usize = 64 - 2 * THIRD;

/// A sum under way: what is summed up already, and the carry into what is not.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Sum {
    at: Bits<AW>,
    low: Bits<THIRD>,
    middle: Bits<THIRD>,
    rest: Bits<REST>,
    carry: Bit,
}

#[derive(LogicBlock)]
pub struct Counters {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub pulses: Signal<In, Bits<COUNT>>,
    pub rx_bytes: Signal<In, Bits<7>>,
    pub tx_bytes: Signal<In, Bits<7>>,
    pub raddr: Signal<In, Bits<AW>>,
    pub rdata: Signal<Out, Bits<64>>,
    pulses_q: Reg<Bits<COUNT>>,
    rx_bytes_q: Reg<Bits<7>>,
    tx_bytes_q: Reg<Bits<7>>,
    sums: Sdpram<Bits<64>, AW>,
    copy: Sdpram<Bits<64>, AW>,
    clear: Clear<AW>,
    scan: Reg<Bits<AW>>,
    /// The counter whose sum the RAM gives now, and what to add.
    at: Reg<Bits<AW>>,
    add: Reg<Bits<BYTES_W>>,
    low: Reg<Sum>,
    middle: Reg<Sum>,
    gathered: [Reg<Bits<PULSE_W>>; COUNT],
    rx_gathered: Reg<Bits<BYTES_W>>,
    tx_gathered: Reg<Bits<BYTES_W>>,
}
impl Default for Counters {
    fn default() -> Self {
        const { assert!(COUNT <= 1 << AW) };
        Counters {
            clock: Default::default(),
            reset: Default::default(),
            pulses: Default::default(),
            rx_bytes: Default::default(),
            tx_bytes: Default::default(),
            raddr: Default::default(),
            rdata: Default::default(),
            pulses_q: Default::default(),
            rx_bytes_q: Default::default(),
            tx_bytes_q: Default::default(),
            sums: Default::default(),
            copy: Default::default(),
            clear: Default::default(),
            scan: Default::default(),
            at: Default::default(),
            add: Default::default(),
            low: Default::default(),
            middle: Default::default(),
            gathered: std::array::from_fn(|_| Default::default()),
            rx_gathered: Default::default(),
            tx_gathered: Default::default(),
        }
    }
}
impl Logic for Counters {
    #[rtl]
    fn update(&mut self) {
        regs!(
            self,
            clock,
            pulses_q,
            rx_bytes_q,
            tx_bytes_q,
            scan,
            at,
            add,
            low,
            middle,
            rx_gathered,
            tx_gathered
        );
        clocks!(self, clock, sums, copy, clear);
        self.clear.reset.next = self.reset.val();
        self.pulses_q.d.next = self.pulses.val();
        self.rx_bytes_q.d.next = self.rx_bytes.val();
        self.tx_bytes_q.d.next = self.tx_bytes.val();
        let scan = self.scan.q.val();
        self.scan.d.next = scan + 1;
        let mut add = bits::<BYTES_W>(0);
        for i in 0..COUNT {
            self.gathered[i].clock.next = self.clock.val();
            let g = self.gathered[i].q.val();
            let visited = scan == bits::<AW>(i as u64);
            let kept = if visited { 0.into() } else { g };
            self.gathered[i].d.next = if self.reset.val() {
                0.into()
            } else {
                kept + self.pulses_q.q.val().get_bit(i)
            };
            add = add
                | if visited {
                    bit_cast::<BYTES_W, PULSE_W>(g)
                } else {
                    0.into()
                };
        }
        let rx_visited = scan == bits::<AW>(index::RX_BYTES as u64);
        let tx_visited = scan == bits::<AW>(index::TX_BYTES as u64);
        let rx = self.rx_gathered.q.val();
        let tx = self.tx_gathered.q.val();
        self.rx_gathered.d.next = if rx_visited { 0.into() } else { rx }
            + bit_cast::<BYTES_W, 7>(self.rx_bytes_q.q.val());
        self.tx_gathered.d.next = if tx_visited { 0.into() } else { tx }
            + bit_cast::<BYTES_W, 7>(self.tx_bytes_q.q.val());
        self.sums.raddr.next = scan;
        self.at.d.next = scan;
        self.add.d.next = if rx_visited {
            rx
        } else if tx_visited {
            tx
        } else {
            add
        };

        let old = self.sums.rdata.val();
        let step0 = bit_cast::<{ THIRD + 1 }, THIRD>(old.get_bits::<THIRD>(0))
            + bit_cast::<{ THIRD + 1 }, BYTES_W>(self.add.q.val());
        self.low.d.next = Sum {
            at: self.at.q.val(),
            low: step0.get_bits::<THIRD>(0),
            middle: old.get_bits::<THIRD>(THIRD),
            rest: old.get_bits::<REST>(2 * THIRD),
            carry: step0.get_bit(THIRD),
        };
        let low = self.low.q.val();
        let step1 = bit_cast::<{ THIRD + 1 }, THIRD>(low.middle) + low.carry;
        self.middle.d.next = Sum {
            middle: step1.get_bits::<THIRD>(0),
            carry: step1.get_bit(THIRD),
            ..low
        };
        let m = self.middle.q.val();
        let rest = m.rest + m.carry;
        let upper =
            (bit_cast::<64, REST>(rest) << (THIRD as u64)) | bit_cast::<64, THIRD>(m.middle);
        let total = (upper << (THIRD as u64)) | bit_cast::<64, THIRD>(m.low);
        let busy = self.clear.busy.val();
        let sum = if busy { 0.into() } else { total };
        let addr = if busy { self.clear.addr.val() } else { m.at };
        self.sums.we.next = true;
        self.sums.waddr.next = addr;
        self.sums.wdata.next = sum;
        self.copy.we.next = true;
        self.copy.waddr.next = addr;
        self.copy.wdata.next = sum;
        self.copy.raddr.next = self.raddr.val();
        self.rdata.next = self.copy.rdata.val();
        if self.reset.val() {
            self.scan.d.next = 0.into();
            self.rx_gathered.d.next = 0.into();
            self.tx_gathered.d.next = 0.into();
        }
    }
}
