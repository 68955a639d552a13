//! The targets, smallest first.
use super::{Broken, Target};
use rocenic_contract::cmd::{modify_qp, opcode, qp_state, status};
use rocenic_hdl::cfg::{IDX_W, PLEN_W};
use rocenic_hdl::host::axi_read::AxiRead;
use rocenic_hdl::host::axi_write::{AHEAD, AxiWrite};
use rocenic_hdl::host::cmd_verdict::CmdVerdict;
use rocenic_hdl::prim::Fifo;
use rocenic_hdl::qp::credits::*;
use rocenic_hdl::qp::ctx_ram::CtxRam;
use rocenic_hdl::qp::psn::*;
use rocenic_hdl::qp::sq_types::{CREDIT_W, GRANT_PACKETS, GRANT_W};
use rocenic_hdl::qp::tx_mux::TxMux;
use rocenic_hdl::stream::Skid;
use rocenic_hdl::types::{QpCfg, TxCmd};
use rtl::rtl;
use rust_hdl_core::prelude::*;

fn print<B: Block + Default>() -> anyhow::Result<String> {
    let mut block = Box::<B>::default();
    block.connect_all();
    let options = emit::Options::default();
    match emit::emit(&*block, &options) {
        // the wrappers call the block by one name, whatever its parameters are
        Ok(d) => Ok(d.text()),
        Err(errors) => {
            let all: Vec<String> = errors.iter().map(|e| e.to_string()).collect();
            anyhow::bail!("the printer refuses:\n{}", all.join("\n"))
        }
    }
}

/// The comparisons of PSNs and ring indices, as a block.
#[derive(LogicBlock, Default)]
struct Order {
    a: Signal<In, Bits<PSN_W>>,
    b: Signal<In, Bits<PSN_W>>,
    c: Signal<In, Bits<PSN_W>>,
    i: Signal<In, Bits<IDX_W>>,
    j: Signal<In, Bits<IDX_W>>,
    comes_before: Signal<Out, Bit>,
    stands_in: Signal<Out, Bit>,
    idx: Signal<Out, Bit>,
}
impl Logic for Order {
    #[rtl]
    fn update(&mut self) {
        self.comes_before.next = psn_before(self.a.val(), self.b.val());
        self.stands_in.next = psn_within(self.a.val(), self.b.val(), self.c.val());
        self.idx.next = idx_before::<IDX_W>(self.i.val(), self.j.val());
    }
}

/// What is done with credits in the completer and in the scheduler, as a block.
#[derive(LogicBlock, Default)]
struct Credits {
    code: Signal<In, Code>,
    peer: Signal<In, Bits<CREDIT_W>>,
    msn: Signal<In, Bits<CREDIT_W>>,
    ahead: Signal<In, Bits<CREDIT_W>>,
    oldest: Signal<In, Bits<IDX_W>>,
    at: Signal<In, Bits<IDX_W>>,
    count: Signal<Out, Bits<CREDIT_W>>,
    code_limits: Signal<Out, Bit>,
    heard: Signal<Out, Bits<CREDIT_W>>,
    after: Signal<Out, Bits<CREDIT_W>>,
    binding: Signal<Out, Bit>,
    none: Signal<Out, Bit>,
    turn: Signal<Out, Bits<GRANT_W>>,
}
impl Logic for Credits {
    #[rtl]
    fn update(&mut self) {
        self.count.next = credits_of(self.code.val());
        self.code_limits.next = limits(self.code.val());
        self.heard.next = ahead_of(self.code.val(), self.peer.val(), self.msn.val());
        let ahead = self.ahead.val();
        self.after.next = ahead_after(ahead);
        self.binding.next = binds(ahead);
        let left = left_of(limit_of(self.oldest.val(), ahead), self.at.val());
        self.none.next = none_of(left);
        self.turn.next = turn_of(left);
    }
}

pub const ALL: &[Target] = &[
    Target {
        name: "psn",
        claim: "PSN and ring index order is distance modulo 2^24 and 2^16, across the wrap",
        cover_depth: 2,
        text: print::<Order>,
        numbers: &[],
        broken: &[
            Broken {
                what: "the larger number is later",
                from: "assign comes_before = tmp__1[23];",
                to: "assign comes_before = a < b;",
            },
            Broken {
                what: "the end belongs to the window",
                from: "(~tmp__2[23]) & tmp__3[23]",
                to: "(~tmp__2[23]) & (tmp__3[23] | (tmp__3 == 24'h0))",
            },
            Broken {
                what: "ring indices do not wrap",
                from: "assign idx = tmp__4[15]",
                to: "assign idx = i < j",
            },
        ],
    },
    Target {
        name: "fifo",
        claim: "values come out once, in order, and never more than there is room for",
        cover_depth: 12,
        text: print::<Fifo<Bits<1>, 2, 3>>,
        numbers: &[],
        broken: &[
            Broken {
                what: "one value more than there is room",
                from: "(wptr_q - rptr_q) == 3'h4",
                to: "(wptr_q - rptr_q) == 3'h5",
            },
            Broken {
                what: "a value is shown before the RAM has it",
                from: "wvis_d = wptr_q;",
                to: "wvis_d = wptr_d;",
            },
            Broken {
                what: "the read address does not look ahead",
                from: "ram_raddr = next_r[1:0]",
                to: "ram_raddr = rptr_q[1:0]",
            },
        ],
    },
    Target {
        name: "skid",
        claim: "values come out once and in order; an offer stands until it is taken",
        cover_depth: 8,
        text: print::<Skid<Bits<1>>>,
        numbers: &[],
        broken: &[
            Broken {
                what: "takes while both registers are full",
                from: "take = i_valid & (~spare_valid_q)",
                to: "take = i_valid",
            },
            Broken {
                what: "the spare value is passed over",
                from: "head_d = spare_q;",
                to: "head_d = i;",
            },
        ],
    },
    Target {
        name: "ctx_ram",
        claim: "a context is what was written last, also in the cycle before; zero after reset",
        cover_depth: 14,
        text: print::<CtxRam<Bits<2>, 2>>,
        numbers: &[],
        broken: &[
            Broken {
                what: "no forwarding",
                from: "if (hit_q) begin",
                to: "if (1'h0) begin",
            },
            Broken {
                what: "forwards to any address",
                from: "(we & (~clearing_q)) & (waddr == raddr)",
                to: "we & (~clearing_q)",
            },
            Broken {
                what: "clearing ends one entry early",
                from: "at_q == 2'h3",
                to: "at_q == 2'h2",
            },
        ],
    },
    Target {
        name: "credits",
        claim: "no message is sent beyond what the peer has receives for but one to ask with, and none waits that may go",
        cover_depth: 40,
        text: print::<Credits>,
        numbers: &[("W", CREDIT_W as u64), ("TURN", GRANT_PACKETS)],
        broken: &[
            Broken {
                what: "a message is sent when nothing is left",
                from: "assign none = (~(|left)) | left[7];",
                to: "assign none = left[7];",
            },
            Broken {
                what: "what was sent meanwhile makes credits",
                from: "(~(|left)) | left[7]",
                to: "~(|left)",
            },
            Broken {
                what: "nothing may be sent to ask",
                from: "if (ahead_2 == 8'h1) begin",
                to: "if (1'h0) begin",
            },
            Broken {
                what: "credits count from the oldest message on",
                from: "assign heard = (peer - msn) + ",
                to: "assign heard = ",
            },
            Broken {
                what: "one message beyond the limit",
                from: "assign limit = oldest[7:0] + ahead_2;",
                to: "assign limit = (oldest[7:0] + ahead_2) + 8'h1;",
            },
            Broken {
                what: "a turn goes beyond the limit",
                from: "sel_2 = left[3:0];",
                to: "sel_2 = 4'h8;",
            },
        ],
    },
    Target {
        name: "qp_states",
        claim: "MODIFY_QP is carried out for the transitions of the specification only",
        cover_depth: 4,
        text: print::<CmdVerdict>,
        numbers: &[
            ("QP_BITS", QpCfg::BITS as u64),
            ("NEW_STATE", modify_qp::NEW_STATE.lsb as u64),
            ("MODIFY_QP", opcode::MODIFY_QP),
            ("OK", status::OK),
            ("BAD_STATE", status::BAD_STATE),
            ("RESET", qp_state::RESET),
            ("INIT", qp_state::INIT),
            ("RTR", qp_state::RTR),
            ("RTS", qp_state::RTS),
            ("SQD", qp_state::SQD),
            ("SQE", qp_state::SQE),
            ("ERROR", qp_state::ERROR),
        ],
        broken: &[
            Broken {
                what: "RTS follows INIT",
                from: "(qp[2:0] == 3'h2) & (modifyqp.new_state == 8'h3)",
                to: "(qp[2:0] == 3'h1) & (modifyqp.new_state == 8'h3)",
            },
            Broken {
                what: "a state that is not looked at follows",
                from: "(modifyqp.new_state == 8'h0) | (modifyqp.new_state == 8'h6)",
                to: "(modifyqp.new_state == 8'h0) | (modifyqp.new_state >= 8'h5)",
            },
        ],
    },
    Target {
        name: "axi_read",
        claim: "one grant a cycle, nobody waits for ever, bursts stay in 4 KiB, reads in flight are counted right",
        cover_depth: 12,
        text: print::<AxiRead>,
        numbers: &[],
        broken: &[
            Broken {
                what: "payload never has its turn",
                from: "fetch_turn = ~(p & fetched_q)",
                to: "fetch_turn = 1'h1",
            },
            Broken {
                what: "two grants at once",
                from: "rq_turn = (space & fetch_turn) & (~(sq & sq_turn))",
                to: "rq_turn = space & fetch_turn",
            },
            Broken {
                what: "a burst one beat over the page",
                from: "assign to_page = {1'h0, ~asking_q.line[5:0]} + 7'h1",
                to: "assign to_page = {1'h0, ~asking_q.line[5:0]} + 7'h2",
            },
            Broken {
                what: "a burst is not counted back",
                from: "in_flight_d = (in_flight_q - 10'h1)",
                to: "in_flight_d = in_flight_q",
            },
            Broken {
                what: "idle while an address stands",
                from: "assign idle = (in_flight_q == 10'h0) & (~out_q.valid)",
                to: "assign idle = in_flight_q <= 10'h1",
            },
        ],
    },
    Target {
        name: "axi_write",
        claim: "one grant a cycle, nobody waits for ever, payload gets no address while too many of its beats are still to come, writes in flight are counted right and limited",
        cover_depth: 12,
        text: print::<AxiWrite>,
        numbers: &[("AHEAD", AHEAD)],
        broken: &[
            Broken {
                what: "lines never have their turn",
                from: "assign give_p = (go & (ahead_q < 8'h10)) & (~(line & line_turn_q));",
                to: "assign give_p = go & (ahead_q < 8'h10);",
            },
            Broken {
                what: "completions go before events for ever",
                from: "assign give_cq = give_line & (~(eq_turn_q & eq_2));",
                to: "assign give_cq = give_line;",
            },
            Broken {
                what: "bursts are promised, not beats",
                from: "granted = (p_aw[79:72] + 8'h1);",
                to: "granted = 8'h1;",
            },
            Broken {
                what: "an answer in the cycle of a grant is not counted",
                from: "if (take & (~resp_q.valid)) begin",
                to: "if (take) begin",
            },
            Broken {
                what: "grants after stop",
                from: "order__i_ready) & (~stop))",
                to: "order__i_ready))",
            },
        ],
    },
    Target {
        name: "tx_mux",
        claim: "requests and responses in turn, an offer stands, nothing comes between the pieces of a packet",
        cover_depth: 8,
        text: print::<TxMux>,
        numbers: &[
            ("TX_BITS", TxCmd::BITS as u64),
            ("TOTAL_BITS", PLEN_W as u64),
        ],
        broken: &[
            Broken {
                what: "a response comes between two pieces",
                from: "assign resp_2 = resp_valid & (~row_q);",
                to: "assign resp_2 = resp_valid;",
            },
            Broken {
                what: "responses always go first",
                from: "resp_2 & (resp_turn_q | (~req_2))",
                to: "resp_2",
            },
            Broken {
                what: "an offer is taken back",
                from: "resp_turn_d = chosen;",
                to: "resp_turn_d = 1'h0;",
            },
        ],
    },
];
