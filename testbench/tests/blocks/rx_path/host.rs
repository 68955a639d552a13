//! Everything around the receive path: packet buffer cells, the host's rings and regions, the payload writer.
use rocenic_contract::cmd::access;
use rocenic_contract::rqe::Rqe;
use rocenic_contract::sge;
use rocenic_hdl::cfg::CELL_W;
use rocenic_hdl::types::*;
use rocenic_sim::verilate::{AnyPort, UintPort};
use rocenic_testbench::bfm::Agent;
use rocenic_testbench::{Dut, Random, Value, value};
use rust_hdl_core::prelude::*;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

const CELLS: usize = 1 << CELL_W;

#[derive(Clone, Copy, Debug)]
pub struct Region {
    pub key: u32,
    pub pd: u16,
    pub rights: u64,
    pub va: u64,
    pub len: u64,
    pub iova: u64,
}
impl Region {
    /// Whether a message to a QP of domain `pd` may take `key` away.
    pub fn may_go(&self, key: u32, pd: u16) -> bool {
        let outside = access::REMOTE_WRITE | access::REMOTE_READ | access::REMOTE_ATOMIC;
        self.key == key && self.pd == pd && self.rights & outside != 0
    }
    /// Where `len` bytes at `va` are, if the key allows it: exact arithmetic, no wrap.
    pub fn find(all: &[Region], key: u32, pd: u16, need: u64, va: u64, len: u64) -> Option<u64> {
        let r = all.iter().find(|r| r.key == key)?;
        let inside =
            va >= r.va && u128::from(va) + u128::from(len) <= u128::from(r.va) + u128::from(r.len);
        (r.pd == pd && r.rights & need == need && inside).then(|| r.iova + (va - r.va))
    }
}

/// A write command the block gave.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    pub packet: usize,
    pub len: u64,
    pub iova: u64,
    pub payload_at: u64,
    pub more: bool,
    pub total: u64,
}

#[derive(Default)]
pub struct State {
    pub regions: Vec<Region>,
    /// Keys that were taken away, each with the cycle.
    pub killed: Vec<(u32, u64)>,
    /// Ring memory, by 64-byte line.
    pub lines: HashMap<u64, [u8; 64]>,
    pub read_errors: HashSet<u64>,
    /// Lines whose payload writes fail.
    pub write_errors: HashSet<u64>,
    pub read_latency: (u64, u64),
    pub write_latency: (u64, u64),
    /// Percent of the cycles in which the writer takes no command.
    pub wr_pause: u32,
    pub rd_pause: u32,
    pub pkt_pause: u32,
    /// Nothing is read from rings while this is set.
    pub hold_reads: bool,
    /// No write is answered while this is set.
    pub hold_dones: bool,
    pub packets: VecDeque<RxHdr>,
    pub sent: usize,
    pub free: Vec<usize>,
    /// Packet in each cell.
    pub cells: HashMap<usize, usize>,
    pub written: Vec<Written>,
    /// Cycle in which the packet's `done` was taken.
    pub done_at: HashMap<usize, u64>,
    pub rqe_reads: Vec<(u64, u64)>,
    pub taken_at: Vec<u64>,
}
impl State {
    pub fn busy(&self) -> bool {
        !self.packets.is_empty() || self.free.len() != CELLS
    }
}

struct Channel {
    valid: UintPort,
    ready: Option<UintPort>,
    data: AnyPort,
}
impl Channel {
    fn new(dut: &mut Dut, name: &str) -> Channel {
        let ready = format!("{name}_ready");
        Channel {
            valid: dut.pin(&format!("{name}_valid")),
            ready: dut.has_port(&ready).then(|| dut.pin(&ready)),
            data: dut.model().any_port(name).unwrap(),
        }
    }
    fn moves(&self) -> bool {
        self.valid.high() && self.ready.as_ref().is_none_or(|r| r.high())
    }
    fn noise(&self, r: &mut Random) {
        let words: Vec<u64> = (0..self.data.width().div_ceil(64))
            .map(|_| r.next_u64())
            .collect();
        self.data.set(&words);
    }
}

struct Reading {
    at: u64,
    tag: u64,
    iova: u64,
    beats: u64,
}

pub struct Host {
    state: Rc<RefCell<State>>,
    r: Random,
    pkt: Channel,
    offered: bool,
    mr: Channel,
    mr_rsp: AnyPort,
    answers: VecDeque<(u64, Vec<u64>)>,
    rd: Channel,
    beat: Channel,
    reads: Vec<Reading>,
    wr: Channel,
    done: Channel,
    inv: Channel,
    inv_done: UintPort,
    inv_ok: UintPort,
    /// When the key that is being invalidated is decided, and how.
    inval: Option<(u64, bool)>,
    done_live: bool,
    /// A part of the packet at hand failed.
    failed: bool,
    /// Packet, error, earliest cycle.
    dones: VecDeque<(usize, bool, u64)>,
}
impl Host {
    pub fn new(dut: &mut Dut) -> (Host, Rc<RefCell<State>>) {
        let state = Rc::new(RefCell::new(State {
            read_latency: (20, 60),
            write_latency: (5, 40),
            free: (0..CELLS).collect(),
            ..State::default()
        }));
        let host = Host {
            state: state.clone(),
            r: dut.random("host"),
            pkt: Channel::new(dut, "pkt"),
            offered: false,
            mr: Channel {
                valid: dut.pin("mr_req_valid"),
                ready: None,
                data: dut.model().any_port("mr_req").unwrap(),
            },
            mr_rsp: dut.model().any_port("mr_rsp").unwrap(),
            answers: VecDeque::new(),
            rd: Channel::new(dut, "rd"),
            beat: Channel::new(dut, "beat"),
            reads: vec![],
            wr: Channel::new(dut, "wr"),
            done: Channel::new(dut, "done"),
            inv: Channel::new(dut, "inv"),
            inv_done: dut.pin("inv_done"),
            inv_ok: dut.pin("inv_ok"),
            inval: None,
            done_live: false,
            failed: false,
            dones: VecDeque::new(),
        };
        (host, state)
    }
}
impl Agent for Host {
    fn sample(&mut self, cycle: u64) {
        let mut s = self.state.borrow_mut();
        if self.offered && self.pkt.moves() {
            self.offered = false;
            s.taken_at.push(cycle);
        }
        // the region table
        let ok = self.mr.valid.high().then(|| {
            let q = Value::<MrReq>::new(self.mr.data.get(), cycle);
            let iova = Region::find(
                &s.regions,
                q.field("key") as u32,
                q.field("pd") as u16,
                q.field("need"),
                q.field("va"),
                q.field("len"),
            );
            (iova.is_some(), iova.unwrap_or(0xdead_0000))
        });
        let (ok, iova) = ok.unwrap_or((self.r.percent(50), self.r.next_u64()));
        let rsp = MrRsp {
            ok,
            iova: iova.into(),
        };
        self.answers.push_back((cycle + 3, value::pack(&rsp)));
        // keys that messages take away
        if self.inv.moves() {
            let q = Value::<InvReq>::new(self.inv.data.get(), cycle);
            assert!(self.inval.is_none() && q.field("local") == 0);
            let key = q.field("key") as u32;
            let at = s
                .regions
                .iter()
                .position(|r| r.may_go(key, q.field("pd") as u16));
            if let Some(i) = at {
                s.regions.remove(i);
                s.killed.push((key, cycle));
            }
            self.inval = Some((cycle + self.r.within(1, 30), at.is_some()));
        }
        // ring reads
        if self.rd.moves() {
            let q = Value::<ReadReq>::new(self.rd.data.get(), cycle);
            let (iova, bytes) = (q.field("iova"), q.field("bytes"));
            assert!(bytes > 0 && bytes % 64 == 0 && iova % 64 == 0, "read {q:?}");
            let tag = q.field("tag");
            assert!(
                self.reads.iter().all(|r| r.tag != tag),
                "tag {tag} is in use"
            );
            s.rqe_reads.push((iova, bytes));
            self.reads.push(Reading {
                at: cycle + self.r.within(s.read_latency.0, s.read_latency.1),
                tag,
                iova,
                beats: bytes / 64,
            });
        }
        // payload writes
        if self.wr.moves() {
            let c = Value::<WriteCmd>::new(self.wr.data.get(), cycle);
            let head = c.field("head") as usize;
            let packet = *s
                .cells
                .get(&head)
                .unwrap_or_else(|| panic!("cycle {cycle}: cell {head} is free"));
            let w = Written {
                packet,
                len: c.field("len"),
                iova: c.field("iova"),
                payload_at: c.field("payload_at"),
                more: c.field("more") == 1,
                total: c.field("total"),
            };
            s.written.push(w);
            self.failed |= w.len > 0 && s.write_errors.contains(&(w.iova / 64));
            if !w.more {
                s.cells.remove(&head);
                s.free.insert(0, head);
                let at = cycle
                    + if w.len == 0 {
                        1
                    } else {
                        self.r.within(s.write_latency.0, s.write_latency.1)
                    };
                self.dones.push_back((packet, self.failed, at));
                self.failed = false;
            }
        }
        if self.done_live {
            assert!(self.done.moves(), "cycle {cycle}: `done` was refused");
            self.done_live = false;
            let (packet, ..) = self.dones.pop_front().unwrap();
            s.done_at.insert(packet, cycle);
        }
    }
    fn drive(&mut self, cycle: u64) {
        let mut s = self.state.borrow_mut();
        let pause = s.pkt_pause;
        if !self.offered && !s.packets.is_empty() && !s.free.is_empty() && !self.r.percent(pause) {
            let cell = s.free.pop().unwrap();
            let hdr = s.packets.pop_front().unwrap();
            let n = s.sent;
            s.cells.insert(cell, n);
            s.sent += 1;
            self.offered = true;
            let p = RxPkt {
                hdr,
                head: bits(cell as u64),
            };
            self.pkt.data.set(&value::pack(&p));
        } else if !self.offered {
            self.pkt.noise(&mut self.r);
        }
        self.pkt.valid.set(self.offered.into());
        match self.answers.front() {
            Some((at, _)) if *at <= cycle => {
                let (_, a) = self.answers.pop_front().unwrap();
                self.mr_rsp.set(&a);
            }
            _ => self.mr_rsp.set(&[self.r.next_u64(), 1]),
        }
        let decided = self.inval.take_if(|(at, _)| *at <= cycle);
        self.inv_done.set(decided.is_some().into());
        self.inv_ok
            .set(decided.map_or(self.r.percent(50), |d| d.1).into());
        self.inv
            .ready
            .as_ref()
            .unwrap()
            .set((self.inval.is_none() && self.r.percent(50)).into());
        // one beat of any read that is due
        let ready: Vec<usize> = (0..self.reads.len())
            .filter(|&i| self.reads[i].at <= cycle && !s.hold_reads)
            .collect();
        let give = !ready.is_empty() && self.r.percent(80);
        self.beat.valid.set(give.into());
        if give {
            let i = ready[self.r.below(ready.len() as u64) as usize];
            let r = &mut self.reads[i];
            r.beats -= 1;
            let line = s.lines.get(&r.iova).copied().unwrap_or([0xa5; 64]);
            let mut data = bits::<512>(0);
            for c in line.chunks(8).rev() {
                data =
                    (data << 64_u64) | Bits::<512>::from(u64::from_le_bytes(c.try_into().unwrap()));
            }
            let b = ReadBeat {
                tag: r.tag.into(),
                data,
                last: r.beats == 0,
                error: s.read_errors.contains(&r.iova),
            };
            self.beat.data.set(&value::pack(&b));
            r.iova += 64;
            if r.beats == 0 {
                self.reads.remove(i);
            }
        } else {
            self.beat.noise(&mut self.r);
        }
        self.rd
            .ready
            .as_ref()
            .unwrap()
            .set((!self.r.percent(s.rd_pause)).into());
        self.wr
            .ready
            .as_ref()
            .unwrap()
            .set((!self.r.percent(s.wr_pause)).into());
        let due = self.dones.front().is_some_and(|d| d.2 < cycle) && !s.hold_dones;
        self.done_live = due;
        self.done.valid.set(due.into());
        self.done.data.set(&[due && self.dones[0].1].map(u64::from));
    }
    fn status(&self) -> String {
        let s = self.state.borrow();
        format!(
            "host: {} packets wait, cells {:?}, {} reads, {} writes under way",
            s.packets.len(),
            s.cells,
            self.reads.len(),
            self.dones.len()
        )
    }
}

/// A receive WQE with pieces {va, length, lkey}.
pub fn rqe(pieces: &[(u64, u32, u32)]) -> [u8; 64] {
    let p = |i: usize| pieces.get(i).copied().unwrap_or((0, 0, sge::END_LKEY));
    let (a, b, c, d) = (p(0), p(1), p(2), p(3));
    Rqe {
        sge0_va: a.0,
        sge0_length: a.1,
        sge0_lkey: a.2,
        sge1_va: b.0,
        sge1_length: b.1,
        sge1_lkey: b.2,
        sge2_va: c.0,
        sge2_length: c.1,
        sge2_lkey: c.2,
        sge3_va: d.0,
        sge3_length: d.1,
        sge3_lkey: d.2,
    }
    .to_bytes()
}
