// What goes in comes out, against a memory that is never full.
module fifo_proof (
    input logic clock, reset, i_valid, i_data, o_ready
);
    logic i_ready, o_valid, o_data;
    Fifo_Bits1_2_3 dut (.*);
    logic first = 1;
    always_ff @(posedge clock) first <= 0;
    always_comb if (first) assume (reset);

    logic [3:0] shadow;
    logic [2:0] w, r;
    wire push = i_valid && i_ready;
    wire pop = o_valid && o_ready;
    logic waited = 0;
    always_ff @(posedge clock) begin
        if (push) shadow[w[1:0]] <= i_data;
        w <= reset ? 0 : w + push;
        r <= reset ? 0 : r + pop;
        // one value or more was there in the cycle before, besides the one that left
        waited <= !reset && (w - r) > pop;
    end
    wire [2:0] held = w - r;
    always_comb begin
        `PROVE(first || (held <= 4
            && i_ready == (held < 4)
            && (!o_valid || (held != 0 && o_data == shadow[r[1:0]]))
            && (!waited || o_valid)))
        `COVER(1, held == 4 && pop)
        `COVER(2, !first && push && pop && w[2])
        `COVER(3, !first && held == 0 && r == 3'd7)
    end
endmodule
