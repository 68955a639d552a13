// Two clients of one channel: in turn, an offer stands, the pieces of a packet stay together.
module tx_mux_proof (
    input logic clock, reset, req_valid, resp_valid, tx_ready,
    // more pieces follow, and one bit for all the others: they go the same way
    input logic req_more, req_bit, resp_bit
);
    wire [`TX_BITS-1:0] req = {`TOTAL_BITS'd0, req_more, {(`TX_BITS - `TOTAL_BITS - 2) {1'b0}}, req_bit};
    wire [`TX_BITS-1:0] resp = {{(`TX_BITS - 1) {1'b0}}, resp_bit};
    logic req_ready, resp_ready, tx_valid;
    logic [`TX_BITS-1:0] tx;
    TxMux dut (.*);

    logic first = 1;
    always_ff @(posedge clock) first <= 0;
    wire more = req_more;
    wire req_go = req_valid && req_ready;
    wire resp_go = resp_valid && resp_ready;

    logic req_stood = 0, resp_stood = 0, stood = 0, inside = 0;
    logic [1:0] req_was;
    logic resp_was, tx_was;
    // packets of the other that passed while one waits
    logic [1:0] req_passed = 0, resp_passed = 0;
    always_ff @(posedge clock) begin
        req_stood <= !reset && req_valid && !req_ready;
        resp_stood <= !reset && resp_valid && !resp_ready;
        stood <= !reset && tx_valid && !tx_ready;
        req_was <= {req_more, req_bit};
        resp_was <= resp_bit;
        tx_was <= tx[0];
        inside <= !reset && (req_go ? more : inside);
        req_passed <= (reset || !req_valid || req_go) ? 0 : req_passed + resp_go;
        resp_passed <= (reset || !resp_valid || resp_go) ? 0 : resp_passed + (req_go && !more);
    end
    always_comb begin
        assume (!first || reset);
        // what the clients offer stands until it is taken
        assume (!req_stood || (req_valid && {req_more, req_bit} == req_was));
        assume (!resp_stood || (resp_valid && resp_bit == resp_was));
    end

    wire one = !(req_go && resp_go) && ((req_go || resp_go) == (tx_valid && tx_ready));
    wire right = !tx_valid || !tx_ready || tx[0] == (req_go ? req_bit : resp_bit);
    wire stands = !stood || (tx_valid && tx[0] == tx_was);
    wire together = !(inside && resp_go);
    wire fair = req_passed <= 1 && resp_passed <= 1;
    wire busy = !(req_valid || (resp_valid && !inside)) || tx_valid;
    always_comb begin
        `PROVE(first || (one && right && stands && together && fair && busy))
        `COVER(1, req_passed == 1 && req_go)
        `COVER(2, resp_passed == 1 && resp_go)
        `COVER(3, inside && resp_valid && req_go && !more)
        `COVER(4, stood && resp_go && req_valid)
    end
endmodule
