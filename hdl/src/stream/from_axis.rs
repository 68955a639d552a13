//! AXI4-Stream as beats: the byte count from `tkeep`, which is contiguous from byte 0 and full but in the last beat.
//! There is no way back: the block behind takes every beat. Combinational.
use crate::types::Beat;
use rtl::rtl;
use rust_hdl_core::prelude::*;

/// Ends of the runs whose length has bit `k` set.
fn counts_with_bit(k: usize) -> u64 {
    (1..=64_u64)
        .filter(|n| n >> k & 1 == 1)
        .fold(0, |m, n| m | 1 << (n - 1))
}

#[derive(LogicBlock, Default)]
pub struct FromAxis {
    pub tvalid: Signal<In, Bit>,
    pub tdata: Signal<In, Bits<512>>,
    pub tkeep: Signal<In, Bits<64>>,
    pub tlast: Signal<In, Bit>,
    pub tuser: Signal<In, Bit>,
    pub o_valid: Signal<Out, Bit>,
    pub o: Signal<Out, Beat>,
}
impl Logic for FromAxis {
    #[rtl]
    fn update(&mut self) {
        let keep = self.tkeep.val();
        // a one where the run of ones ends
        let end = keep & !(keep >> 1);
        let mut bytes = bits::<7>(0);
        for k in 0..7 {
            bytes = bytes.replace_bit(k, (end & counts_with_bit(k)).any());
        }
        self.o_valid.next = self.tvalid.val();
        self.o.next = Beat {
            data: self.tdata.val(),
            bytes,
            last: self.tlast.val(),
            err: self.tlast.val() && self.tuser.val(),
        };
    }
}
