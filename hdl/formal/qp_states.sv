// MODIFY_QP of a reliable connection: transitions of IBTA 10.3.1, figure of the queue pair's states.
module qp_states_proof (
    input logic clock,
    input logic [7:0] opcode,
    input logic [1023:0] words,
    input logic qp_exists, qp_in_use, cq_exists, cq_in_use, mr_exists, eq_in_use,
    input logic [`QP_BITS-1:0] qp,
    input logic [7:0] eqs
);
    logic [7:0] verdict;
    CmdVerdict dut (.*);
    // what was asked two cycles ago
    logic [1:0] asked = 0;
    logic [2:0] old1, old2;
    logic [7:0] new1, new2;
    always_ff @(posedge clock) begin
        asked <= {asked[0], opcode == `MODIFY_QP && qp_exists};
        {old2, old1} <= {old1, qp[2:0]};
        {new2, new1} <= {new1, words[`NEW_STATE +: 8]};
    end
    function automatic legal(input [2:0] from, input [7:0] to);
        legal = to == `RESET || to == `ERROR
            || (from == `RESET && to == `INIT)
            || (from == `INIT && (to == `INIT || to == `RTR))
            || (from == `RTR && to == `RTS)
            || (from == `RTS && (to == `RTS || to == `SQD))
            || (from == `SQD && (to == `SQD || to == `RTS))
            || (from == `SQE && to == `RTS);
    endfunction
    wire done = asked[1] && verdict == `OK;
    always_comb begin
        `PROVE(!done || legal(old2, new2))
        `COVER(1, done && old2 == `RESET && new2 == `INIT)
        `COVER(2, done && old2 == `INIT && new2 == `RTR)
        `COVER(3, done && old2 == `RTR && new2 == `RTS)
        `COVER(4, done && old2 == `RTS && new2 == `SQD)
        `COVER(5, done && old2 == `SQD && new2 == `RTS)
        `COVER(6, done && old2 == `SQE && new2 == `ERROR)
        `COVER(7, done && old2 == `ERROR && new2 == `RESET)
        `COVER(8, asked[1] && verdict == `BAD_STATE)
    end
endmodule
