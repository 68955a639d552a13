//! Takes region keys away one at a time, for whoever invalidates them: a message from outside, or the host's own queue;
//! and gives a region without a key one, for the latter.
//!
//! | port | what |
//! |---|---|
//! | `inv` | a key to invalidate; `revive`: to be made valid |
//! | `done_valid`, `ok` | pulse: it is dead, or alive, for every lookup from now on (`ok`); or that could not be |
//! | `store` | every write of the region table, so that this copy of the keys agrees with those of the lookup ports |
//! | `busy` | a write is on its way to `store`: what was read may be old |
//! | `kill_valid`, `kill`, `kill_key` | region whose key is to be this from now on; taken unless `busy` |
//!
//! A key can be invalidated while it is the region's, by its own protection domain; from outside only when the region
//! has a right for the outside: a key that is of use to nobody there is none of theirs to take away. A region gets a key
//! while it exists and has none, by its own protection domain.
//!
//! About 8 cycles a key, one at a time.
use super::mr_table::MrStore;
use crate::cfg::*;
use crate::prim::{Reg, Sdpram};
use crate::types::*;
use rocenic_contract::cmd::access;
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

const REMOTE: u64 = access::REMOTE_WRITE | access::REMOTE_READ | access::REMOTE_ATOMIC;
/// Cycles from a write of the table until the last lookup that saw the old entry has its answer.
const SETTLE: u64 = 7;

/// A region's key, by its number: alive, and its low byte.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct MrKey {
    pub valid: Bit,
    pub variant: Bits<8>,
}

/// Whose the region is.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Owner {
    exists: Bit,
    pd: Bits<16>,
    remote: Bit,
}

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
enum Step {
    Idle,
    Read,
    Check,
    Kill,
    Settle,
    Done,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct State {
    step: Step,
    inv: InvReq,
    ok: Bit,
    wait: Bits<3>,
    /// A write was under way in the cycle before.
    recent: Bit,
}

#[derive(LogicBlock, Default)]
pub struct MrKeys {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub inv_valid: Signal<In, Bit>,
    pub inv_ready: Signal<Out, Bit>,
    pub inv: Signal<In, InvReq>,
    pub done_valid: Signal<Out, Bit>,
    pub ok: Signal<Out, Bit>,
    pub store: Signal<In, MrStore>,
    pub busy: Signal<In, Bit>,
    pub kill_valid: Signal<Out, Bit>,
    pub kill: Signal<Out, Bits<MR_W>>,
    pub kill_key: Signal<Out, MrKey>,
    keys: Sdpram<MrKey, MR_W>,
    owners: Sdpram<Owner, MR_W>,
    state: Reg<State>,
}
impl Logic for MrKeys {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, state);
        clocks!(self, clock, keys, owners);
        let now = self.state.q.val();
        let store = self.store.val();
        self.keys.we.next = store.valid;
        self.keys.waddr.next = store.index;
        self.keys.wdata.next = store.key;
        self.owners.we.next = store.valid && !store.key_only;
        self.owners.waddr.next = store.index;
        self.owners.wdata.next = Owner {
            // a region comes with its first key
            exists: store.key.valid,
            pd: store.entry.pd,
            remote: (store.entry.rights & REMOTE).any(),
        };
        let index = now.inv.key.get_bits::<MR_W>(8);
        self.keys.raddr.next = index;
        self.owners.raddr.next = index;

        let key = self.keys.rdata.val();
        let owner = self.owners.rdata.val();
        let numbered = now.inv.key.get_bits::<{ 24 - MR_W }>(8 + MR_W) == 0;
        let variant = now.inv.key.get_bits::<8>(0);
        let its = numbered
            && if now.inv.revive {
                owner.exists && !key.valid
            } else {
                key.valid && key.variant == variant
            };
        let may = owner.pd == now.inv.pd && (owner.remote || now.inv.local);
        let writes = self.busy.val() || store.valid;
        let mut s = now;
        s.recent = writes;
        match now.step {
            Step::Idle => {
                s.inv = self.inv.val();
                s.wait = 0.into();
                if self.inv_valid.val() {
                    s.step = Step::Read;
                }
            }
            // the RAMs are read
            Step::Read => s.step = Step::Check,
            Step::Check => {
                s.ok = its && may;
                s.step = if writes || now.recent {
                    Step::Read
                } else if its && may {
                    Step::Kill
                } else {
                    Step::Done
                };
            }
            Step::Kill => {
                s.step = if writes { Step::Read } else { Step::Settle };
            }
            Step::Settle => {
                s.wait = now.wait + 1;
                if now.wait == SETTLE {
                    s.step = Step::Done;
                }
            }
            Step::Done => s.step = Step::Idle,
        }
        self.state.d.next = s;
        self.inv_ready.next = now.step == Step::Idle;
        self.kill_valid.next = now.step == Step::Kill && !store.valid;
        self.kill.next = index;
        self.kill_key.next = MrKey {
            valid: now.inv.revive,
            variant,
        };
        self.done_valid.next = now.step == Step::Done;
        self.ok.next = now.ok;
        if self.reset.val() {
            self.state.d.next = State::default();
        }
    }
}
