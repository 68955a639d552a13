//! Byte reversal, for network-order fields.
use rust_hdl_core::prelude::*;

/// Reverses the bytes of a `W`-bit word (`W` a multiple of 8): wires only.
///
/// A network-order field that lies `at` bytes into the word is, in the reversed word, the slice whose least significant
/// bit the contract's `Field::lsb_in(W / 8, at)` gives.
#[derive(LogicBlock, Default)]
pub struct ByteRev<const W: usize> {
    pub x: Signal<In, Bits<W>>,
    pub y: Signal<Out, Bits<W>>,
}
impl<const W: usize> Logic for ByteRev<W> {
    emit::named!();
    fn update(&mut self) {
        let x = self.x.val();
        let mut y = Bits::<W>::default();
        for i in 0..W / 8 {
            y.set_bits::<8>(W - 8 - 8 * i, x.get_bits::<8>(8 * i));
        }
        self.y.next = y;
    }
    fn connect(&mut self) {
        self.y.connect();
    }
    fn hdl(&self) -> Verilog {
        let bytes: Vec<String> = (0..W / 8)
            .map(|i| format!("x[{}:{}]", 8 * i + 7, 8 * i))
            .collect();
        Verilog::Custom(format!("always @(*) y = {{{}}};", bytes.join(", ")))
    }
}
