//! `host::AxiRead`: sharing of the read port.
use crate::beats::same;
use crate::dma::Dma;
use rocenic_hdl::types::*;
use rocenic_testbench::bfm::{AxiMemory, ChannelSink, ChannelSource, MemoryConfig, Region};
use rocenic_testbench::{Dut, Random};
use rust_hdl_core::prelude::*;

struct Client {
    req: ChannelSource<ReadReq>,
    beat: ChannelSink<ReadBeat>,
}
fn client(dut: &mut Dut, name: &str) -> Client {
    Client {
        req: dut.source(&format!("{name}_req")),
        beat: dut.sink(&format!("{name}_beat")),
    }
}

/// One fetch: the request and what must come back.
fn fetch(memory: &AxiMemory, r: &mut Random, tag: u64) -> (ReadReq, Vec<u8>) {
    let bytes = r.within(1, 4096) as usize;
    let iova = memory.alloc(8192) + r.below(4096);
    memory.write(iova, &r.bytes(bytes));
    let from = iova / 64 * 64;
    let to = (iova + bytes as u64).div_ceil(64) * 64;
    let req = ReadReq {
        tag: bits(tag),
        iova: bits(iova),
        bytes: bits(bytes as u64),
    };
    (req, memory.read(from, (to - from) as usize))
}

/// Sends `n` rounds of fetches with 16 tags under way and compares what comes back.
async fn traffic(memory: AxiMemory, mut r: Random, c: Client, n: u64) -> u64 {
    let mut open: Vec<Option<Vec<u8>>> = vec![None; 16];
    let mut got: Vec<Vec<u8>> = vec![vec![]; 16];
    let (mut sent, mut done) = (0, 0);
    while done < n {
        if sent < n
            && let Some(tag) = open.iter().position(Option::is_none)
        {
            let (req, want) = fetch(&memory, &mut r, tag as u64);
            open[tag] = Some(want);
            c.req.send(&req);
            sent += 1;
            continue;
        }
        let b = c.beat.recv().await;
        let tag = b.field("tag") as usize;
        assert_eq!(b.field("error"), 0);
        let words = b.field_words("data");
        got[tag].extend(words.iter().flat_map(|w| w.to_le_bytes()));
        if b.field("last") == 1 {
            let want = open[tag].take().expect("a tag that was asked for");
            same(&std::mem::take(&mut got[tag]), &want, &format!("tag {tag}"));
            done += 1;
        }
    }
    done
}

#[test]
fn clients_get_their_own_data_with_one_last_also_across_pages() {
    for config in [
        MemoryConfig::ideal(),
        MemoryConfig::default(),
        MemoryConfig {
            pause_ar: 40,
            pause_r: 20,
            ..Default::default()
        },
    ] {
        let mut dut = Dut::new(Dma::default());
        let memory = AxiMemory::new(&mut dut, "m_axi", config);
        let clients = ["sq", "rq", "at"].map(|name| client(&mut dut, name));
        dut.reset();
        let sim = dut.sim();
        let joins: Vec<_> = clients
            .into_iter()
            .enumerate()
            .map(|(k, c)| {
                let r = dut.random(&format!("client {k}"));
                sim.spawn("client", traffic(memory.clone(), r, c, 150))
            })
            .collect();
        for j in joins {
            assert_eq!(dut.run(j), 150);
        }
    }
}

#[test]
fn a_fetch_and_a_payload_read_do_not_starve_each_other() {
    let mut dut = Dut::new(Dma::default());
    let memory = AxiMemory::new(&mut dut, "m_axi", MemoryConfig::ideal());
    let sq = client(&mut dut, "sq");
    let rq = client(&mut dut, "rq");
    let cmd = dut.source::<TxCmd>("cmd");
    let tx = dut.sink::<TxReady>("tx");
    let _p = dut.sink::<Beat>("p");
    dut.reset();
    dut.steps(1100);
    let at = memory.alloc(4096);
    for k in 0..400u64 {
        let req = ReadReq {
            tag: bits(k % 64),
            iova: bits(at),
            bytes: bits(64),
        };
        sq.req.send(&req);
        rq.req.send(&req);
        cmd.send(&TxCmd {
            pkt: TxPkt {
                payload_len: bits(64),
                iova: bits(at),
                ..Default::default()
            },
            ..Default::default()
        });
    }
    dut.steps(600);
    println!(
        "{} SQ, {} RQ, {} payload",
        sq.beat.len(),
        rq.beat.len(),
        tx.len()
    );
    assert!(sq.beat.len() > 120 && rq.beat.len() > 120 && tx.len() > 120);
}

#[test]
fn every_client_gets_last_with_the_last_beat_alone_wherever_an_error_is() {
    let mut dut = Dut::new(Dma::default());
    let memory = AxiMemory::new(&mut dut, "m_axi", MemoryConfig::default());
    let clients = ["sq", "rq", "at"].map(|name| (name, client(&mut dut, name)));
    dut.reset();
    for (name, c) in clients {
        for beats in 1..=4 {
            // none, or one of the beats, fails; the read crosses a page when it has more than two
            for bad in [None].into_iter().chain((0..beats).map(Some)) {
                let at = memory.alloc(8192) + 4096 - 128;
                if let Some(k) = bad {
                    memory.fail(at + 64 * k..at + 64 * k + 64, Region::SlvErr);
                }
                c.req.send(&ReadReq {
                    tag: bits(5),
                    iova: bits(at),
                    bytes: bits(64 * beats),
                });
                for k in 0..beats {
                    let got = dut.run(c.beat.recv());
                    let got = ["tag", "last", "error"].map(|f| got.field(f));
                    let want = [5, u64::from(k + 1 == beats), u64::from(bad == Some(k))];
                    assert_eq!(got, want, "{name}: beat {k} of {beats}, {bad:?} fails");
                }
            }
        }
        dut.steps(100);
        assert!(c.beat.is_empty(), "{name}: more beats than asked for");
    }
}

#[test]
fn an_error_comes_with_its_beat_and_stop_lets_reads_run_dry() {
    let mut dut = Dut::new(Dma::default());
    let memory = AxiMemory::new(&mut dut, "m_axi", MemoryConfig::default());
    let sq = client(&mut dut, "sq");
    dut.reset();
    let at = memory.alloc(8192);
    memory.fail(at + 4096..at + 4160, Region::SlvErr);
    let req = |tag: u64, iova: u64, bytes: u64| ReadReq {
        tag: bits(tag),
        iova: bits(iova),
        bytes: bits(bytes),
    };
    sq.req.send(&req(9, at + 4032, 192));
    let errors: Vec<u64> = dut.run(async {
        let mut v = vec![];
        for _ in 0..3 {
            v.push(sq.beat.recv().await.field("error"));
        }
        v
    });
    assert_eq!(errors, [0, 1, 0]);

    assert_eq!(dut.get("idle"), 1);
    for k in 0..8 {
        sq.req.send(&req(k, at, 4096));
    }
    dut.steps(6);
    dut.set("stop", 1);
    dut.steps(2);
    assert_eq!(dut.get("idle"), 0);
    dut.run_until(1000, "idle", |d| d.get("idle") == 1);
    let (beats, (reads, _)) = (memory.beats().0, memory.under_way());
    assert_eq!(reads, 0, "idle with reads under way");
    dut.steps(500);
    assert_eq!(memory.beats().0, beats, "a read was issued after stop");
    dut.set("stop", 0);
    dut.run_until(2000, "the rest", |_| memory.beats().0 == 3 + 8 * 64);
}
