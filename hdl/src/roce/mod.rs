//! Packets: parser, ICRC, packet buffer, frame builder.
mod cell_list;
mod pktbuf;
mod pktbuf_read;

pub use cell_list::CellList;
pub use pktbuf::Pktbuf;
pub use pktbuf_read::PktbufRead;
