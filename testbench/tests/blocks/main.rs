//! One module a block of the RTL, of the same name.
mod beats;
mod fifo;
mod icrc_insert;
mod pktbuf;
mod ram;
