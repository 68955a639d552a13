// The write port: arbitration, what payload may be promised, and the count of writes in flight.
module axi_write_proof (
    input logic clock, reset, stop,
    input logic p_aw_valid, p_w_valid, cq_valid, eq_valid, at_valid, aw_ready, w_ready, b_valid,
    input logic p_w_last, b_error,
    input logic [7:0] p_len,
    // one bit of an address for all of them
    input logic p_bit, cq_bit, eq_bit, at_bit
);
    wire [79:0] p_aw = {p_len, 57'd0, p_bit, 14'd0};
    wire [576:0] p_w = {p_w_last, 576'd0};
    wire [639:0] cq = {633'd0, cq_bit, 6'd0};
    wire [639:0] eq = {633'd0, eq_bit, 6'd0};
    wire [639:0] at = {633'd0, at_bit, 6'd0};
    wire [9:0] b = {b_error, 9'd0};
    logic idle, error, p_aw_ready, p_w_ready, p_b_valid, cq_ready, cq_done_valid, cq_done_error, eq_ready;
    logic eq_done_valid, eq_done_error, at_ready, at_done_valid, at_done_error, aw_valid, w_valid, b_ready;
    logic [9:0] p_b;
    logic [79:0] aw;
    logic [576:0] w;
    AxiWrite dut (.*);
    (* hierconn *) wire [11:0] \dut.in_flight_q ;

    logic first = 1;
    always_ff @(posedge clock) first <= 0;
    wire p_go = p_aw_valid && p_aw_ready;
    wire cq_go = cq_valid && cq_ready;
    wire eq_go = eq_valid && eq_ready;
    wire at_go = at_valid && at_ready;
    wire event_go = eq_go || at_go;
    wire event_waits = eq_valid || at_valid;
    wire line_waits = cq_valid || event_waits;
    wire line_go = cq_go || event_go;

    // bursts that the bus has and has not answered
    logic [12:0] under_way = 0;
    // beats of payload that were granted and have not come
    logic [7:0] promised = 0;
    logic answered = 0, worked = 0, stood = 0;
    logic [1:0] aw_was;
    // grants of others while one waits
    logic [1:0] p_passed = 0, line_passed = 0, cq_passed = 0, event_passed = 0;
    always_ff @(posedge clock) begin
        under_way <= reset ? 0 : under_way + (aw_valid && aw_ready) - b_valid;
        promised <= reset ? 0 : promised + (p_go ? p_len + 8'd1 : 8'd0) - (p_w_valid && p_w_ready);
        answered <= !reset && b_valid;
        worked <= !reset && (worked || b_valid);
        stood <= !reset && aw_valid && !aw_ready;
        aw_was <= {aw[14], aw[7]};
        // payload waits for the bus, too: it is passed by when it might have gone
        p_passed <= (reset || !p_aw_valid || p_go || promised >= `AHEAD) ? 0 : p_passed + line_go;
        line_passed <= (reset || !line_waits || line_go || !\dut.lines__i_ready ) ? 0 : line_passed + p_go;
        cq_passed <= (reset || !cq_valid || cq_go) ? 0 : cq_passed + event_go;
        event_passed <= (reset || !event_waits || event_go) ? 0 : event_passed + cq_go;
    end
    always_comb begin
        assume (!first || reset);
        // bursts of 1 to 64 beats; the bus answers what it was asked
        assume (p_len < 64);
        assume (!b_valid || under_way != 0);
        // no more beats than were granted
        assume (!p_w_valid || promised != 0);
    end
    (* hierconn *) wire \dut.lines__i_ready ;

    wire one_grant = p_go + cq_go + eq_go + at_go <= 1;
    wire fair = p_passed <= 1 && line_passed <= 1 && cq_passed <= 1 && event_passed <= 1;
    wire modest = !p_go || promised < `AHEAD;
    wire stands = !stood || (aw_valid && {aw[14], aw[7]} == aw_was);
    wire counted = \dut.in_flight_q == under_way + aw_valid + answered;
    // no more than the counter of writes in flight was made for
    wire few = \dut.in_flight_q <= 2048;
    wire quiet = !idle || (under_way == 0 && !aw_valid);
    wire stopped = !stop || !(p_go || line_go);
    always_comb begin
        `PROVE(first || (one_grant && fair && modest && stands && counted && few && quiet && stopped))
        `COVER(1, p_passed == 1 && p_go)
        `COVER(2, line_passed == 1 && line_go)
        `COVER(3, cq_passed == 1 && cq_go)
        `COVER(4, event_passed == 1 && at_go)
        `COVER(5, promised == `AHEAD - 1 && p_go && p_len == 63)
        `COVER(6, worked && idle)
        `COVER(7, stood && aw_ready && b_valid)
    end
endmodule
