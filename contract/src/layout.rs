//! How a layout is declared, and everything derived from the declaration.
//!
//! A layout is a list of fields in specification order; offsets are computed. `layout!` makes, in the module where it
//! stands: one [`Field`] constant a field, `BYTES`, `FIELDS`, `LAYOUT`, a struct with `to_bytes`/`from_bytes`, and an
//! X-macro that gives the fields, least significant first, to another macro (the RTL builds its structs with it).

/// Byte order of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Host memory and registers: byte 0 is the least significant.
    Little,
    /// Packet headers: network order.
    Big,
}

/// A field as it is declared.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub name: &'static str,
    pub width: usize,
    pub doc: &'static str,
}

/// A field in its place. `lsb` and `width` are plain data, so that they can be const generic arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: &'static str,
    /// Bits before the field, counted as the specification counts.
    pub offset: usize,
    /// Bits.
    pub width: usize,
    /// Position of the least significant bit in the layout taken as one number: little-endian layouts as the bus
    /// carries them (equal to `offset`), network headers after reversing the bytes of the header.
    pub lsb: usize,
    pub doc: &'static str,
}

impl Field {
    pub const fn lsb(&self) -> usize {
        self.lsb
    }
    pub const fn width(&self) -> usize {
        self.width
    }
    /// First byte the field touches.
    pub const fn byte(&self) -> usize {
        self.offset / 8
    }
    /// Largest value (fields up to 64 bits).
    pub const fn max(&self) -> u64 {
        if self.width >= 64 {
            u64::MAX
        } else {
            (1 << self.width) - 1
        }
    }
    /// Mask of a field of up to 64 bits inside a number of up to 64 bits (registers).
    pub const fn mask(&self) -> u64 {
        self.max() << self.lsb
    }
    /// For network headers: position of the least significant bit inside a **byte-reversed** beat of `beat` bytes when
    /// the header begins at byte `at` of that beat.
    pub const fn lsb_in(&self, beat: usize, at: usize) -> usize {
        8 * (beat - at) - self.offset - self.width
    }
}

/// Puts the fields one after the other.
pub const fn place<const N: usize>(spec: &[Spec; N], order: Order, base: usize) -> [Field; N] {
    let total = total_bits(spec);
    let mut out = [Field {
        name: "",
        offset: 0,
        width: 0,
        lsb: 0,
        doc: "",
    }; N];
    let (mut i, mut at) = (0, 0);
    while i < N {
        let s = &spec[i];
        let lsb = match order {
            Order::Little => 8 * base + at,
            Order::Big => total - at - s.width,
        };
        out[i] = Field {
            name: s.name,
            offset: 8 * base + at,
            width: s.width,
            lsb,
            doc: s.doc,
        };
        at += s.width;
        i += 1;
    }
    out
}

/// Sum of the widths; a layout is whole bytes.
pub const fn total_bits<const N: usize>(spec: &[Spec; N]) -> usize {
    let (mut i, mut at) = (0, 0);
    while i < N {
        at += spec[i].width;
        i += 1;
    }
    assert!(at % 8 == 0, "a layout is a whole number of bytes");
    at
}

/// A layout with its fields, for documents, the C header and the hash.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Name of its struct.
    pub name: &'static str,
    pub doc: &'static str,
    /// Where it is specified.
    pub source: &'static str,
    pub order: Order,
    /// First byte, for layouts that overlay a part of another one.
    pub base: usize,
    pub bytes: usize,
    pub fields: &'static [Field],
}

/// A value a field can have in Rust.
pub trait FieldValue: Copy {
    const WIDTH: usize;
    /// Writes the low `width` bits at bit `offset` of `bytes`; other bits stay.
    fn put(self, bytes: &mut [u8], order: Order, offset: usize, width: usize);
    fn get(bytes: &[u8], order: Order, offset: usize, width: usize) -> Self;
}

macro_rules! ints { ($($t:ty)*) => { $(
    impl FieldValue for $t {
        const WIDTH: usize = <$t>::BITS as usize;
        #[inline(always)]
        fn put(self, bytes: &mut [u8], order: Order, offset: usize, width: usize) {
            let at = offset / 8;
            if offset % 8 == 0 && width == Self::WIDTH {
                let v = match order { Order::Little => self.to_le_bytes(), Order::Big => self.to_be_bytes() };
                bytes[at..at + width / 8].copy_from_slice(&v);
            } else if offset % 8 == 0 && width % 8 == 0 {
                let n = width / 8;
                match order {
                    Order::Little => bytes[at..at + n].copy_from_slice(&self.to_le_bytes()[..n]),
                    Order::Big => bytes[at..at + n].copy_from_slice(&self.to_be_bytes()[Self::WIDTH / 8 - n..]),
                }
            } else {
                put_bits(self as u128, bytes, order, offset, width);
            }
        }
        #[inline(always)]
        fn get(bytes: &[u8], order: Order, offset: usize, width: usize) -> Self {
            let at = offset / 8;
            if offset % 8 == 0 && width % 8 == 0 {
                let n = width / 8;
                let mut v = [0; Self::WIDTH / 8];
                match order {
                    Order::Little => { v[..n].copy_from_slice(&bytes[at..at + n]); Self::from_le_bytes(v) }
                    Order::Big => { v[Self::WIDTH / 8 - n..].copy_from_slice(&bytes[at..at + n]); Self::from_be_bytes(v) }
                }
            } else {
                get_bits(bytes, order, offset, width) as Self
            }
        }
    }
)* } }
ints!(u8 u16 u32 u64 u128);

impl<const N: usize> FieldValue for [u8; N] {
    const WIDTH: usize = 8 * N;
    #[inline(always)]
    fn put(self, bytes: &mut [u8], _: Order, offset: usize, _: usize) {
        bytes[offset / 8..offset / 8 + N].copy_from_slice(&self);
    }
    #[inline(always)]
    fn get(bytes: &[u8], _: Order, offset: usize, _: usize) -> Self {
        let mut v = [0; N];
        v.copy_from_slice(&bytes[offset / 8..offset / 8 + N]);
        v
    }
}

/// Where bit `i` (0 = least significant) of a field sits: byte and bit of the byte.
#[inline(always)]
const fn bit_place(order: Order, offset: usize, width: usize, i: usize) -> (usize, usize) {
    match order {
        Order::Little => ((offset + i) / 8, (offset + i) % 8),
        Order::Big => {
            let from_top = offset + width - 1 - i;
            (from_top / 8, 7 - from_top % 8)
        }
    }
}

#[inline(always)]
fn put_bits(v: u128, bytes: &mut [u8], order: Order, offset: usize, width: usize) {
    for i in 0..width {
        let (b, k) = bit_place(order, offset, width, i);
        bytes[b] = bytes[b] & !(1 << k) | ((v >> i & 1) as u8) << k;
    }
}

#[inline(always)]
fn get_bits(bytes: &[u8], order: Order, offset: usize, width: usize) -> u128 {
    let mut v = 0;
    for i in 0..width {
        let (b, k) = bit_place(order, offset, width, i);
        v |= ((bytes[b] >> k & 1) as u128) << i;
    }
    v
}

/// Width of a field: as typed, or that of its Rust type.
#[doc(hidden)]
#[macro_export]
macro_rules! __width {
    ($t:ty) => {
        <$t as $crate::layout::FieldValue>::WIDTH
    };
    ($t:ty, $w:expr) => {
        $w
    };
}

/// Declares a layout; see the module documentation. `$` hands the dollar sign through to the X-macro.
macro_rules! layout {
    (($d:tt) $(#[doc = $ld:literal])* $st:ident, $xmac:ident, $order:ident, source $source:literal $(, at $base:expr)?;
        $( $(#[doc = $doc:literal])* $up:ident $low:ident : $t:ty $([$w:expr])? ; )* ) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(usize)]
        enum Ix { $($up),* , COUNT }
        const SPEC: [$crate::layout::Spec; Ix::COUNT as usize] = [$(
            $crate::layout::Spec { name: stringify!($low), width: $crate::__width!($t $(, $w)?), doc: concat!($($doc),*).trim_ascii() }
        ),*];
        const ORDER: $crate::layout::Order = $crate::layout::Order::$order;
        /// First byte inside the layout this one overlays (0 when it stands alone).
        pub const BASE: usize = 0 $(+ $base)?;
        /// Length of the layout.
        pub const BYTES: usize = $crate::layout::total_bits(&SPEC) / 8;
        /// All fields, in specification order.
        pub const FIELDS: [$crate::layout::Field; Ix::COUNT as usize] = $crate::layout::place(&SPEC, ORDER, BASE);
        $( $(#[doc = $doc])* pub const $up: $crate::layout::Field = FIELDS[Ix::$up as usize]; )*
        pub const LAYOUT: $crate::layout::Layout = $crate::layout::Layout {
            name: stringify!($st), doc: concat!($($ld, "\n"),*).trim_ascii(), source: $source, order: ORDER, base: BASE, bytes: BYTES, fields: &FIELDS,
        };
        $(#[doc = $ld])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $st { $( $(#[doc = $doc])* pub $low: $t ),* }
        impl $st {
            pub const BYTES: usize = BYTES;
            /// The bytes as they stand in memory or on the wire; bits beyond a field's width are cut off.
            #[inline]
            pub fn to_bytes(&self) -> [u8; BYTES] {
                let mut b = [0; BYTES];
                $( $crate::layout::FieldValue::put(self.$low, &mut b, ORDER, $up.offset - 8 * BASE, $up.width); )*
                b
            }
            #[inline]
            pub fn from_bytes(b: &[u8; BYTES]) -> Self {
                Self { $( $low: $crate::layout::FieldValue::get(b, ORDER, $up.offset - 8 * BASE, $up.width) ),* }
            }
            /// The first bytes of a slice; `None` when it is too short.
            #[inline]
            pub fn read(b: &[u8]) -> Option<Self> {
                b.first_chunk().map(Self::from_bytes)
            }
        }
        $crate::layout::xmacro!{ ($d) $order $xmac $st [$($up $low,)*] }
    };
}
pub(crate) use layout;

/// The X-macro: gives `callback! { [args] Struct { FIELD field, … } }`, least significant field first.
macro_rules! xmacro {
    (($d:tt) Little $xmac:ident $st:ident [$($up:ident $low:ident,)*]) => {
        #[doc = concat!("Gives the fields of `", stringify!($st), "`, least significant first, to `callback! { [args] ", stringify!($st), " { FIELD field, … } }`.")]
        #[macro_export]
        macro_rules! $xmac { ($d callback:path $d (, $d ($d args:tt)*)?) => { $d callback! { [$d ($d ($d args)*)?] $st { $($up $low,)* } } } }
    };
    (($d:tt) Big $xmac:ident $st:ident [$($f:tt)*]) => {
        $crate::layout::xmacro_reverse! { ($d) $xmac $st [$($f)*] [] }
    };
}
pub(crate) use xmacro;
macro_rules! xmacro_reverse {
    (($d:tt) $xmac:ident $st:ident [$up:ident $low:ident, $($rest:tt)*] [$($done:tt)*]) => {
        $crate::layout::xmacro_reverse! { ($d) $xmac $st [$($rest)*] [$up $low, $($done)*] }
    };
    (($d:tt) $xmac:ident $st:ident [] [$($done:tt)*]) => {
        $crate::layout::xmacro! { ($d) Little $xmac $st [$($done)*] }
    };
}
pub(crate) use xmacro_reverse;

/// One number with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    pub name: &'static str,
    pub value: u64,
    pub doc: &'static str,
}

/// A list of named numbers, for documents, the C header and the hash.
#[derive(Clone, Copy, Debug)]
pub struct Values {
    pub name: &'static str,
    pub doc: &'static str,
    pub source: &'static str,
    pub values: &'static [Value],
}

/// Declares a list of named numbers: an enum for software, `u64` constants for RTL expressions and, in `index`,
/// `usize` constants for RTL patterns (`match x.index()`).
macro_rules! values {
    ($(#[doc = $ld:literal])* $st:ident : $t:ty, source $source:literal;
        $( $(#[doc = $doc:literal])* $up:ident $var:ident = $v:expr ; )* ) => {
        $(#[doc = $ld])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr($t)]
        pub enum $st { $( $(#[doc = $doc])* $var = $v ),* }
        impl $st {
            pub const ALL: &[$st] = &[$($st::$var),*];
            /// The value with this number; `None` when there is none.
            #[allow(unreachable_patterns)]
            pub const fn from_number(n: $t) -> Option<Self> {
                $( if n == $st::$var as $t { return Some($st::$var); } )*
                None
            }
            pub const fn number(self) -> $t { self as $t }
            /// Upper-case name, as in documents.
            pub const fn name(self) -> &'static str { match self { $( $st::$var => stringify!($up) ),* } }
            pub const fn doc(self) -> &'static str { match self { $( $st::$var => concat!($($doc),*).trim_ascii() ),* } }
        }
        impl core::fmt::Display for $st {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result { f.write_str(self.name()) }
        }
        $( $(#[doc = $doc])* pub const $up: u64 = $st::$var as u64; )*
        /// The same numbers as `usize`.
        pub mod index { $( pub const $up: usize = super::$st::$var as usize; )* }
        pub const VALUES: $crate::layout::Values = $crate::layout::Values {
            name: stringify!($st), doc: concat!($($ld, "\n"),*).trim_ascii(), source: $source,
            values: &[$( $crate::layout::Value { name: stringify!($up), value: $up, doc: concat!($($doc),*).trim_ascii() } ),*],
        };
    };
}
pub(crate) use values;

/// Declares bits of a flag field: a `u64` mask constant each and the list of them.
macro_rules! flags {
    ($(#[doc = $ld:literal])* $st:ident, source $source:literal;
        $( $(#[doc = $doc:literal])* $up:ident = bit $v:expr ; )* ) => {
        $( $(#[doc = $doc])* pub const $up: u64 = 1 << $v; )*
        /// Bit positions of the same flags.
        pub mod bit { $( pub const $up: usize = $v; )* }
        pub const VALUES: $crate::layout::Values = $crate::layout::Values {
            name: stringify!($st), doc: concat!($($ld, "\n"),*).trim_ascii(), source: $source,
            values: &[$( $crate::layout::Value { name: stringify!($up), value: $up, doc: concat!($($doc),*).trim_ascii() } ),*],
        };
    };
}
pub(crate) use flags;

/// Who may do what with a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read only: writes are ignored.
    RO,
    /// Read and write.
    RW,
    /// Write only: reads give 0.
    WO,
}

/// A register (or an array of 32-bit words) in its place.
#[derive(Clone, Copy, Debug)]
pub struct Reg {
    pub name: &'static str,
    /// Byte address.
    pub addr: u64,
    /// 32-bit words.
    pub words: u64,
    pub access: Access,
    /// Value after reset (of every word). The layout hash and parameters of the build show 0 here.
    pub reset: u64,
    pub doc: &'static str,
}

/// A page of registers.
#[derive(Clone, Copy, Debug)]
pub struct RegPage {
    pub name: &'static str,
    pub doc: &'static str,
    pub base: u64,
    pub regs: &'static [Reg],
}

/// Puts registers one after the other from `base`.
pub const fn place_regs<const N: usize>(mut regs: [Reg; N], base: u64) -> [Reg; N] {
    let (mut i, mut at) = (0, base);
    while i < N {
        regs[i].addr = at;
        at += 4 * regs[i].words;
        i += 1;
    }
    regs
}

/// Declares a page of registers in ascending order; addresses are computed.
macro_rules! registers {
    ($(#[doc = $pd:literal])* $page:ident at $base:expr;
        $( $(#[doc = $doc:literal])* $up:ident $([$n:expr])? : $acc:ident = $reset:expr ; )* ) => {
        $(#[doc = $pd])*
        pub mod $page {
            #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
            #[repr(usize)]
            enum Ix { $($up),* , COUNT }
            /// All registers of the page.
            pub const REGS: [$crate::layout::Reg; Ix::COUNT as usize] = $crate::layout::place_regs([$(
                $crate::layout::Reg { name: stringify!($up), addr: 0, words: $crate::__words!($($n)?), access: $crate::layout::Access::$acc, reset: $reset, doc: concat!($($doc),*).trim_ascii() }
            ),*], BASE);
            /// First address of the page.
            pub const BASE: u64 = $base;
            $( $(#[doc = $doc])* pub const $up: u64 = REGS[Ix::$up as usize].addr; )*
            /// Word numbers inside the page.
            pub mod index { $( pub const $up: usize = ((super::$up - super::BASE) / 4) as usize; )* }
            pub const PAGE: $crate::layout::RegPage = $crate::layout::RegPage { name: stringify!($page), doc: concat!($($pd, "\n"),*).trim_ascii(), base: BASE, regs: &REGS };
        }
    };
}
pub(crate) use registers;
#[doc(hidden)]
#[macro_export]
macro_rules! __words {
    () => {
        1
    };
    ($n:expr) => {
        $n
    };
}
