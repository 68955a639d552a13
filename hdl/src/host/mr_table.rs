//! Memory regions: may these bytes be touched under this key, and where are they?
//!
//! Two lookup ports (requester, receive path), one write port (`cmd`), each port with its own copy
//! of the table. A check is one read and two short arithmetic stages, without 2^64 wrap (rule R14).
//!
//! | port | what |
//! |---|---|
//! | `tx`, `rx` | `MrReq` in, every cycle |
//! | `tx_rsp`, `rx_rsp` | `MrRsp`, exactly 3 cycles later, in order |
//! | `write` | an entry to store; `valid` = 0 takes the region away |
//! | `busy` | the table is being cleared after reset: all lookups fail |
//!
//! Never stalls. A lookup in the cycle of a write sees the old entry.
use crate::cfg::*;
use crate::prim::*;
use crate::types::*;
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

/// Table entry; the index is in the key.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct MrEntry {
    pub valid: Bit,
    pub variant: Bits<8>,
    pub pd: Bits<16>,
    pub rights: Bits<4>,
    pub va: Bits<64>,
    pub len: Bits<64>,
    pub iova: Bits<64>,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct MrWrite {
    pub index: Bits<MR_W>,
    pub entry: MrEntry,
}

/// First stage: key, PD and rights; distance from the region's start.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Distance {
    ok: Bit,
    offset: Bits<64>,
    need: Bits<32>,
    region: Bits<64>,
    iova: Bits<64>,
}

/// One lookup port.
#[derive(LogicBlock, Default)]
pub struct MrPort {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub req_valid: Signal<In, Bit>,
    pub req: Signal<In, MrReq>,
    pub rsp_valid: Signal<Out, Bit>,
    pub rsp: Signal<Out, MrRsp>,
    pub write_valid: Signal<In, Bit>,
    pub write: Signal<In, MrWrite>,
    entries: Sdpram<MrEntry, MR_W>,
    req_q: Reg<MrReq>,
    distance: Reg<Distance>,
    answer: Reg<MrRsp>,
    v1: Reg<Bit>,
    v2: Reg<Bit>,
    v3: Reg<Bit>,
}
impl Logic for MrPort {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, req_q, distance, answer, v1, v2, v3);
        clocks!(self, clock, entries);
        let write = self.write.val();
        self.entries.we.next = self.write_valid.val();
        self.entries.waddr.next = write.index;
        self.entries.wdata.next = write.entry;
        self.entries.raddr.next = self.req.val().key.get_bits::<MR_W>(8);

        self.req_q.d.next = self.req.val();
        self.v1.d.next = self.req_valid.val();

        let q = self.req_q.q.val();
        let e = self.entries.rdata.val();
        let index_ok = q.key.get_bits::<{ 24 - MR_W }>(8 + MR_W) == 0;
        let key_ok = e.valid && index_ok && e.variant == q.key.get_bits::<8>(0);
        self.distance.d.next = Distance {
            ok: key_ok && e.pd == q.pd && (q.need & !e.rights) == 0 && q.va >= e.va,
            offset: q.va - e.va,
            need: q.len,
            region: e.len,
            iova: e.iova,
        };
        self.v2.d.next = self.v1.q.val();

        let d = self.distance.q.val();
        let room = d.region - d.offset;
        self.answer.d.next = MrRsp {
            ok: d.ok && d.offset <= d.region && bit_cast::<64, 32>(d.need) <= room,
            iova: d.iova + d.offset,
        };
        self.v3.d.next = self.v2.q.val();
        self.rsp.next = self.answer.q.val();
        self.rsp_valid.next = self.v3.q.val();
        if self.reset.val() {
            self.v1.d.next = false;
            self.v2.d.next = false;
            self.v3.d.next = false;
        }
    }
}

#[derive(LogicBlock, Default)]
pub struct MrTable {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub tx_valid: Signal<In, Bit>,
    pub tx: Signal<In, MrReq>,
    pub tx_rsp_valid: Signal<Out, Bit>,
    pub tx_rsp: Signal<Out, MrRsp>,
    pub rx_valid: Signal<In, Bit>,
    pub rx: Signal<In, MrReq>,
    pub rx_rsp_valid: Signal<Out, Bit>,
    pub rx_rsp: Signal<Out, MrRsp>,
    pub write_valid: Signal<In, Bit>,
    pub write: Signal<In, MrWrite>,
    pub busy: Signal<Out, Bit>,
    tx_port: MrPort,
    rx_port: MrPort,
    clear: Clear<MR_W>,
}
impl Logic for MrTable {
    #[rtl]
    fn update(&mut self) {
        clocks!(self, clock, tx_port, rx_port, clear);
        self.tx_port.reset.next = self.reset.val();
        self.rx_port.reset.next = self.reset.val();
        self.clear.reset.next = self.reset.val();
        let busy = self.clear.busy.val();
        self.busy.next = busy;
        let nothing = MrWrite {
            index: self.clear.addr.val(),
            entry: MrEntry {
                valid: false,
                variant: 0.into(),
                pd: 0.into(),
                rights: 0.into(),
                va: 0.into(),
                len: 0.into(),
                iova: 0.into(),
            },
        };
        let write = if busy { nothing } else { self.write.val() };
        let we = busy || self.write_valid.val();
        self.tx_port.write.next = write;
        self.rx_port.write.next = write;
        self.tx_port.write_valid.next = we;
        self.rx_port.write_valid.next = we;
        self.tx_port.req_valid.next = self.tx_valid.val();
        self.tx_port.req.next = self.tx.val();
        self.tx_rsp_valid.next = self.tx_port.rsp_valid.val();
        self.tx_rsp.next = self.tx_port.rsp.val();
        self.rx_port.req_valid.next = self.rx_valid.val();
        self.rx_port.req.next = self.rx.val();
        self.rx_rsp_valid.next = self.rx_port.rsp_valid.val();
        self.rx_rsp.next = self.rx_port.rsp.val();
    }
}
