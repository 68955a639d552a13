//! One module a block of the RTL, of the same name.
mod ack_gen;
mod axi_read;
mod axi_write;
mod beats;
mod dma;
mod fifo;
mod icrc_insert;
mod payload_read;
mod payload_write;
mod pktbuf;
mod ram;
mod realign;
mod rx_front;
mod rx_path;
mod skid;
mod transmit;
mod tx_arb;
