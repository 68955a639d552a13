// End-to-end credits (IBTA 9.7.7.2) against counters of messages that are wide enough never to be ambiguous.
module credits_proof (
    input logic clock,
    // what happens: an ACK with this code, of a peer that has got so many messages; the oldest WQE is complete; one is sent
    input logic ack, retire, send, silent,
    input logic [4:0] code,
    input logic [15:0] got
);
    localparam HALF = 1 << (`W - 1);
    // messages and WQEs complete, and sent; the message for which the peer has no receive any more
    logic [15:0] done = 0, sent = 0, grant = 0;
    logic [15:0] oldest = 0, at = 0;
    // what the completer keeps
    logic limited = 0;
    logic [`W-1:0] ahead = 0, msn = 0;

    logic [`W-1:0] count, heard, after;
    logic code_limits, binding, none;
    logic [3:0] turn;
    Credits dut (.peer(got[`W-1:0]), .*);

    wire [15:0] messages = sent - done;
    wire [15:0] wqes = at - oldest;
    wire [15:0] room = grant - done;
    wire beyond = room[15] || room == 0;
    wire bound = limited && binding;
    // IBTA table 49: 0, 1, 2, 3, 4, 6, 8, 12 and so on; 31 is no limit
    function automatic [15:0] table_49(input [4:0] c);
        table_49 = c == 0 ? 0 : c == 1 ? 1 : (c[0] ? 16'd3 : 16'd2) << (c[4:1] - 1);
    endfunction
    wire small = code != 31 && table_49(code) < HALF;
    wire may_send = wqes < HALF && !(bound && none);
    wire takes_ack = ack && got - done <= messages;
    wire completes = retire && wqes != 0 && (silent ? wqes > messages : messages != 0);
    wire sends = send && may_send;
    always_ff @(posedge clock) begin
        if (takes_ack) begin
            limited <= code_limits;
            ahead <= heard;
            // one message to ask with is always allowed, and one is counted for it
            grant <= got + (table_49(code) == 0 ? 16'd1 : table_49(code));
        end else if (completes) begin
            oldest <= oldest + 1;
            if (!silent) begin
                done <= done + 1;
                msn <= msn + 1;
                ahead <= after;
            end
        end else if (sends) begin
            at <= at + 1;
            if (!silent) sent <= sent + 1;
        end
    end
    wire kept = msn == done[`W-1:0] && messages <= wqes && wqes <= HALF
        && (!limited || (beyond ? ahead == 1 : {8'h0, ahead} == room));
    wire rule =
        // the table
        code_limits == small && (!small || {8'h0, count} == (table_49(code) == 0 ? 16'd1 : table_49(code)))
        // never beyond the peer's receives, but for one when nothing else is under way
        && (!limited || !may_send || wqes == 0 || messages < room)
        // never told to wait without need: all that is under way takes receives, and there are more
        && (!(bound && none) || (wqes != 0 && (beyond || wqes >= room)))
        // a turn goes no further
        && (!bound || turn == 0 || turn == 1 && wqes == 0 || !beyond && wqes + turn <= room)
        && (none == (turn == 0));
    always_comb begin
        // the grant is not so old that 16 bits are not enough
        assume (beyond ? !room[15] || room >= 16'h8010 : 1);
        `PROVE(kept && rule)
        `COVER(1, bound && none && wqes == 2)
        `COVER(2, bound && beyond && wqes == 0 && !none && done == 3)
        `COVER(3, limited && !binding)
        `COVER(4, bound && turn == `TURN)
        `COVER(5, bound && messages != wqes && none)
    end
endmodule
