//! What goes wrong on one queue pair stays there, and says what it was.
use super::capture::scratch;
use super::pair::{A, B, LONG, payload, stuck};
use anyhow::{Result, ensure};
use pcap_file::pcapng::{Block, PcapNgReader};
use rocenic_driver::contract::eqe::event::Event;
use rocenic_driver::contract::syndrome::{nak::NakCode, nak_syndrome};
use rocenic_driver::contract::{opcode, wire};
use rocenic_driver::*;
use rocenic_testbench::system::{Hear, Pair, PairConfig, PairReport, Say, exchange};

/// ACK timeout code: longer than a round trip here, short enough for a simulator (65 µs).
const TIMEOUT: u8 = 4;
const LEN: usize = 6_000;

/// A host with its device open, and a line to the other host's program.
struct Host {
    c: Context,
    pd: Pd,
    cq: Cq,
    say: Say<Word>,
    hear: Hear<Word>,
}
/// What the programs tell each other.
#[derive(Clone, Copy)]
enum Word {
    Queue(Endpoint),
    Memory(RemoteMemory),
    Done,
}
impl Host {
    fn open(
        t: std::sync::Arc<dyn Transport>,
        port: Port,
        say: Say<Word>,
        hear: Hear<Word>,
    ) -> Result<Host> {
        let c = Context::open(t)?;
        c.set_port(port)?;
        let (pd, cq) = (c.alloc_pd()?, c.create_cq(64)?);
        Ok(Host {
            c,
            pd,
            cq,
            say,
            hear,
        })
    }
    fn say(&self, w: Word) {
        self.say.say(&self.c, w);
    }
    fn hear(&mut self) -> Result<Word> {
        self.hear.hear(&self.c, 4 * LONG)
    }
    fn memory(&mut self) -> Result<RemoteMemory> {
        match self.hear()? {
            Word::Memory(m) => Ok(m),
            _ => anyhow::bail!("the peer did not speak of memory"),
        }
    }
    /// A queue pair connected to the peer's, which does the same at the same time.
    fn connect(&mut self, how: impl Fn(Connection) -> Connection) -> Result<Qp<Rts>> {
        let q = self.pd.qp(&self.cq, &self.cq).build()?.init()?;
        self.say(Word::Queue(q.endpoint()?));
        match self.hear()? {
            Word::Queue(p) => Ok(q.connect(&how(Connection::to(p).timeout(TIMEOUT)))?),
            _ => anyhow::bail!("the peer did not speak of a queue pair"),
        }
    }
    fn expect(&self, id: u64, status: Status) -> Result<WorkCompletion> {
        let w = self.cq.wait(LONG).map_err(|e| stuck(&self.c, e))?;
        ensure!(
            (w.id, w.status) == (id, status),
            "expected {id} {status}, got {w:?}"
        );
        Ok(w)
    }
}
fn run<R: Send, S: Send>(
    config: PairConfig,
    a: impl FnOnce(Host) -> Result<R> + Send,
    b: impl FnOnce(Host) -> Result<S> + Send,
) -> PairReport<R, S> {
    let library = super::library();
    let (to_b, from_a) = exchange(&config.link);
    let (to_a, from_b) = exchange(&config.link);
    let a = move |t| a(Host::open(t, A, to_b, from_b)?);
    let b = move |t| b(Host::open(t, B, to_a, from_a)?);
    Pair::new(&library, config)
        .run(a, b)
        .unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_wrong_rkey_harms_one_queue_pair_only() {
    let capture = scratch("wrong-rkey").join("wire.pcapng");
    let data = payload(LEN, 1);
    let text = data.clone();
    let r = run(
        PairConfig {
            capture: Some(capture.clone()),
            ..PairConfig::default()
        },
        move |mut h| {
            let mut good = h.connect(|c| c)?;
            let mut bad = h.connect(|c| c)?;
            let memory = h.memory()?;
            let mr = h.pd.alloc_mr(LEN, Access::NONE)?;
            mr.write(0, &text);
            let whole = [mr.all()];
            let wrong = RemoteMemory {
                rkey: memory.rkey ^ 0x10,
                ..memory
            };
            bad.post_send(&SendRequest::write(&whole, wrong).id(1))?;
            bad.post_send(&SendRequest::write(&whole, memory).id(2))?;
            h.expect(1, Status::RemAccessErr)?;
            h.expect(2, Status::WrFlushErr)?;
            good.post_send(&SendRequest::write(&whole, memory).id(3))?;
            h.expect(3, Status::Success)?;
            // the queue pair that failed is made anew and works
            bad.destroy()?;
            let mut new = h.connect(|c| c)?;
            new.post_send(&SendRequest::send(b"new").id(4))?;
            h.expect(4, Status::Success)?;
            h.say(Word::Done);
            Ok(())
        },
        |mut h| {
            let _good = h.connect(|c| c)?;
            let bad = h.connect(|c| c)?;
            let mr =
                h.pd.alloc_mr(LEN, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
            let note = h.pd.alloc_mr(64, Access::LOCAL_WRITE)?;
            h.say(Word::Memory(mr.remote(0..LEN)?));
            let e = h.c.wait_event(4 * LONG)?;
            ensure!(
                (e.event, e.number) == (Event::QpAccessError, bad.number()),
                "{e:?}"
            );
            bad.destroy()?;
            let mut new = h.connect(|c| c)?;
            new.post_recv(&RecvRequest::new(&[note.all()]).id(7))?;
            h.expect(7, Status::Success)?;
            h.hear()?;
            Ok(mr.to_vec(0..LEN))
        },
    );
    assert!(r.b == data, "B's memory differs");
    let naks = acknowledgements(&capture)
        .into_iter()
        .filter(|s| *s == nak_syndrome(NakCode::RemoteAccess))
        .count();
    assert_eq!(naks, 1, "remote access NAKs on the wire");
}
/// Syndromes of the acknowledgements in a capture.
fn acknowledgements(path: &std::path::Path) -> Vec<u8> {
    let bth = wire::eth::BYTES + wire::ip::v4::BYTES + wire::udp::BYTES;
    let file = std::fs::File::open(path).expect("the run wrote its capture");
    let mut reader = PcapNgReader::new(file).expect("a capture");
    let mut syndromes = vec![];
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(p) = block.expect("a whole capture")
            && u64::from(p.data[bth]) == opcode::RC_ACK
        {
            syndromes.push(p.data[bth + wire::bth::BYTES]);
        }
    }
    syndromes
}

#[test]
fn an_empty_receive_queue_only_delays_a_send() {
    let r = run(
        PairConfig::default(),
        |mut h| {
            let mut q = h.connect(|c| c)?;
            q.post_send(&SendRequest::send(b"early").id(1))?;
            h.say(Word::Done);
            h.expect(1, Status::Success)?;
            Ok(h.c.now_ns())
        },
        |mut h| {
            // 10 µs
            let mut q = h.connect(|c| c.min_rnr_timer(1))?;
            h.hear()?;
            h.c.wait(30_000)?;
            let ready = h.c.now_ns();
            let note = h.pd.alloc_mr(64, Access::LOCAL_WRITE)?;
            q.post_recv(&RecvRequest::new(&[note.all()]).id(7))?;
            h.expect(7, Status::Success)?;
            ensure!(note.to_vec(0..5) == b"early");
            Ok(ready)
        },
    );
    assert!(
        r.a > r.b,
        "done at {} ns, but the receive was posted at {} ns",
        r.a,
        r.b
    );
}

#[test]
fn a_cut_wire_fails_what_is_posted_with_a_clear_error() {
    let mut config = PairConfig::default();
    // long after both are connected: the programs wait for it
    const CUT_NS: u64 = 400_000;
    config.link.cut_at = Some(CUT_NS / rocenic_sim::nic::CYCLE_NS);
    run(
        config,
        |mut h| {
            let mut q = h.connect(|c| c.timeout(1).retries(2))?;
            let memory = h.memory()?;
            let mr = h.pd.alloc_mr(LEN, Access::NONE)?;
            q.post_send(&SendRequest::write(&[mr.all()], memory).id(1))?;
            h.expect(1, Status::Success)?;
            while h.c.now_ns() < CUT_NS {
                h.c.wait(CUT_NS - h.c.now_ns())?;
            }
            q.post_send(&SendRequest::write(&[mr.all()], memory).id(2))?;
            q.post_send(&SendRequest::write(&[mr.all()], memory).id(3))?;
            let w = h.expect(2, Status::RetryExcErr)?;
            let said = w.ok().expect_err("it failed").to_string();
            ensure!(said.contains("RETRY_EXC_ERR"), "{said}");
            h.expect(3, Status::WrFlushErr)?;
            h.say(Word::Done);
            Ok(())
        },
        |mut h| {
            let _q = h.connect(|c| c)?;
            let mr =
                h.pd.alloc_mr(LEN, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
            h.say(Word::Memory(mr.remote(0..LEN)?));
            h.hear()?;
            Ok(())
        },
    );
}
