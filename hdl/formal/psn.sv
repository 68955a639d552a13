// Order of sequence numbers and ring indices, against distances written as whole numbers.
module psn_proof (
    input logic clock,
    input logic [23:0] next_a, next_b, next_c,
    input logic [15:0] next_i, next_j
);
    logic [23:0] a, b, c;
    logic [15:0] i, j;
    always_ff @(posedge clock) {a, b, c, i, j} <= {next_a, next_b, next_c, next_i, next_j};
    logic comes_before, stands_in, idx;
    Order dut (.*);
    // how far it is from x forward to y
    function automatic [24:0] steps(input [23:0] x, input [23:0] y);
        steps = (y >= x) ? {1'b0, y} - {1'b0, x} : 25'h1000000 - {1'b0, x} + {1'b0, y};
    endfunction
    function automatic [16:0] places(input [15:0] x, input [15:0] y);
        places = (y >= x) ? {1'b0, y} - {1'b0, x} : 17'h10000 - {1'b0, x} + {1'b0, y};
    endfunction
    // live numbers are less than 2^23 apart: ahead by 1 to 2^23 - 1
    wire near = steps(a, b) != 25'h800000;
    wire ahead = steps(a, b) != 0 && steps(a, b) < 25'h800000;
    wire idx_near = places(i, j) != 17'h8000;
    wire idx_ahead = places(i, j) != 0 && places(i, j) < 17'h8000;
    // a window of live numbers
    wire window = steps(b, c) < 25'h800000;
    always_comb begin
        `PROVE((!near || comes_before == ahead)
            && (!window || stands_in == (steps(b, a) < steps(b, c)))
            && (!idx_near || idx == idx_ahead))
        `COVER(1, comes_before && a > b)
        `COVER(2, comes_before && a < b)
        `COVER(3, window && stands_in && c < b)
        `COVER(4, window && !stands_in && b != c)
        `COVER(5, idx && j < i)
    end
endmodule
