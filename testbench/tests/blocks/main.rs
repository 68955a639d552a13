//! One module a block of the RTL, of the same name.
mod fifo;
mod ram;
