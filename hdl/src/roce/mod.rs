//! Packets: parser, ICRC, packet buffer, frame builder.
mod cell_list;
pub mod icrc;
mod icrc_insert;
mod pktbuf;
mod pktbuf_read;

pub use cell_list::CellList;
pub use icrc::{Icrc, IcrcTail};
pub use icrc_insert::IcrcInsert;
pub use pktbuf::Pktbuf;
pub use pktbuf_read::PktbufRead;
