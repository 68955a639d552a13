//! Planted printer bugs. A differential test that would not find these proves nothing; it turns them on
//! one by one (feature `sabotage`) and must see each.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// `(a & b) == c` loses its parentheses.
    Parentheses,
    /// A literal is wider than the value it stands for, so sums keep their carry.
    LiteralWidth,
    /// The branches of an `if` with an `else` change places.
    IfElse,
    /// A part select starts one bit too low.
    Slice,
    /// A signed comparison compares unsigned.
    SignedCompare,
    /// Sign extension puts zeros in front.
    SignExtension,
    /// A label of a `case` is one too high.
    CaseLabel,
    /// `<` prints as `<=`.
    Compare,
    /// A register starts at zero.
    RegisterStart,
    /// A register takes the falling edge.
    ClockEdge,
    /// A RAM returns what is written in the same cycle.
    RamCollision,
}
impl Sabotage {
    pub const ALL: [Sabotage; 11] = [
        Sabotage::Parentheses,
        Sabotage::LiteralWidth,
        Sabotage::IfElse,
        Sabotage::Slice,
        Sabotage::SignedCompare,
        Sabotage::SignExtension,
        Sabotage::CaseLabel,
        Sabotage::Compare,
        Sabotage::RegisterStart,
        Sabotage::ClockEdge,
        Sabotage::RamCollision,
    ];
}
