// The channel through both its registers: nothing lost, doubled or changed, and offers stand.
module skid_proof (
    input logic clock, reset, i_valid, i, o_ready
);
    logic i_ready, o_valid, o;
    Skid_Bits1 dut (.*);
    logic first = 1;
    always_ff @(posedge clock) first <= 0;
    always_comb if (first) assume (reset);

    logic [1:0] shadow;
    logic [1:0] w, r;
    wire push = i_valid && i_ready;
    wire pop = o_valid && o_ready;
    logic stood = 0, stood_o;
    always_ff @(posedge clock) begin
        if (push) shadow[w[0]] <= i;
        w <= reset ? 0 : w + push;
        r <= reset ? 0 : r + pop;
        stood <= o_valid && !o_ready && !reset;
        stood_o <= o;
    end
    wire [1:0] held = w - r;
    always_comb begin
        `PROVE(first || (held <= 2
            && o_valid == (held != 0)
            && i_ready == (held != 2)
            && (!o_valid || o == shadow[r[0]])
            && (!stood || (o_valid && o == stood_o))))
        `COVER(1, !first && held == 2 && pop)
        `COVER(2, !first && push && pop)
    end
endmodule
