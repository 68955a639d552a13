//! The D register. The back end prints it as a variable of its parent.
use rust_hdl_core::prelude::*;

/// Plain D register; reset is written by the user in `update`.
#[derive(Clone, Debug, LogicBlock)]
pub struct Reg<T: Synth> {
    pub clock: Signal<In, Clock>,
    pub d: Signal<In, T>,
    pub q: Signal<Out, T>,
    _init: T,
}
impl<T: Synth> Reg<T> {
    pub fn new(init: T) -> Self {
        Self {
            clock: Default::default(),
            d: Default::default(),
            q: Signal::new_with_default(init),
            _init: init,
        }
    }
}
impl<T: Synth> Default for Reg<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}
impl<T: Synth> Logic for Reg<T> {
    emit::named!();
    fn update(&mut self) {
        if self.clock.pos_edge() {
            self.q.next = self.d.val();
        }
    }
    fn connect(&mut self) {
        self.q.connect();
    }
    fn hdl(&self) -> Verilog {
        Verilog::Custom(format!(
            "initial q = {:x};\nalways @(posedge clock) q <= d;",
            self._init.verilog()
        ))
    }
}
