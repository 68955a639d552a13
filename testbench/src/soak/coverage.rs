//! Which faults were injected where, and what the device must have counted because of them.
use super::host::{PORTS, Seen};
use super::plan::{End, Plan};
use crate::classify::{BTH_AT, Port, classify};
use crate::system::NicReport;
use anyhow::{Result, ensure};
use rocenic_contract::caps;
use rocenic_contract::cmd::qp_state::QpState;
use rocenic_contract::counters::Counter;
use rocenic_contract::opcode::{self, Class, Direction, OpcodeInfo, Transport};
use rocenic_contract::syndrome::kind::AethKind;
use rocenic_contract::wire::{aeth, bth};
use rocenic_sim::nic::CYCLE_NS;
use rocenic_sim::wire::Logged;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// What is done to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Drop,
    Duplicate,
    Reorder,
    Corrupt,
    /// The receiver has no receive WQE for it.
    NotReady,
}
impl Fault {
    pub const ALL: [Fault; 5] = [
        Fault::Drop,
        Fault::Duplicate,
        Fault::Reorder,
        Fault::Corrupt,
        Fault::NotReady,
    ];
    pub const fn name(self) -> &'static str {
        match self {
            Fault::Drop => "drop",
            Fault::Duplicate => "duplicate",
            Fault::Reorder => "reorder",
            Fault::Corrupt => "corrupt",
            Fault::NotReady => "not ready",
        }
    }
}
/// States of the queue pair a packet goes to. (One in INIT is not connected: nobody sends to it.)
pub const STATES: [QpState; 5] = [
    QpState::Rtr,
    QpState::Rts,
    QpState::Sqd,
    QpState::Error,
    QpState::Reset,
];

/// Confirmed injections by fault, opcode and state.
pub type Bins = BTreeMap<String, u64>;
pub fn bin(f: Fault, o: &OpcodeInfo, s: QpState) -> String {
    format!("{} {} {}", f.name(), o.name, s)
}
/// Opcodes that a device with these capabilities exchanges in a campaign.
pub fn opcodes(caps: u32) -> impl Iterator<Item = &'static OpcodeInfo> {
    let can = move |c: u64| u64::from(caps) & c != 0;
    opcode::LIST.iter().filter(move |o| {
        let class = match o.class {
            Class::Send => can(caps::SEND),
            Class::Write => can(caps::WRITE),
            Class::ReadRequest | Class::ReadResponse => can(caps::READ),
            Class::CompareSwap | Class::FetchAdd | Class::AtomicAck => can(caps::ATOMIC),
            Class::Ack => true,
            Class::Cnp => false,
        };
        let transport = o.transport == Transport::Rc;
        let extras =
            (!o.immediate || can(caps::IMMEDIATE)) && (!o.invalidate || can(caps::INVALIDATE));
        transport && class && extras
    })
}
/// Why no packet can ever be counted in a bin, if none can.
pub fn impossible(f: Fault, o: &OpcodeInfo, s: QpState) -> Option<&'static str> {
    match (f, o.direction, s) {
        (_, Direction::Response, QpState::Rtr) => {
            Some("answers to RTR: a queue pair that has sent nothing is answered nothing")
        }
        (Fault::NotReady, _, _) if !o.needs_rqe => {
            Some("not ready for what takes no receive WQE: there is nothing to be ready for")
        }
        (Fault::NotReady, _, QpState::Error | QpState::Reset) => Some(
            "not ready in ERROR and RESET: what arrives is dropped before it takes a receive WQE",
        ),
        _ => None,
    }
}

/// All bins that can be filled.
pub fn legal_bins(caps: u32) -> impl Iterator<Item = (Fault, &'static OpcodeInfo, QpState)> {
    STATES.into_iter().flat_map(move |s| {
        Fault::ALL.into_iter().flat_map(move |f| {
            let can = opcodes(caps).filter(move |o| impossible(f, o, s).is_none());
            can.map(move |o| (f, o, s))
        })
    })
}

fn bth_of(head: &[u8]) -> Option<bth::Bth> {
    bth::Bth::read(head.get(BTH_AT..)?)
}
/// States that queue pairs surely had, by number.
struct States<'s>(HashMap<u32, Vec<(QpState, &'s Range<u64>)>>);
impl States<'_> {
    fn new(seen: &Seen) -> States<'_> {
        let mut by_number: HashMap<_, Vec<_>> = HashMap::new();
        for (n, s, when) in &seen.times {
            by_number.entry(*n).or_default().push((*s, when));
        }
        States(by_number)
    }
    /// State when a frame arrived.
    fn at(&self, qpn: u32, cycle: u64) -> Option<QpState> {
        let ns = cycle * CYCLE_NS;
        let of = self.0.get(&qpn)?;
        of.iter().find(|(_, when)| when.contains(&ns)).map(|t| t.0)
    }
}

/// Counts the injections of an episode. `logs[side]` is what that side sent.
pub fn cover(plan: &Plan, logs: &[Vec<Logged>; 2], seen: [&Seen; 2], bins: &mut Bins) {
    let states = seen.map(States::new);
    let mut add = |f: Fault, o: &OpcodeInfo, s: QpState| {
        if impossible(f, o, s).is_none() {
            *bins.entry(bin(f, o, s)).or_default() += 1;
        }
    };
    for (from, log) in logs.iter().enumerate() {
        let to = 1 - from;
        let port = port(to);
        for l in log {
            let Some(b) = bth_of(&l.head) else { continue };
            let Some(o) = opcode::info(b.opcode) else {
                continue;
            };
            let Some(s) = states[to].at(b.dest_qpn, l.at) else {
                continue;
            };
            let harmful = |bytes: &Vec<u8>| classify(bytes, port).is_err();
            for (f, is) in [
                (Fault::Drop, l.dropped),
                (Fault::Duplicate, l.duplicated),
                (Fault::Reorder, l.reordered),
                (Fault::Corrupt, l.corrupted.as_ref().is_some_and(harmful)),
            ] {
                if is {
                    add(f, o, s);
                }
            }
        }
        // receivers that were not ready say so to the requester at the other end
        let sent = |l: &Logged| bth_of(&l.head).map(|b| ((b.dest_qpn, b.psn), b.opcode));
        let requests: HashMap<_, _> = logs[to].iter().filter_map(sent).collect();
        let pairs = plan.lives.iter().flat_map(|l| &l.qps);
        let responders: HashMap<u32, u32> =
            pairs.map(|q| (q.numbers[to], q.numbers[from])).collect();
        for l in log {
            let Some(b) = bth_of(&l.head) else { continue };
            let answer = l.head.get(BTH_AT + bth::BYTES..).and_then(aeth::Aeth::read);
            let rnr = |a: aeth::Aeth| a.kind == AethKind::Rnr.number();
            if u64::from(b.opcode) != opcode::RC_ACK || !answer.is_some_and(rnr) {
                continue;
            }
            let Some(responder) = responders.get(&b.dest_qpn) else {
                continue;
            };
            let Some(code) = requests.get(&(*responder, b.psn)) else {
                continue;
            };
            let s = states[from].at(*responder, l.at);
            if let (Some(o), Some(s)) = (opcode::info(*code), s) {
                add(Fault::NotReady, o, s);
            }
        }
    }
}
fn port(side: usize) -> Port {
    let p = PORTS[side];
    let mac = p.mac.iter().fold(0, |n, b| n << 8 | u64::from(*b));
    Port {
        mac,
        ipv4: p.ipv4.to_bits(),
    }
}

/// Counters of checks that need no queue pair.
const FRAME: [Counter; 14] = [
    Counter::RxIcrcBad,
    Counter::RxDropEthertype,
    Counter::RxDropIpVersion,
    Counter::RxDropIhl,
    Counter::RxDropIpCsum,
    Counter::RxDropFragment,
    Counter::RxDropNotRoce,
    Counter::RxDropLength,
    Counter::RxDropBthVersion,
    Counter::RxDropOpcode,
    Counter::RxDropDstMac,
    Counter::RxDropDstIp,
    Counter::RxDropQp0,
    Counter::RxDropMacError,
];
/// What no episode does.
const NEVER: [Counter; 18] = [
    Counter::RxDropPkey,
    Counter::RxDropTransport,
    Counter::RxDropPayload,
    Counter::RxDropSequence,
    Counter::RxDropDisabled,
    Counter::RxDropSrcIp,
    Counter::RxNakInvReq,
    Counter::RxNakOp,
    Counter::TxNakInvReq,
    Counter::TxNakOp,
    Counter::WqeBad,
    Counter::DoorbellBadPage,
    Counter::DoorbellBadValue,
    Counter::CqOverflow,
    Counter::EqOverflow,
    Counter::DmaReadError,
    Counter::DmaWriteError,
    Counter::RxCnp,
];

/// The counters of a side must be what the wire and the plan say.
pub fn check_counters(
    plan: &Plan,
    side: usize,
    seen: &Seen,
    arrived: &[Logged],
    nics: &[NicReport; 2],
) -> Result<()> {
    let n = |k: Counter| seen.counters[k as usize];
    let exactly = |k: Counter, want: u64| {
        let got = n(k);
        ensure!(got == want, "{} is {got}, not {want}", k.info().name);
        Ok(())
    };
    let copies: u64 = arrived.iter().map(Logged::copies).sum();
    exactly(Counter::RxFrames, copies)?;
    exactly(Counter::TxFrames, nics[side].wire.passed)?;
    // the second block of a send that is flushed has an entry too, which the driver keeps to itself
    let (entries, flushed) = (n(Counter::Cqes), n(Counter::Flushed));
    let ends = || plan.lives.iter().flat_map(|l| &l.qps).map(|q| q.end);
    let resets = ends().any(|e| matches!(e, End::Fails { side: s, reset: true, .. } if s == side));
    // those of a queue pair in RESET are thrown away
    ensure!(
        entries >= seen.completions && (resets || entries <= seen.completions + flushed),
        "{entries} completion entries, {} completions seen, {flushed} flushed",
        seen.completions
    );
    let port = port(side);
    let mut dropped: HashMap<Counter, u64> = HashMap::new();
    for l in arrived {
        if let Some(Err(k)) = l.corrupted.as_ref().map(|bytes| classify(bytes, port)) {
            *dropped.entry(k).or_default() += l.copies();
        }
    }
    let overflow = n(Counter::RxDropOverflow);
    for k in FRAME {
        let want = dropped.get(&k).copied().unwrap_or_default();
        // what found no room was not looked at
        let got = n(k);
        ensure!(
            got <= want && want <= got + overflow,
            "{} is {got}, not {want} ({overflow} frames found no room)",
            k.info().name
        );
    }
    let frames: u64 = FRAME.iter().map(|k| n(*k)).sum();
    exactly(Counter::RxRoce, copies - frames - overflow)?;
    for k in NEVER {
        exactly(k, 0)?;
    }
    let count = |f: &dyn Fn(End) -> bool| ends().filter(|e| f(*e)).count() as u64;
    let bad = count(&|e| matches!(e, End::BadKey { side: s, .. } if s == side));
    let refused = count(&|e| matches!(e, End::BadKey { side: s, .. } if s != side));
    let starving = count(&|e| matches!(e, End::Starves { side: s, .. } if s != side));
    // who starves finds the other side in ERROR
    let silent = count(&|e| match e {
        End::Fails { side: s, .. } => s != side,
        End::Starves { side: s, .. } => s == side,
        _ => false,
    });
    ensure!(
        n(Counter::RnrRetryExceeded) <= starving,
        "{} queue pairs waited too often for receives, {starving} peers starve",
        n(Counter::RnrRetryExceeded)
    );
    ensure!(
        n(Counter::RetryExceeded) <= silent + bad,
        "retries of {} queue pairs ran out, at most {silent} peers are silent and {bad} refused something",
        n(Counter::RetryExceeded)
    );
    // repeated for each time the request comes again
    ensure!(
        refused > 0 || n(Counter::TxNakAccess) == 0,
        "{} access NAKs sent",
        n(Counter::TxNakAccess)
    );
    ensure!(
        bad > 0 || n(Counter::RxNakAccess) == 0,
        "{} access NAKs received",
        n(Counter::RxNakAccess)
    );
    ensure!(
        n(Counter::ReqErrors) <= bad + silent + starving,
        "{} requests failed, {} may",
        n(Counter::ReqErrors),
        bad + silent + starving
    );
    Ok(())
}
