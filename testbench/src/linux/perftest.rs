//! `ib_send_bw`, `ib_write_bw`, `ib_read_bw`, `ib_atomic_bw`: what they move is compared with the memory of the tool itself,
//! read while it waits for our next word.
use super::host::Host;
use super::talk::{DONE, Key, PERFTEST_BYTES, Talk, connection};
use anyhow::{Context, Result, bail, ensure};
use rocenic_driver::{
    Access, Cq, Init, Mr, Pmtu, Qp, RecvRequest, Rts, SendRequest, contract::caps,
};

/// Five packets at the largest PMTU, the last with padding.
const SIZE: usize = 20_001;
const MTU: Pmtu = Pmtu::Mtu4096;
const COUNT: usize = 60;
/// Requests the tool has outstanding.
const DEPTH: usize = 8;
/// Receives posted at once: fewer than the tool sends ahead, so that it meets an empty queue now and then.
const RECEIVES: usize = 4;
/// ACK timeout of the tool's queue pair, 4.096 µs · 2^17 = 0.5 s: our NIC is slow.
const TOOL_TIMEOUT: u8 = 17;
/// READs and atomics outstanding either way.
const READS: u8 = 16;
const ATOMIC: usize = 8;
/// What the tool adds, and what it compares with.
const ATOMIC_OPERAND: u64 = 1;
/// A tool's region begins its buffer's length, rounded up to this, behind its buffer.
const CACHE_LINE: usize = 64;
/// Words of the protocol, in the order they are said by the client and answered alike: version, page and cache line of
/// the buffers, PMTU.
const VERSION: &[u8] = b"6.06\0\0\0\0\0\0\0\0\0\0\0\0";
const BUFFERS: [u32; 2] = [4096, 64];
const PMTU_4096: &[u8] = b"5\0";
/// Keys are told this often before the first request.
const KEYS_BEFORE: usize = 4;
/// Figures of the bandwidth, eight bytes each, that all but the SEND test exchange.
const FIGURES: usize = 5;
const FIGURE_BYTES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    Send,
    Write,
    Read,
    FetchAdd,
    CompareSwap,
}
impl Test {
    pub fn tool(self) -> &'static str {
        match self {
            Test::Send => "ib_send_bw",
            Test::Write => "ib_write_bw",
            Test::Read => "ib_read_bw",
            Test::FetchAdd | Test::CompareSwap => "ib_atomic_bw",
        }
    }
    /// What the device must be able to do.
    pub fn needs(self) -> u64 {
        match self {
            Test::Send => caps::SEND,
            Test::Write => caps::WRITE,
            Test::Read => caps::READ,
            Test::FetchAdd | Test::CompareSwap => caps::ATOMIC,
        }
    }
    fn size(self) -> usize {
        match self {
            Test::FetchAdd | Test::CompareSwap => ATOMIC,
            _ => SIZE,
        }
    }
    fn command(self) -> String {
        let more = match self {
            Test::FetchAdd => " -A FETCH_AND_ADD".into(),
            Test::CompareSwap => " -A CMP_AND_SWAP".into(),
            _ => format!(" -s {SIZE}"),
        };
        let (tool, mtu) = (self.tool(), MTU.bytes());
        format!("{tool} -d rxe0 -x 1 -F -m {mtu} -n {COUNT} -t {DEPTH} -u {TOOL_TIMEOUT}{more}")
    }
    fn access(self) -> Access {
        match self {
            Test::Send => Access::LOCAL_WRITE,
            Test::Write => Access::LOCAL_WRITE | Access::REMOTE_WRITE,
            Test::Read => Access::REMOTE_READ,
            _ => Access::LOCAL_WRITE | Access::REMOTE_ATOMIC,
        }
    }
}

/// Our queue pair and region.
struct Side {
    test: Test,
    send_cq: Cq,
    recv_cq: Cq,
    mr: Mr,
}
impl Side {
    fn new(h: &mut Host, test: Test) -> Result<(Side, Qp<Init>, Key)> {
        let (send_cq, recv_cq) = (h.c.create_cq(256)?, h.c.create_cq(256)?);
        // a place for each message; more than one is needed for SENDs only
        let mr = h.pd.alloc_mr(SIZE * COUNT, test.access())?;
        let psn = h.random.below(1 << 24) as u32;
        let qp = h.pd.qp(&send_cq, &recv_cq).psn(psn).build()?.init()?;
        let at = qp.endpoint()?;
        let key = Key {
            qpn: at.qpn,
            psn: at.psn,
            rkey: mr.rkey(),
            va: mr.va(),
            ipv4: at.ipv4,
            reads: READS,
        };
        let side = Side {
            test,
            send_cq,
            recv_cq,
            mr,
        };
        Ok((side, qp, key))
    }
    fn post_recv(&self, qp: &mut Qp<Rts>, i: usize) -> Result<()> {
        if i < COUNT {
            let place = self.mr.slice(i * SIZE..(i + 1) * SIZE)?;
            qp.post_recv(&RecvRequest::new(&[place]).id(i as u64))?;
        }
        Ok(())
    }
}

/// What the tool says next, as its client says it.
enum Word {
    Key(Key),
    Figure(Vec<u8>),
    Done,
}
/// The next word, when it is there. Keys are text, figures are binary.
fn word(talk: &mut Talk) -> Result<Option<Word>> {
    if talk.peek()?.is_empty() && talk.closed() {
        return Ok(Some(Word::Done));
    }
    let there = talk.peek()?;
    if there.starts_with(DONE) {
        return Ok(Some(Word::Done));
    }
    if there.len() < DONE.len() {
        return Ok(None);
    }
    if there.starts_with(b"0000:") {
        let Some(bytes) = talk.take(PERFTEST_BYTES)? else {
            return Ok(None);
        };
        return Ok(Some(Word::Key(Key::from_perftest(&bytes)?)));
    }
    Ok(talk.take(FIGURE_BYTES)?.map(Word::Figure))
}

/// The tool is the client: its requests come to our NIC.
pub fn from_guest(h: &mut Host, test: Test) -> Result<()> {
    let mut talk = h.called_by(|port, host| format!("{} -p {port} {host}", test.command()))?;
    let (side, qp, key) = Side::new(h, test)?;
    let (mut unconnected, mut qp) = (Some(qp), None);
    let before = h.bytes(SIZE);
    match test {
        Test::Read => side.mr.write(0, &before),
        Test::CompareSwap => side
            .mr
            .write(0, &ATOMIC_OPERAND.to_le_bytes().repeat(SIZE / ATOMIC)),
        _ => {}
    }
    for expected in [VERSION, &[0; 4], &[0; 4]] {
        let w = h.until("its version and buffers", || talk.take(expected.len()))?;
        ensure!(
            expected != VERSION || w == VERSION,
            "the tool speaks version {w:02x?}, this host {VERSION:02x?}"
        );
        talk.say(&w)?;
    }
    h.until("its PMTU", || talk.take(PMTU_4096.len()))?;
    talk.say(PMTU_4096)?;
    let (mut keys, mut judged, mut received, mut posted) = (0, false, 0, 0);
    let mut tool_key = None;
    loop {
        let w = h.until("its next word", || {
            while let Some(w) = side.recv_cq.poll_one()? {
                let w = w.ok()?;
                let expected = (received as u64, SIZE);
                ensure!((w.id, w.byte_len as usize) == expected, "{w:?}");
                received += 1;
                if let Some(qp) = &mut qp
                    && received == posted
                {
                    // all at once, after the tool has found none
                    for _ in 0..RECEIVES {
                        side.post_recv(qp, posted)?;
                        posted += 1;
                    }
                }
            }
            word(&mut talk)
        })?;
        let after = match &w {
            Word::Key(_) => keys >= KEYS_BEFORE,
            _ => true,
        };
        if after && !judged {
            judged = true;
            let k = tool_key.context("no key")?;
            judge(h, &side, &k, &before, received)?;
        }
        match w {
            Word::Key(k) => {
                keys += 1;
                tool_key = Some(k);
                if let Some(q) = unconnected.take() {
                    let mut q = q.connect(&connection(&k, h.peer.mac, MTU, READS))?;
                    if test == Test::Send {
                        while posted < RECEIVES {
                            side.post_recv(&mut q, posted)?;
                            posted += 1;
                        }
                    }
                    qp = Some(q);
                }
                talk.say(&key.perftest())?;
                if keys > KEYS_BEFORE {
                    talk.say(DONE)?;
                    break;
                }
            }
            // what a server measured is of no interest to the client
            Word::Figure(f) => talk.say(&f)?,
            Word::Done => break,
        }
    }
    h.finish()?;
    Ok(())
}
/// The tool's memory, from the buffer it sends from to the end of the region it tells of.
fn buffer(h: &mut Host, test: Test, tool: &Key) -> Result<Vec<u8>> {
    let len = test.size().next_multiple_of(CACHE_LINE);
    h.tool_memory(test.tool(), tool.va - len as u64, 2 * len)
}
fn holds(memory: &[u8], what: &[u8]) -> bool {
    memory.windows(what.len()).any(|w| w == what)
}
/// The tool has ended its test and waits: its memory and ours must be as the test leaves them.
fn judge(h: &mut Host, side: &Side, tool: &Key, before: &[u8], received: usize) -> Result<()> {
    let test = side.test;
    let words = |bytes: &[u8]| -> Vec<u64> {
        let word = |w: &[u8]| u64::from_le_bytes(w.try_into().expect("eight bytes"));
        bytes.chunks_exact(ATOMIC).map(word).collect()
    };
    let ours = side.mr.to_vec(0..SIZE);
    match test {
        Test::Send | Test::Write => {
            let messages = if test == Test::Send { COUNT } else { 1 };
            ensure!(
                test == Test::Write || received == COUNT,
                "{received} of {COUNT} messages"
            );
            ensure!(
                ours.iter().any(|b| *b != ours[0]),
                "the tool sent nothing but {:#x}",
                ours[0]
            );
            let theirs = buffer(h, test, tool)?;
            for i in 0..messages {
                let got = side.mr.to_vec(i * SIZE..(i + 1) * SIZE);
                ensure!(
                    holds(&theirs, &got),
                    "message {i} is not what the tool has in its buffer"
                );
            }
        }
        Test::Read => {
            let theirs = buffer(h, test, tool)?;
            ensure!(
                holds(&theirs, before),
                "the tool's buffer does not hold what it has read"
            );
        }
        Test::FetchAdd => {
            let added: u64 = words(&side.mr.to_vec(0..SIZE)).iter().sum();
            ensure!(
                added == COUNT as u64 * ATOMIC_OPERAND,
                "{added} additions of {COUNT}"
            );
        }
        Test::CompareSwap => {
            let left = words(&ours);
            let swapped = left.iter().filter(|w| **w == 0).count();
            ensure!(
                swapped > 0 && left.iter().all(|w| *w == 0 || *w == ATOMIC_OPERAND),
                "{swapped} words swapped; {left:x?}"
            );
        }
    }
    Ok(())
}

/// We are the client: our NIC's requests go to the guest.
pub fn to_guest(h: &mut Host, test: Test) -> Result<()> {
    let mut talk = h.call(&test.command())?;
    let (side, qp, key) = Side::new(h, test)?;
    let buffers = BUFFERS.map(u32::to_be_bytes);
    for say in [VERSION, &buffers[0], &buffers[1], PMTU_4096] {
        talk.say(say)?;
        h.until("its version, buffers and PMTU", || talk.take(say.len()))?;
    }
    let tell_key = |h: &mut Host, talk: &mut Talk| -> Result<Key> {
        talk.say(&key.perftest())?;
        Key::from_perftest(&h.until("its key", || talk.take(PERFTEST_BYTES))?)
    };
    let tool = tell_key(h, &mut talk)?;
    let mut qp = qp.connect(&connection(&tool, h.peer.mac, MTU, READS))?;
    for _ in 1..KEYS_BEFORE {
        tell_key(h, &mut talk)?;
    }
    match test {
        Test::Send => send(h, &side, &mut qp, &tool)?,
        Test::Write => write(h, &side, &mut qp, &tool)?,
        Test::Read => read(h, &side, &mut qp, &tool)?,
        Test::FetchAdd | Test::CompareSwap => atomics(h, &side, &mut qp, &tool)?,
    }
    if test != Test::Send {
        for _ in 0..FIGURES {
            talk.say(&[0; FIGURE_BYTES])?;
            h.until("a figure", || talk.take(FIGURE_BYTES))?;
        }
    }
    tell_key(h, &mut talk)?;
    talk.say(DONE)?;
    h.finish()?;
    Ok(())
}
/// Waits for the completions of requests `0..n`, in order.
fn complete(h: &mut Host, side: &Side, n: usize) -> Result<()> {
    for i in 0..n {
        let w = h.completion(&side.send_cq)?;
        ensure!(w.id == i as u64, "request {i}: {w:?}");
    }
    Ok(())
}
fn send(h: &mut Host, side: &Side, qp: &mut Qp<Rts>, tool: &Key) -> Result<()> {
    let data = h.bytes(SIZE * COUNT);
    side.mr.write(0, &data);
    for i in 0..COUNT {
        let piece = [side.mr.slice(i * SIZE..(i + 1) * SIZE)?];
        qp.post_send(&SendRequest::send(&piece).id(i as u64))?;
    }
    complete(h, side, COUNT)?;
    // the tool receives all into one place
    let theirs = buffer(h, side.test, tool)?;
    let last = &data[(COUNT - 1) * SIZE..];
    ensure!(
        holds(&theirs, last),
        "the tool's buffer does not hold the last message"
    );
    Ok(())
}
/// A piece of a region of `SIZE` bytes: of any alignment, sometimes of no length.
fn piece(h: &mut Host) -> std::ops::Range<usize> {
    let from = h.random.below(SIZE as u64) as usize;
    let len = h.random.below((SIZE - from) as u64 + 1) as usize;
    from..from + len
}
fn write(h: &mut Host, side: &Side, qp: &mut Qp<Rts>, tool: &Key) -> Result<()> {
    let data = h.bytes(SIZE * COUNT);
    side.mr.write(0, &data);
    let mut expected = vec![];
    for i in 0..COUNT {
        // the first writes all of it
        let to = if i == 0 { 0..SIZE } else { piece(h) };
        let from = i * SIZE..i * SIZE + to.len();
        let local = [side.mr.slice(from.clone())?];
        let remote = tool
            .memory(SIZE as u32)
            .slice(to.start as u32..to.end as u32)?;
        qp.post_send(&SendRequest::write(&local, remote).id(i as u64))?;
        expected.resize(SIZE, 0);
        expected[to].copy_from_slice(&data[from]);
    }
    complete(h, side, COUNT)?;
    let theirs = h.tool_memory(side.test.tool(), tool.va, SIZE)?;
    ensure!(
        theirs == expected,
        "the tool's memory is not what was written to it"
    );
    Ok(())
}
fn read(h: &mut Host, side: &Side, qp: &mut Qp<Rts>, tool: &Key) -> Result<()> {
    let mut pieces = vec![];
    for i in 0..COUNT {
        let from = if i == 0 { 0..SIZE } else { piece(h) };
        let local = [side.mr.slice(i * SIZE..i * SIZE + from.len())?];
        let remote = tool
            .memory(SIZE as u32)
            .slice(from.start as u32..from.end as u32)?;
        qp.post_send(&SendRequest::read(&local, remote).id(i as u64))?;
        pieces.push(from);
    }
    complete(h, side, COUNT)?;
    let theirs = h.tool_memory(side.test.tool(), tool.va, SIZE)?;
    ensure!(
        theirs.iter().any(|b| *b != theirs[0]),
        "the tool's memory is nothing but {:#x}",
        theirs[0]
    );
    for (i, p) in pieces.into_iter().enumerate() {
        let got = side.mr.to_vec(i * SIZE..i * SIZE + p.len());
        ensure!(got == theirs[p.clone()], "READ {i} of {p:?} differs");
    }
    Ok(())
}
fn atomics(h: &mut Host, side: &Side, qp: &mut Qp<Rts>, tool: &Key) -> Result<()> {
    let value =
        |bytes: Vec<u8>| -> Result<u64> { Ok(u64::from_le_bytes(bytes.as_slice().try_into()?)) };
    let mut now = value(h.tool_memory(side.test.tool(), tool.va, ATOMIC)?)?;
    let remote = tool.memory(ATOMIC as u32);
    let mut old = vec![];
    for i in 0..COUNT {
        let place = [side.mr.slice(i * ATOMIC..(i + 1) * ATOMIC)?];
        let operand = h.random.next_u64();
        old.push(now);
        let request = match side.test {
            Test::FetchAdd => {
                now = now.wrapping_add(operand);
                SendRequest::fetch_add(&place, remote, operand)
            }
            Test::CompareSwap if i % 2 == 0 => {
                let compare = now;
                now = operand;
                SendRequest::compare_swap(&place, remote, compare, operand)
            }
            // does not match
            Test::CompareSwap => SendRequest::compare_swap(&place, remote, !now, operand),
            other => bail!("{other:?} is no atomic"),
        };
        qp.post_send(&request.id(i as u64))?;
    }
    complete(h, side, COUNT)?;
    for (i, expected) in old.into_iter().enumerate() {
        let got = value(side.mr.to_vec(i * ATOMIC..(i + 1) * ATOMIC))?;
        ensure!(
            got == expected,
            "atomic {i} returned {got:#x}, not {expected:#x}"
        );
    }
    let theirs = value(h.tool_memory(side.test.tool(), tool.va, ATOMIC)?)?;
    ensure!(
        theirs == now,
        "the tool's memory holds {theirs:#x}, not {now:#x}"
    );
    Ok(())
}
