// A context of any one address, against a register that follows its writes.
module ctx_ram_proof (
    input logic clock, reset, we,
    input logic [1:0] raddr, waddr, wdata
);
    logic busy;
    logic [1:0] rdata;
    CtxRam_Bits2_2 dut (.*);
    logic first = 1;
    always_ff @(posedge clock) first <= 0;
    always_comb if (first) assume (reset);

    (* anyconst *) logic [1:0] address;
    logic [1:0] value;
    logic asked = 0, forwarded = 0;
    wire writes = we && !busy && waddr == address;
    always_ff @(posedge clock) begin
        value <= (reset || busy) ? 0 : writes ? wdata : value;
        asked <= !first && !reset && !busy && raddr == address;
        forwarded <= writes && raddr == address;
    end
    always_comb begin
        `PROVE(!asked || rdata == value)
        `COVER(1, asked && forwarded && value == 2'd3)
        `COVER(2, asked && !forwarded && value == 2'd2)
        `COVER(3, asked && value == 0)
    end
endmodule
