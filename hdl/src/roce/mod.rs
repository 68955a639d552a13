//! Packets: parser, ICRC, packet buffer, frame builder.
mod cell_list;
mod epochs;
mod frame_build;
mod head_build;
pub mod headers;
pub mod icrc;
mod icrc_insert;
mod path_table;
mod pktbuf;
mod pktbuf_read;
mod tx_arb;

pub use cell_list::CellList;
pub use epochs::Epochs;
pub use frame_build::FrameBuild;
pub use head_build::HeadBuild;
pub use icrc::{Icrc, IcrcTail};
pub use icrc_insert::IcrcInsert;
pub use path_table::PathTable;
pub use pktbuf::Pktbuf;
pub use pktbuf_read::PktbufRead;
pub use tx_arb::TxArb;
