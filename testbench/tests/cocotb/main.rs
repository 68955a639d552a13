//! The AXI ports of the emitted Verilog against cocotbext-axi.
mod axil_regs;
mod roce_nic;
