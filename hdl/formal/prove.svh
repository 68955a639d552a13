// REACH is 0 for the proof; else the number of the cover that is to be reached: its negation must be refuted.
`define PROVE(e) if (`REACH == 0) assert (e);
`define COVER(n, e) if (`REACH == n) assert (!(e));
