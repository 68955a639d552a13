// The read port: arbitration, bursts, and the count of reads in flight.
module axi_read_proof (
    input logic clock, reset, stop,
    input logic p_req_valid, sq_req_valid, rq_req_valid, at_req_valid, ar_ready, r_valid,
    input logic [82:0] p_req, sq_req, rq_req, at_req,
    input logic [522:0] r
);
    logic idle, error, p_req_ready, sq_req_ready, rq_req_ready, at_req_ready, ar_valid, r_ready;
    logic p_beat_valid, sq_beat_valid, rq_beat_valid, at_beat_valid;
    logic [519:0] p_beat, sq_beat, rq_beat, at_beat;
    logic [79:0] ar;
    AxiRead dut (.*);
    (* hierconn *) wire [9:0] \dut.in_flight_q ;

    logic first = 1;
    always_ff @(posedge clock) first <= 0;
    // 1 to 4096 bytes
    wire p_ok = p_req[82:70] != 0 && p_req[82:70] <= 4096;
    wire sq_ok = sq_req[82:70] != 0 && sq_req[82:70] <= 4096;
    wire rq_ok = rq_req[82:70] != 0 && rq_req[82:70] <= 4096;

    wire at_ok = at_req[82:70] != 0 && at_req[82:70] <= 4096;

    // bursts that the bus has and has not answered
    logic [9:0] under_way = 0;
    wire asked = ar_valid && ar_ready;
    wire answered = r_valid && r[522];
    logic answered_late = 0, worked = 0;
    always_ff @(posedge clock) begin
        under_way <= reset ? 0 : under_way + asked - answered;
        answered_late <= !reset && answered;
        worked <= !reset && (worked || answered);
    end
    always_comb begin
        assume (!first || reset);
        assume (p_ok && sq_ok && rq_ok && at_ok);
        // the bus answers what was asked, and there are 512 bursts at most: two for each of 256 IDs
        assume (!r_valid || under_way != 0);
        assume (under_way < 512);
    end

    // grants of others while a request waits
    wire p_go = p_req_valid && p_req_ready;
    wire sq_go = sq_req_valid && sq_req_ready;
    wire rq_go = rq_req_valid && rq_req_ready;
    wire at_go = at_req_valid && at_req_ready;
    // atomics go before RQE fetches and take their turn: they read one at a time
    wire rq_at_waits = rq_req_valid || at_req_valid;
    wire rq_at_go = rq_go || at_go;
    logic [2:0] p_passed = 0, sq_passed = 0, rq_passed = 0;
    logic stood = 0;
    logic [79:0] stood_ar;
    always_ff @(posedge clock) begin
        p_passed <= (reset || !p_req_valid || p_go) ? 0 : p_passed + (sq_go || rq_at_go);
        sq_passed <= (reset || !sq_req_valid || sq_go) ? 0 : sq_passed + (p_go || rq_at_go);
        rq_passed <= (reset || !rq_at_waits || rq_at_go) ? 0 : rq_passed + (p_go || sq_go);
        stood <= ar_valid && !ar_ready && !reset;
        stood_ar <= ar;
    end
    wire one_grant = !(p_go && sq_go) && !(p_go && rq_at_go) && !(sq_go && rq_at_go) && !(rq_go && at_go);
    wire fair = p_passed <= 1 && sq_passed <= 3 && rq_passed <= 3;
    wire in_page = !ar_valid || ({2'b0, ar[19:14]} + ar[79:72] < 64 && ar[13:8] == 0);
    wire stands = !stood || (ar_valid && ar == stood_ar);
    wire counted = \dut.in_flight_q == under_way + ar_valid + answered_late;
    wire quiet = !idle || (under_way == 0 && !ar_valid);
    always_comb begin
        `PROVE(first || (one_grant && fair && in_page && stands && counted && quiet))
        `COVER(1, p_passed == 1 && p_go)
        `COVER(2, sq_passed == 2 && sq_go)
        `COVER(3, rq_passed == 2 && rq_go)
        `COVER(4, asked && ar[79:72] == 63)
        `COVER(5, worked && idle)
        `COVER(6, stood && asked)
    end
endmodule
