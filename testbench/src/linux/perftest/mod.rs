//! `ib_send_bw`, `ib_write_bw`, `ib_read_bw`, `ib_atomic_bw`: what they move is compared with the memory of the tool itself,
//! read while it waits for our next word. Here the tool's requests come to our NIC; in `requests` ours go to the tool.
mod requests;

pub use requests::to_guest;

use super::host::Host;
use super::talk::{DONE, Key, PERFTEST_BYTES, Talk};
use anyhow::{Context, Result, ensure};
use rocenic_driver::{Access, Cq, Init, Mr, Pmtu, Qp, RecvRequest, Rts, contract::caps};

/// Requests the tool has outstanding.
const DEPTH: usize = 8;
/// Receives posted at once: fewer than the tool sends ahead, so that it meets an empty queue now and then.
const RECEIVES: usize = 4;
/// ACK timeout of the tool's queue pair, 4.096 µs · 2^17 = 0.5 s: our NIC is slow.
const TOOL_TIMEOUT: u8 = 17;
/// READs and atomics outstanding either way.
const READS: u8 = 16;
const ATOMIC: usize = 8;
/// What the tool adds.
const ATOMIC_OPERAND: u64 = 1;
/// The tool goes through a buffer of this length in steps of cache lines; one message may be longer.
const BUFFER: usize = 4096;
const CACHE_LINE: usize = 64;
/// The version of the protocol, its first word.
const VERSION: &[u8] = b"6.06\0\0\0\0\0\0\0\0\0\0\0\0";
/// Keys are told this often before the first request.
const KEYS_BEFORE: usize = 4;
/// Bytes of a figure of the bandwidth.
const FIGURE_BYTES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Send,
    Write,
    Read,
    FetchAdd,
    CompareSwap,
}
/// What a tool is told to do.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    pub operation: Operation,
    /// Bytes of a message.
    pub size: usize,
    pub count: usize,
    pub pmtu: Pmtu,
}
use Operation::*;

impl Test {
    pub const fn new(operation: Operation, size: usize, count: usize, pmtu: Pmtu) -> Test {
        Test {
            operation,
            size,
            count,
            pmtu,
        }
    }
    pub const fn atomics(operation: Operation) -> Test {
        Test::new(operation, ATOMIC, 60, Pmtu::Mtu4096)
    }
    fn tool(self) -> &'static str {
        match self.operation {
            Send => "ib_send_bw",
            Write => "ib_write_bw",
            Read => "ib_read_bw",
            FetchAdd | CompareSwap => "ib_atomic_bw",
        }
    }
    /// What the device must be able to do.
    pub fn needs(self) -> u64 {
        match self.operation {
            Send => caps::SEND,
            Write => caps::WRITE,
            Read => caps::READ,
            FetchAdd | CompareSwap => caps::ATOMIC,
        }
    }
    fn command(self) -> String {
        let Test { size, count, .. } = self;
        let more = match self.operation {
            FetchAdd => " -A FETCH_AND_ADD".into(),
            CompareSwap => " -A CMP_AND_SWAP".into(),
            _ => format!(" -s {size}"),
        };
        let (tool, mtu) = (self.tool(), self.pmtu.bytes());
        format!("{tool} -d rxe0 -x 1 -F -m {mtu} -n {count} -t {DEPTH} -u {TOOL_TIMEOUT}{more}")
    }
    /// As a word of the protocol.
    fn pmtu_word(self) -> [u8; 2] {
        [b'0' + self.pmtu.number(), 0]
    }
    /// Length of the tool's buffer. The region it tells of comes behind it and is as long.
    fn buffer(self) -> usize {
        self.size.max(BUFFER).next_multiple_of(CACHE_LINE)
    }
    fn access(self) -> Access {
        Access::LOCAL_WRITE
            | match self.operation {
                Send => Access::NONE,
                Write => Access::REMOTE_WRITE,
                Read => Access::REMOTE_READ,
                FetchAdd | CompareSwap => Access::REMOTE_ATOMIC,
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
        // a place for each message
        let bytes = (test.size * test.count).max(test.buffer());
        let mr = h.pd.alloc_mr(bytes, test.access())?;
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
    fn place(&self, i: usize) -> std::ops::Range<usize> {
        i * self.test.size..(i + 1) * self.test.size
    }
    fn post_recv(&self, qp: &mut Qp<Rts>, i: usize) -> Result<()> {
        if i < self.test.count {
            let place = self.mr.slice(self.place(i))?;
            qp.post_recv(&RecvRequest::new(&[place]).id(i as u64))?;
        }
        Ok(())
    }
}
/// The tool's memory, from the buffer it sends from to the end of the region it tells of.
fn memory(h: &mut Host, test: Test, tool: &Key) -> Result<Vec<u8>> {
    let len = test.buffer();
    h.tool_memory(test.tool(), tool.va - len as u64, 2 * len)
}
fn holds(memory: &[u8], what: &[u8]) -> bool {
    memory.windows(what.len()).any(|w| w == what)
}
fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |w: &[u8]| u64::from_le_bytes(w.try_into().expect("eight bytes"));
    bytes.chunks_exact(ATOMIC).map(word).collect()
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
    let before = h.bytes(test.buffer());
    match test.operation {
        Read | CompareSwap => side.mr.write(0, &before),
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
    h.until("its PMTU", || talk.take(test.pmtu_word().len()))?;
    talk.say(&test.pmtu_word())?;
    let (mut keys, mut judged, mut received, mut posted) = (0, false, 0, 0);
    let mut tool_key = None;
    loop {
        let w = h.until("its next word", || {
            while let Some(w) = side.recv_cq.poll_one()? {
                let w = w.ok()?;
                let expected = (received as u64, test.size);
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
                    let mut q = h.connect(q, &k, test.pmtu, READS)?;
                    if test.operation == Send {
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
/// The tool has ended its test and waits: its memory and ours must be as the test leaves them.
fn judge(h: &mut Host, side: &Side, tool: &Key, before: &[u8], received: usize) -> Result<()> {
    let test = side.test;
    // what one round of the tool's messages writes: all of the buffer, or one message
    let round = if test.size < BUFFER {
        BUFFER
    } else {
        test.size
    };
    let ours = side.mr.to_vec(0..test.buffer());
    match test.operation {
        Send => {
            ensure!(
                received == test.count,
                "{received} of {} messages",
                test.count
            );
            let theirs = memory(h, test, tool)?;
            for i in 0..test.count {
                let got = side.mr.to_vec(side.place(i));
                ensure!(
                    got.iter().any(|b| *b != got[0]) && holds(&theirs, &got),
                    "message {i} is not what the tool has in its buffer"
                );
            }
        }
        Write => {
            let got = &ours[..round];
            let theirs = memory(h, test, tool)?;
            ensure!(
                got.iter().any(|b| *b != got[0]) && holds(&theirs, got),
                "our memory is not what the tool has in its buffer"
            );
        }
        Read => {
            let theirs = memory(h, test, tool)?;
            ensure!(
                holds(&theirs, &before[..round]),
                "the tool's buffer does not hold what it has read"
            );
        }
        FetchAdd => {
            let added: u64 = words(&ours).iter().sum();
            ensure!(
                added == test.count as u64 * ATOMIC_OPERAND,
                "{added} additions of {}",
                test.count
            );
        }
        CompareSwap => {
            // the tool compares with 0 and swaps 0 in; ours are not 0, so they stay, and come back to it
            ensure!(ours == before, "words were swapped that are not 0");
            ensure!(
                holds(&memory(h, test, tool)?, &before[..ATOMIC]),
                "the tool's buffer does not hold the word that came back"
            );
        }
    }
    Ok(())
}
