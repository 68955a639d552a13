//! Memory regions: may these bytes be touched under this key, and where are they?
//!
//! Three lookup ports (requester, receive path, responses), one write port (`cmd`), each port with its own copy
//! of the table. A check is one read and two short arithmetic stages, without 2^64 wrap (rule R14): ends are 65-bit
//! numbers, worked out when the region is stored.
//!
//! | port | what |
//! |---|---|
//! | `tx`, `rx`, `resp` | `MrReq` in, every cycle |
//! | `tx_rsp`, `rx_rsp`, `resp_rsp` | `MrRsp`, exactly 3 cycles later, in order |
//! | `write` | an entry to store, a cycle later; `valid` = 0 takes the region away; `key_only`: its key alone |
//! | `inv`, `inv_done`, `inv_ok` | takes a key away (`mr_keys`) for the receive path |
//! | `own_inv`, `own_done` | the same for the requester, which also gives keys; `inv_ok` is common; in turn when both ask |
//! | `busy` | the table is being cleared after reset: all lookups fail |
//!
//! Never stalls. A lookup in the two cycles from a write on sees the old entry.
use super::mr_keys::{MrKey, MrKeys};
use crate::arith::{Pieces, pieces, pieces_minus, total, total64};
use crate::cfg::*;
use crate::prim::*;
use crate::types::*;
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

/// A region as the host gives it; the index is in the key.
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

/// A region as the ports keep it.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct MrStored {
    pub pd: Bits<16>,
    pub rights: Bits<4>,
    va: Bits<64>,
    /// First address behind it, up to 2^64.
    end: Bits<65>,
    /// To be added to a virtual address.
    to_iova: Bits<64>,
}

/// A write on its way to the ports.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Incoming {
    valid: Bit,
    key_only: Bit,
    index: Bits<MR_W>,
    region: MrEntry,
    end: Pieces,
    to_iova: Pieces,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct MrStore {
    pub valid: Bit,
    /// The region stays as it is.
    pub key_only: Bit,
    pub index: Bits<MR_W>,
    pub key: MrKey,
    pub entry: MrStored,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct MrWrite {
    pub key_only: Bit,
    pub index: Bits<MR_W>,
    pub entry: MrEntry,
}

/// First stage: key, PD, rights and begin; the end of what is asked for.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Bounds {
    ok: Bit,
    end: Pieces,
    region_end: Bits<65>,
    iova: Pieces,
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
    pub store: Signal<In, MrStore>,
    keys: Sdpram<MrKey, MR_W>,
    entries: Sdpram<MrStored, MR_W>,
    req_q: Reg<MrReq>,
    bounds: Reg<Bounds>,
    answer: Reg<MrRsp>,
    v1: Reg<Bit>,
    v2: Reg<Bit>,
    v3: Reg<Bit>,
}
impl Logic for MrPort {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, req_q, bounds, answer, v1, v2, v3);
        clocks!(self, clock, keys, entries);
        let store = self.store.val();
        let index = self.req.val().key.get_bits::<MR_W>(8);
        self.keys.we.next = store.valid;
        self.keys.waddr.next = store.index;
        self.keys.wdata.next = store.key;
        self.keys.raddr.next = index;
        self.entries.we.next = store.valid && !store.key_only;
        self.entries.waddr.next = store.index;
        self.entries.wdata.next = store.entry;
        self.entries.raddr.next = index;

        self.req_q.d.next = self.req.val();
        self.v1.d.next = self.req_valid.val();

        let q = self.req_q.q.val();
        let k = self.keys.rdata.val();
        let e = self.entries.rdata.val();
        let index_ok = q.key.get_bits::<{ 24 - MR_W }>(8 + MR_W) == 0;
        let key_ok = k.valid && index_ok && k.variant == q.key.get_bits::<8>(0);
        self.bounds.d.next = Bounds {
            ok: key_ok && e.pd == q.pd && (q.need & !e.rights) == 0 && q.va >= e.va,
            end: pieces(q.va, bit_cast::<64, 32>(q.len)),
            region_end: e.end,
            iova: pieces(q.va, e.to_iova),
        };
        self.v2.d.next = self.v1.q.val();

        let b = self.bounds.q.val();
        self.answer.d.next = MrRsp {
            ok: b.ok && total(b.end) <= b.region_end,
            iova: total64(b.iova),
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
    pub resp_valid: Signal<In, Bit>,
    pub resp: Signal<In, MrReq>,
    pub resp_rsp_valid: Signal<Out, Bit>,
    pub resp_rsp: Signal<Out, MrRsp>,
    pub write_valid: Signal<In, Bit>,
    pub write: Signal<In, MrWrite>,
    pub busy: Signal<Out, Bit>,
    pub inv_valid: Signal<In, Bit>,
    pub inv_ready: Signal<Out, Bit>,
    pub inv: Signal<In, InvReq>,
    pub inv_done: Signal<Out, Bit>,
    pub own_inv_valid: Signal<In, Bit>,
    pub own_inv_ready: Signal<Out, Bit>,
    pub own_inv: Signal<In, InvReq>,
    pub own_done: Signal<Out, Bit>,
    pub inv_ok: Signal<Out, Bit>,
    keys: MrKeys,
    tx_port: MrPort,
    rx_port: MrPort,
    resp_port: MrPort,
    clear: Clear<MR_W>,
    incoming: Reg<Incoming>,
    /// The key under way is taken away for the requester.
    owned: Reg<Bit>,
}
impl Logic for MrTable {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, incoming, owned);
        clocks!(self, clock, keys, tx_port, rx_port, resp_port, clear);
        self.keys.reset.next = self.reset.val();
        self.tx_port.reset.next = self.reset.val();
        self.rx_port.reset.next = self.reset.val();
        self.resp_port.reset.next = self.reset.val();
        self.clear.reset.next = self.reset.val();
        let busy = self.clear.busy.val();
        self.busy.next = busy;
        let w = self.write.val();
        let writes = busy || self.write_valid.val();
        let kill = self.keys.kill_valid.val() && !writes;
        self.incoming.d.next = Incoming {
            valid: writes || kill,
            key_only: !busy && (kill || w.key_only),
            index: if busy {
                self.clear.addr.val()
            } else if kill {
                self.keys.kill.val()
            } else {
                w.index
            },
            region: if kill {
                MrEntry {
                    valid: self.keys.kill_key.val().valid,
                    variant: self.keys.kill_key.val().variant,
                    ..w.entry
                }
            } else {
                MrEntry {
                    valid: !busy && w.entry.valid,
                    ..w.entry
                }
            },
            end: pieces(w.entry.va, w.entry.len),
            to_iova: pieces_minus(w.entry.iova, w.entry.va),
        };
        let i = self.incoming.q.val();
        let store = MrStore {
            valid: i.valid,
            key_only: i.key_only,
            index: i.index,
            key: MrKey {
                valid: i.region.valid,
                variant: i.region.variant,
            },
            entry: MrStored {
                pd: i.region.pd,
                rights: i.region.rights,
                va: i.region.va,
                end: total(i.end),
                to_iova: total64(i.to_iova),
            },
        };
        self.keys.store.next = store;
        self.keys.busy.next = writes;
        let owned = self.owned.q.val();
        let own = self.own_inv_valid.val() && (!self.inv_valid.val() || !owned);
        let free = self.keys.inv_ready.val();
        self.keys.inv_valid.next = self.inv_valid.val() || self.own_inv_valid.val();
        self.inv_ready.next = free && !own;
        self.own_inv_ready.next = free && own;
        if free {
            self.owned.d.next = own;
        }
        self.keys.inv.next = if own {
            self.own_inv.val()
        } else {
            self.inv.val()
        };
        self.inv_done.next = self.keys.done_valid.val() && !owned;
        self.own_done.next = self.keys.done_valid.val() && owned;
        self.inv_ok.next = self.keys.ok.val();
        self.tx_port.store.next = store;
        self.rx_port.store.next = store;
        self.resp_port.store.next = store;
        self.tx_port.req_valid.next = self.tx_valid.val();
        self.tx_port.req.next = self.tx.val();
        self.tx_rsp_valid.next = self.tx_port.rsp_valid.val();
        self.tx_rsp.next = self.tx_port.rsp.val();
        self.rx_port.req_valid.next = self.rx_valid.val();
        self.rx_port.req.next = self.rx.val();
        self.rx_rsp_valid.next = self.rx_port.rsp_valid.val();
        self.rx_rsp.next = self.rx_port.rsp.val();
        self.resp_port.req_valid.next = self.resp_valid.val();
        self.resp_port.req.next = self.resp.val();
        self.resp_rsp_valid.next = self.resp_port.rsp_valid.val();
        self.resp_rsp.next = self.resp_port.rsp.val();
    }
}
