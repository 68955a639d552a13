//! Beats as AXI4-Stream: `tkeep` from the byte count, `tuser` on the last beat of a bad frame. Wires and a decoder.
use crate::types::Beat;
use rtl::rtl;
use rust_hdl_core::prelude::*;

#[derive(LogicBlock, Default)]
pub struct ToAxis {
    pub i_valid: Signal<In, Bit>,
    pub i_ready: Signal<Out, Bit>,
    pub i: Signal<In, Beat>,
    pub tvalid: Signal<Out, Bit>,
    pub tready: Signal<In, Bit>,
    pub tdata: Signal<Out, Bits<512>>,
    pub tkeep: Signal<Out, Bits<64>>,
    pub tlast: Signal<Out, Bit>,
    pub tuser: Signal<Out, Bit>,
}
impl Logic for ToAxis {
    #[rtl]
    fn update(&mut self) {
        let i = self.i.val();
        let none: Bits<64> = 0.into();
        self.tvalid.next = self.i_valid.val();
        self.i_ready.next = self.tready.val();
        self.tdata.next = i.data;
        self.tkeep.next = !(!none << i.bytes);
        self.tlast.next = i.last;
        self.tuser.next = i.last && i.err;
    }
}
