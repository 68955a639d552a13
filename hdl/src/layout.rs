//! The contract's layouts as hardware structs: fields, order and widths come from `rocenic_contract`.

/// Callback of the contract's X-macros: `wqe_fields!(logic_struct, wqe)`, with the contract's module `wqe` in scope, declares
/// `struct Wqe` and `Wqe::unpack(bits)`. Struct to bits is `.into()`.
macro_rules! logic_struct {
    { [$m:ident] $st:ident { $($up:ident $low:ident,)* } } => {
        #[doc = concat!("Contract layout `", stringify!($st), "`, least significant field first.")]
        #[derive(rust_hdl_core::prelude::LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
        pub struct $st { $(pub $low: rust_hdl_core::prelude::Bits<{ $m::$up.width }>),* }
        impl $st {
            /// The bits of the layout as fields.
            #[rtl::rtl_fn(method)]
            pub fn unpack(bits: rust_hdl_core::prelude::Bits<{ 8 * $m::BYTES }>) -> $st {
                $st { $($low: bits.get_bits::<{ $m::$up.width }>($m::$up.lsb)),* }
            }
        }
    };
}
pub(crate) use logic_struct;
