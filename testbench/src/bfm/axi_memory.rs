//! A 512-bit AXI4 slave with host memory behind it, as hostile as a PCIe root may be: random latency, read data of
//! different IDs interleaved and reordered, back-pressure everywhere, responses of failing ranges, writes that vanish.
//!
//! A write changes memory only in the cycle in which its response is offered: a block that tells somebody of the data
//! before it has the response is found. Bursts are checked: INCR, 64-byte beats, no 4 KiB crossing, WLAST in place, no
//! strobe outside the burst's first beat, `valid` held with its payload.
use super::Agent;
use crate::exec::Queue;
use crate::{Dut, Random};
use rocenic_sim::verilate::{Port, UintPort};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;

const BEAT: u64 = 64;
const PAGE: u64 = 4096;

/// What a range of addresses answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    SlvErr,
    DecErr,
    /// Writes are answered OKAY and change nothing, as PCIe's posted writes into a blocked IOMMU; reads DECERR.
    Vanish,
}

#[derive(Clone, Debug)]
pub struct MemoryConfig {
    /// Cycles from the address handshake to the first data beat at the earliest.
    pub read_latency: Range<u64>,
    /// Cycles from the last data beat to the response.
    pub write_latency: Range<u64>,
    /// Completions of different IDs overtake each other; else all are in order.
    pub reorder: bool,
    /// Data beats of different IDs are mixed.
    pub interleave: bool,
    /// Reads taken and not finished; ARREADY is low above it.
    pub max_reads: usize,
    pub max_writes: usize,
    /// Back-pressure in percent of the cycles.
    pub pause_aw: u32,
    pub pause_w: u32,
    pub pause_ar: u32,
    /// Gaps before responses in percent of the cycles.
    pub pause_r: u32,
    pub pause_b: u32,
}
impl Default for MemoryConfig {
    /// The host of the budgets: 600 to 1000 ns of read latency at 250 MHz, reordered, with back-pressure on writes.
    fn default() -> Self {
        MemoryConfig {
            read_latency: 150..250,
            write_latency: 20..100,
            reorder: true,
            interleave: true,
            max_reads: 256,
            max_writes: 256,
            pause_aw: 10,
            pause_w: 10,
            pause_ar: 0,
            pause_r: 0,
            pause_b: 0,
        }
    }
}
impl MemoryConfig {
    /// Answers at once and never pauses.
    pub fn ideal() -> Self {
        MemoryConfig {
            read_latency: 1..2,
            write_latency: 1..2,
            reorder: false,
            interleave: false,
            pause_aw: 0,
            pause_w: 0,
            ..Self::default()
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferKind {
    Read,
    Write,
}
/// A finished transfer.
#[derive(Clone, Debug)]
pub struct Transfer {
    pub kind: TransferKind,
    pub id: u64,
    pub address: u64,
    pub beats: u64,
    pub response: u8,
    /// Cycle of the address handshake.
    pub issued: u64,
    /// Cycle in which the last data beat (read) or the response (write) was taken.
    pub finished: u64,
}

#[derive(Default)]
struct Store {
    pages: HashMap<u64, Box<[u8; PAGE as usize]>>,
    faults: Vec<(Range<u64>, Region)>,
    next_free: u64,
    reads_under_way: usize,
    writes_under_way: usize,
    read_beats: u64,
    write_beats: u64,
}
impl Store {
    fn read(&self, address: u64, out: &mut [u8]) {
        for (i, b) in out.iter_mut().enumerate() {
            let a = address.wrapping_add(i as u64);
            *b = self
                .pages
                .get(&(a / PAGE))
                .map_or(0, |p| p[(a % PAGE) as usize]);
        }
    }
    fn put(&mut self, a: u64, b: u8) {
        let page = self.pages.entry(a / PAGE);
        page.or_insert_with(|| Box::new([0; PAGE as usize]))[(a % PAGE) as usize] = b;
    }
    fn fault(&self, from: u64, to: u64) -> Option<Region> {
        let hit = |f: &&(Range<u64>, Region)| f.0.start < to && from < f.0.end;
        self.faults.iter().find(hit).map(|f| f.1)
    }
}

/// Handle of the memory; clones are the same memory.
#[derive(Clone)]
pub struct AxiMemory {
    store: Rc<RefCell<Store>>,
    log: Queue<Transfer>,
    config: Rc<RefCell<MemoryConfig>>,
}
impl AxiMemory {
    /// Serves the master port `name` (`name_awid`, `name_araddr`, …).
    #[track_caller]
    pub fn new(dut: &mut Dut, name: &str, config: MemoryConfig) -> AxiMemory {
        let handle = AxiMemory {
            store: Default::default(),
            log: Queue::new(&dut.sim(), &format!("{name} transfers")),
            config: Rc::new(RefCell::new(config)),
        };
        handle.store.borrow_mut().next_free = 0x1000_0000;
        let pins = Pins::find(dut, name);
        let held = |s: &str| Held {
            name: format!("{name}_{s}"),
            before: None,
        };
        dut.add(Slave {
            name: name.into(),
            pins,
            memory: handle.clone(),
            random: dut.random(name),
            holds: [held("aw"), held("w"), held("ar")],
            bursts: VecDeque::new(),
            data: VecDeque::new(),
            gathered: vec![],
            writes: VecDeque::new(),
            reads: VecDeque::new(),
            r_up: None,
            b_up: None,
            r_moved: false,
            b_moved: false,
        });
        handle
    }
    /// Reserves memory nobody else gets, zeroed, at a multiple of 4096.
    pub fn alloc(&self, len: u64) -> u64 {
        let mut s = self.store.borrow_mut();
        let at = s.next_free;
        // a guard page between buffers
        s.next_free += len.div_ceil(PAGE) * PAGE + PAGE;
        at
    }
    pub fn read(&self, address: u64, len: usize) -> Vec<u8> {
        let mut v = vec![0; len];
        self.store.borrow().read(address, &mut v);
        v
    }
    pub fn write(&self, address: u64, bytes: &[u8]) {
        let mut s = self.store.borrow_mut();
        for (i, b) in bytes.iter().enumerate() {
            s.put(address.wrapping_add(i as u64), *b);
        }
    }
    /// Accesses that touch `range` fail from now on.
    pub fn fail(&self, range: Range<u64>, how: Region) {
        self.store.borrow_mut().faults.push((range, how));
    }
    pub fn heal(&self) {
        self.store.borrow_mut().faults.clear();
    }
    /// Finished transfers, oldest first.
    pub fn transfers(&self) -> &Queue<Transfer> {
        &self.log
    }
    /// Reads and writes whose address was taken and which are not finished.
    pub fn under_way(&self) -> (usize, usize) {
        let s = self.store.borrow();
        (s.reads_under_way, s.writes_under_way)
    }
    /// Data beats moved so far: read, written.
    pub fn beats(&self) -> (u64, u64) {
        let s = self.store.borrow();
        (s.read_beats, s.write_beats)
    }
    pub fn set_config(&self, c: MemoryConfig) {
        *self.config.borrow_mut() = c;
    }
}

struct Address {
    id: UintPort,
    addr: UintPort,
    len: UintPort,
    size: Option<UintPort>,
    burst: Option<UintPort>,
    valid: UintPort,
    ready: UintPort,
}
struct Pins {
    aw: Address,
    ar: Address,
    wdata: Port<[u64; 8]>,
    wstrb: Port<u64>,
    wlast: UintPort,
    wvalid: UintPort,
    wready: UintPort,
    bid: UintPort,
    bresp: UintPort,
    bvalid: UintPort,
    bready: UintPort,
    rid: UintPort,
    rdata: Port<[u64; 8]>,
    rresp: UintPort,
    rlast: UintPort,
    rvalid: UintPort,
    rready: UintPort,
}
impl Pins {
    #[track_caller]
    fn find(dut: &Dut, name: &str) -> Pins {
        let n = |s: &str| format!("{name}_{s}");
        let pin = |s: &str| dut.pin(&n(s));
        let optional = |s: &str| dut.has_port(&n(s)).then(|| dut.pin(&n(s)));
        let address = |c: &str| Address {
            id: pin(&format!("{c}id")),
            addr: pin(&format!("{c}addr")),
            len: pin(&format!("{c}len")),
            size: optional(&format!("{c}size")),
            burst: optional(&format!("{c}burst")),
            valid: pin(&format!("{c}valid")),
            ready: pin(&format!("{c}ready")),
        };
        Pins {
            aw: address("aw"),
            ar: address("ar"),
            wdata: dut.port(&n("wdata")),
            wstrb: dut.port(&n("wstrb")),
            wlast: pin("wlast"),
            wvalid: pin("wvalid"),
            wready: pin("wready"),
            bid: pin("bid"),
            bresp: pin("bresp"),
            bvalid: pin("bvalid"),
            bready: pin("bready"),
            rid: pin("rid"),
            rdata: dut.port(&n("rdata")),
            rresp: pin("rresp"),
            rlast: pin("rlast"),
            rvalid: pin("rvalid"),
            rready: pin("rready"),
        }
    }
}

#[derive(Clone, Copy)]
struct Burst {
    id: u64,
    address: u64,
    beats: u64,
    issued: u64,
    /// Earliest cycle of the answer.
    due: u64,
    /// Beats given (reads).
    done: u64,
}
impl Burst {
    fn end(&self) -> u64 {
        self.address / BEAT * BEAT + self.beats * BEAT
    }
}
type WriteBeat = ([u64; 8], u64, bool);
struct Write {
    burst: Burst,
    data: Vec<WriteBeat>,
}

/// A channel of the master whose payload must hold.
struct Held {
    name: String,
    before: Option<(Vec<u64>, u64)>,
}
impl Held {
    fn check(&mut self, cycle: u64, valid: bool, ready: bool, payload: impl Fn() -> Vec<u64>) {
        if let Some((before, since)) = self.before.take() {
            assert!(
                valid,
                "cycle {cycle}: {}valid fell before ready (up since {since})",
                self.name
            );
            let now = payload();
            assert!(
                before == now,
                "cycle {cycle}: {} changed before ready: {before:x?}, then {now:x?}",
                self.name
            );
        }
        if valid && !ready {
            self.before = Some((payload(), cycle));
        }
    }
}

struct Slave {
    name: String,
    pins: Pins,
    memory: AxiMemory,
    random: Random,
    holds: [Held; 3],
    /// Write addresses whose data is not complete; data may come first.
    bursts: VecDeque<Burst>,
    data: VecDeque<Vec<WriteBeat>>,
    gathered: Vec<WriteBeat>,
    writes: VecDeque<Write>,
    reads: VecDeque<Burst>,
    /// The read burst and the write whose answer stands on the pins: place in the queue.
    r_up: Option<usize>,
    b_up: Option<(Burst, u8)>,
    r_moved: bool,
    b_moved: bool,
}
impl Slave {
    fn take_address(&self, cycle: u64, a: &Address, what: &str) -> Burst {
        let name = &self.name;
        let b = Burst {
            id: a.id.get(),
            address: a.addr.get(),
            beats: a.len.get() + 1,
            issued: cycle,
            due: 0,
            done: 0,
        };
        let at = format!(
            "cycle {cycle}: {name}: {what} of {} beats at {:#x}",
            b.beats, b.address
        );
        assert!(
            a.size.as_ref().is_none_or(|s| s.get() == 6),
            "{at}: beats are not 64 bytes"
        );
        assert!(
            a.burst.as_ref().is_none_or(|s| s.get() == 1),
            "{at}: burst type is not INCR"
        );
        assert!(
            (b.end() - 1) / PAGE == b.address / PAGE,
            "{at}: crosses a 4 KiB boundary"
        );
        b
    }
    fn latency(&mut self, r: Range<u64>) -> u64 {
        self.random
            .within(r.start, r.end.saturating_sub(1).max(r.start))
    }
    fn pair_writes(&mut self, cycle: u64, latency: Range<u64>) {
        while !self.bursts.is_empty() && !self.data.is_empty() {
            let (Some(mut burst), Some(data)) = (self.bursts.pop_front(), self.data.pop_front())
            else {
                return;
            };
            let at = format!(
                "cycle {cycle}: {}: write of {} beats at {:#x}",
                self.name, burst.beats, burst.address
            );
            assert!(
                data.len() as u64 == burst.beats,
                "{at}: WLAST after {} beats",
                data.len()
            );
            let before = (1u64 << (burst.address % BEAT)) - 1;
            assert!(
                data[0].1 & before == 0,
                "{at}: strobes {:#x} below the address",
                data[0].1
            );
            burst.due = cycle + self.latency(latency.clone());
            self.writes.push_back(Write { burst, data });
        }
    }
    /// The next of `queue` that may answer: the oldest of its ID, due, and not overtaking unless allowed.
    fn pick(&mut self, cycle: u64, reads: bool, reorder: bool) -> Option<usize> {
        let mut seen = BTreeMap::new();
        let mut may = vec![];
        let one = |b: &Burst| (b.id, b.due);
        let all: Vec<(u64, u64)> = if reads {
            self.reads.iter().map(one).collect()
        } else {
            self.writes.iter().map(|w| one(&w.burst)).collect()
        };
        for (i, (id, due)) in all.into_iter().enumerate() {
            let first = seen.insert(id, ()).is_none();
            if first && due <= cycle {
                may.push(i);
            }
            if !reorder {
                break;
            }
        }
        let n = self.random.below(may.len() as u64) as usize;
        may.get(n).copied()
    }
    /// Applies the write and says its response.
    fn commit(&mut self, w: &Write) -> u8 {
        let mut s = self.memory.store.borrow_mut();
        match s.fault(w.burst.address, w.burst.end()) {
            Some(Region::SlvErr) => return 2,
            Some(Region::DecErr) => return 3,
            Some(Region::Vanish) => return 0,
            None => {}
        }
        let base = w.burst.address / BEAT * BEAT;
        for (i, (data, strobes, _)) in w.data.iter().enumerate() {
            let at = base + i as u64 * BEAT;
            for b in (0..BEAT).filter(|b| strobes >> b & 1 == 1) {
                s.put(at + b, (data[(b / 8) as usize] >> (b % 8 * 8)) as u8);
            }
        }
        0
    }
    fn drive_r(&mut self, cycle: u64, config: &MemoryConfig) {
        if std::mem::take(&mut self.r_moved)
            && let Some(i) = self.r_up.take()
        {
            let r = &mut self.reads[i];
            r.done += 1;
            let more = r.done < r.beats;
            self.memory.store.borrow_mut().read_beats += 1;
            if more && !config.interleave {
                self.r_up = Some(i);
            }
            if !more && let Some(r) = self.reads.remove(i) {
                self.finish(
                    TransferKind::Read,
                    r,
                    self.pins.rresp.get() as u8,
                    cycle - 1,
                );
            }
        } else if self.pins.rvalid.high() {
            return;
        }
        let go = !self.random.percent(config.pause_r);
        let next = match self.r_up {
            Some(i) if go => Some(i),
            None if go => self.pick(cycle, true, config.reorder),
            _ => None,
        };
        let p = &self.pins;
        let Some(i) = next else {
            // between two beats of an uninterleaved burst `r_up` stays
            p.rvalid.set(0);
            p.rdata.set(std::array::from_fn(|_| self.random.next_u64()));
            return;
        };
        let r = self.reads[i];
        let at = r.address / BEAT * BEAT + r.done * BEAT;
        let store = self.memory.store.borrow();
        let resp = match store.fault(r.address.max(at), at + BEAT) {
            Some(Region::SlvErr) => 2,
            Some(_) => 3,
            None => 0,
        };
        let mut bytes = [0u8; BEAT as usize];
        store.read(at, &mut bytes);
        let mut data = [0u64; 8];
        for (i, b) in bytes.iter().enumerate() {
            data[i / 8] |= u64::from(*b) << (i % 8 * 8);
        }
        if resp != 0 {
            data = std::array::from_fn(|_| self.random.next_u64());
        }
        p.rdata.set(data);
        p.rid.set(r.id);
        p.rresp.set(resp);
        p.rlast.set(u64::from(r.done + 1 == r.beats));
        p.rvalid.set(1);
        self.r_up = Some(i);
    }
    fn drive_b(&mut self, cycle: u64, config: &MemoryConfig) {
        if std::mem::take(&mut self.b_moved) {
            if let Some((b, resp)) = self.b_up.take() {
                self.finish(TransferKind::Write, b, resp, cycle - 1);
            }
        } else if self.b_up.is_some() {
            return;
        }
        let next = if self.random.percent(config.pause_b) {
            None
        } else {
            self.pick(cycle, false, config.reorder)
        };
        if let Some(w) = next.and_then(|i| self.writes.remove(i)) {
            let resp = self.commit(&w);
            self.pins.bid.set(w.burst.id);
            self.pins.bresp.set(resp.into());
            self.b_up = Some((w.burst, resp));
        }
        self.pins.bvalid.set(u64::from(self.b_up.is_some()));
    }
    fn finish(&self, kind: TransferKind, b: Burst, response: u8, cycle: u64) {
        let mut s = self.memory.store.borrow_mut();
        match kind {
            TransferKind::Read => s.reads_under_way -= 1,
            TransferKind::Write => s.writes_under_way -= 1,
        }
        drop(s);
        self.memory.log.push(Transfer {
            kind,
            id: b.id,
            address: b.address,
            beats: b.beats,
            response,
            issued: b.issued,
            finished: cycle,
        });
    }
}
impl Agent for Slave {
    fn sample(&mut self, cycle: u64) {
        let config = self.memory.config.borrow().clone();
        let p = &self.pins;
        let address = |a: &Address| vec![a.id.get(), a.addr.get(), a.len.get()];
        let [aw, w, ar] = &mut self.holds;
        aw.check(cycle, p.aw.valid.high(), p.aw.ready.high(), || {
            address(&p.aw)
        });
        ar.check(cycle, p.ar.valid.high(), p.ar.ready.high(), || {
            address(&p.ar)
        });
        w.check(cycle, p.wvalid.high(), p.wready.high(), || {
            let mut v = p.wdata.get().to_vec();
            v.extend([p.wstrb.get(), p.wlast.get()]);
            v
        });
        if p.ar.valid.high() && p.ar.ready.high() {
            let mut b = self.take_address(cycle, &self.pins.ar, "read");
            b.due = cycle + self.latency(config.read_latency.clone());
            self.reads.push_back(b);
            self.memory.store.borrow_mut().reads_under_way += 1;
        }
        let p = &self.pins;
        if p.aw.valid.high() && p.aw.ready.high() {
            let b = self.take_address(cycle, &self.pins.aw, "write");
            self.bursts.push_back(b);
            self.memory.store.borrow_mut().writes_under_way += 1;
        }
        let p = &self.pins;
        if p.wvalid.high() && p.wready.high() {
            let last = p.wlast.high();
            self.gathered.push((p.wdata.get(), p.wstrb.get(), last));
            self.memory.store.borrow_mut().write_beats += 1;
            if last {
                self.data.push_back(std::mem::take(&mut self.gathered));
            }
        }
        self.r_moved = self.pins.rvalid.high() && self.pins.rready.high();
        self.b_moved = self.pins.bvalid.high() && self.pins.bready.high();
        self.pair_writes(cycle, config.write_latency);
    }
    fn drive(&mut self, cycle: u64) {
        let config = self.memory.config.borrow().clone();
        self.drive_r(cycle, &config);
        self.drive_b(cycle, &config);
        let (reads, writes) = self.memory.under_way();
        let mut go = |percent, room: bool| u64::from(room && !self.random.percent(percent));
        let p = &self.pins;
        p.aw.ready
            .set(go(config.pause_aw, writes < config.max_writes));
        p.wready.set(go(config.pause_w, true));
        p.ar.ready
            .set(go(config.pause_ar, reads < config.max_reads));
    }
    fn status(&self) -> String {
        let (r, w) = self.memory.under_way();
        format!(
            "AXI4 memory `{}`: {r} reads, {w} writes under way; {} write addresses without data",
            self.name,
            self.bursts.len()
        )
    }
}
