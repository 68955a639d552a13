//! The block RAM.
use rust_hdl_core::prelude::*;

/// Simple dual-port RAM, one clock, registered read (read-old on collision).
#[derive(Clone, Debug, LogicBlock)]
pub struct Sdpram<T: Synth, const AW: usize> {
    pub clock: Signal<In, Clock>,
    pub we: Signal<In, Bit>,
    pub waddr: Signal<In, Bits<AW>>,
    pub wdata: Signal<In, T>,
    pub raddr: Signal<In, Bits<AW>>,
    pub rdata: Signal<Out, T>,
    _mem: Vec<T>,
    _style: &'static str,
}
impl<T: Synth, const AW: usize> Default for Sdpram<T, AW> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            we: Default::default(),
            waddr: Default::default(),
            wdata: Default::default(),
            raddr: Default::default(),
            rdata: Default::default(),
            _mem: vec![T::default(); 1 << AW],
            _style: "auto",
        }
    }
}
impl<T: Synth, const AW: usize> Logic for Sdpram<T, AW> {
    emit::named!();
    fn update(&mut self) {
        if self.clock.pos_edge() {
            self.rdata.next = self._mem[self.raddr.val().index()];
            if self.we.val() {
                self._mem[self.waddr.val().index()] = self.wdata.val();
            }
        }
    }
    fn connect(&mut self) {
        self.rdata.connect();
    }
    fn hdl(&self) -> Verilog {
        Verilog::Custom(format!(
            "(* ram_style = \"{s}\" *) reg [{w}:0] mem [0:{n}];
always @(posedge clock) begin
    if (we) mem[waddr] <= wdata;
    rdata <= mem[raddr];
end",
            s = self._style,
            w = T::BITS - 1,
            n = (1usize << AW) - 1
        ))
    }
}
