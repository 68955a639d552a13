//! READs and atomics between two NICs.
use super::pair::{A, B, LONG, host, payload, stuck};
use anyhow::{Result, ensure};
use rocenic_driver::*;
use rocenic_sim::wire::Faults;
use rocenic_testbench::Random;
use rocenic_testbench::system::{Pair, PairConfig, exchange};
use std::sync::Arc;

/// ACK timeout code: longer than a round trip here, short enough for a simulator (65 µs).
const TIMEOUT: u8 = 4;

fn bad_wire(seed: u64) -> PairConfig {
    let mut config = PairConfig {
        seed,
        ..PairConfig::default()
    };
    config.link.faults = Faults {
        drop: 0.05,
        duplicate: 0.02,
        reorder: 0.02,
        corrupt: 0.02,
        ..Faults::default()
    };
    config
}
/// What host A has at hand; B has a region of `B_SIZE` bytes, filled with [`text`].
struct Host<'a> {
    c: &'a Context,
    pd: &'a Pd,
    cq: &'a Cq,
    remote: RemoteMemory,
}
impl Host<'_> {
    /// Waits for the next completions, which must be these, in order.
    fn expect(&self, ids: impl IntoIterator<Item = u64>) -> Result<()> {
        for id in ids {
            let w = self.cq.wait(LONG).map_err(|e| stuck(self.c, e))?;
            ensure!(
                (w.id, w.status) == (id, Status::Success),
                "expected {id}, got {w:?}"
            );
        }
        Ok(())
    }
}
const B_SIZE: usize = 1 << 17;
fn text() -> Vec<u8> {
    payload(B_SIZE, 3)
}

/// Runs a program of A on a connected queue pair; B's memory when it is done.
fn run(
    config: PairConfig,
    pmtu: Pmtu,
    depth: u8,
    program: impl FnOnce(&Host<'_>, &mut Qp<Rts>) -> Result<()> + Send,
) -> Vec<u8> {
    let library = super::library();
    let (to_b, mut from_a) = exchange::<Endpoint>(&config.link);
    let (to_a, mut from_b) = exchange::<(Endpoint, RemoteMemory)>(&config.link);
    let (done, mut is_done) = exchange::<()>(&config.link);
    let connection = move |peer| {
        Connection::to(peer)
            .pmtu(pmtu)
            .timeout(TIMEOUT)
            .rd_atomic(depth)
    };
    let a = move |t| -> Result<()> {
        let c = Context::open(t)?;
        c.set_port(A)?;
        let pd = c.alloc_pd()?;
        let cq = c.create_cq(256)?;
        // the PSN wraps on the way
        let qp = pd.qp(&cq, &cq).psn(0xff_fff0).build()?.init()?;
        to_b.say(&c, qp.endpoint()?);
        let (peer, remote) = from_b.hear(&c, LONG)?;
        let mut qp = qp.connect(&connection(peer))?;
        let host = Host {
            c: &c,
            pd: &pd,
            cq: &cq,
            remote,
        };
        program(&host, &mut qp)?;
        done.say(&c, ());
        Ok(())
    };
    let b = move |t| -> Result<Vec<u8>> {
        let (c, pd, cq) = host(t, B)?;
        let all = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        let mr = pd.alloc_mr(B_SIZE, Access::LOCAL_WRITE | all)?;
        mr.write(0, &text());
        let qp = pd.qp(&cq, &cq).build()?.init()?;
        let peer = from_a.hear(&c, LONG)?;
        let at = qp.endpoint()?;
        let _qp = qp.connect(&connection(peer))?;
        to_a.say(&c, (at, mr.remote(0..B_SIZE)?));
        is_done.hear(&c, 4 * LONG)?;
        Ok(mr.to_vec(0..B_SIZE))
    };
    Pair::new(&library, config)
        .run(a, b)
        .unwrap_or_else(|e| panic!("{e}"))
        .b
}

/// READs of lengths around every border, from and to addresses of every alignment, all posted at once.
fn every_length(config: PairConfig, pmtu: Pmtu, depth: u8) {
    let m = pmtu.bytes();
    let lengths = [
        0,
        1,
        3,
        4,
        63,
        64,
        65,
        3,
        3,
        3,
        3,
        3,
        3,
        3,
        3,
        3,
        3,
        3,
        3,
        3,
        m - 1,
        m,
        m + 1,
        2 * m,
        2 * m + 5,
        3 * m - 1,
        9 * m + 7,
    ];
    let text = text();
    run(config, pmtu, depth, move |h, qp| {
        let size = lengths.iter().sum::<usize>() + 16 * lengths.len();
        let mr = h.pd.alloc_mr(size, Access::LOCAL_WRITE)?;
        let mut expected = vec![0xee; size];
        mr.write(0, &expected);
        let mut at = 0;
        for (i, len) in lengths.into_iter().enumerate() {
            let (to, from) = (at + i % 7, at + i % 5);
            expected[to..to + len].copy_from_slice(&text[from..from + len]);
            let remote = h.remote.slice(from as u32..(from + len) as u32)?;
            qp.post_send(&SendRequest::read(&[mr.slice(to..to + len)?], remote).id(i as u64))?;
            at += len + 8;
        }
        h.expect(0..lengths.len() as u64)?;
        let got = mr.to_vec(0..size);
        let wrong = got.iter().zip(&expected).position(|(a, b)| a != b);
        ensure!(wrong.is_none(), "A's memory differs at byte {wrong:?}");
        Ok(())
    });
}
#[test]
fn reads_of_every_length_and_alignment_arrive_at_pmtu_256() {
    every_length(PairConfig::default(), Pmtu::Mtu256, 16);
}
#[test]
fn reads_of_every_length_and_alignment_arrive_at_pmtu_1024_one_at_a_time() {
    every_length(PairConfig::default(), Pmtu::Mtu1024, 1);
}
#[test]
fn reads_of_every_length_and_alignment_arrive_at_pmtu_4096() {
    every_length(PairConfig::default(), Pmtu::Mtu4096, 16);
}
#[test]
fn reads_arrive_through_a_bad_wire() {
    for seed in 1..4 {
        every_length(bad_wire(seed), Pmtu::Mtu256, 16);
    }
}

/// READs into two to four pieces of any length and alignment, through a bad wire.
#[test]
fn a_read_into_several_pieces_fills_each_of_them_and_completes_once() {
    const READS: usize = 24;
    const PIECE: usize = 1500;
    let text = text();
    for seed in 11..13 {
        let text = text.clone();
        run(bad_wire(seed), Pmtu::Mtu256, 3, move |h, qp| {
            let mut r = Random::new(seed);
            let size = 4 * READS * PIECE;
            let mr = h.pd.alloc_mr(size, Access::LOCAL_WRITE)?;
            let mut expected = vec![0xee; size];
            mr.write(0, &expected);
            let (mut at, mut ids) = (0, vec![]);
            for id in 0..READS as u64 {
                let from = r.below((B_SIZE - 4 * PIECE) as u64) as usize;
                let (mut pieces, mut len) = (vec![], 0);
                for _ in 0..r.within(2, 4) {
                    let n = match r.below(4) {
                        0 => 0,
                        1 => r.below(10),
                        _ => r.below(PIECE as u64 - 8),
                    } as usize;
                    let to = at + r.below(8) as usize;
                    pieces.push(mr.slice(to..to + n)?);
                    expected[to..to + n].copy_from_slice(&text[from + len..from + len + n]);
                    len += n;
                    at = to + n;
                }
                let remote = h.remote.slice(from as u32..(from + len) as u32)?;
                let request = SendRequest::read(&pieces, remote).id(id);
                match id % 3 == 0 {
                    true => qp.post_send(&request.unsignaled())?,
                    false => {
                        qp.post_send(&request)?;
                        ids.push(id);
                    }
                }
                if id % 8 == 7 {
                    h.expect(ids.drain(..))?;
                }
            }
            let got = mr.to_vec(0..size);
            let wrong = got.iter().zip(&expected).position(|(a, b)| a != b);
            ensure!(wrong.is_none(), "seed {seed}: differs at byte {wrong:?}");
            ensure!(h.cq.poll_one()?.is_none(), "a completion too many");
            Ok(())
        });
    }
}
/// A piece that may not be written, the first, one in between or the last.
#[test]
fn a_read_into_several_pieces_fails_once_whichever_of_them_is_wrong() {
    let text = text();
    for wrong in 0..3 {
        let text = text.clone();
        run(PairConfig::default(), Pmtu::Mtu1024, 16, move |h, qp| {
            let mr = h.pd.alloc_mr(3000, Access::LOCAL_WRITE)?;
            let dead = h.pd.alloc_mr(1000, Access::LOCAL_WRITE)?;
            let room = qp.send_room();
            qp.post_send(&SendRequest::local_invalidate(dead.rkey()).unsignaled())?;
            let mut pieces = [0, 1, 2].map(|i| mr.slice(1000 * i..1000 * (i + 1)));
            pieces[wrong] = Ok(dead.all());
            let pieces = pieces.into_iter().collect::<Result<Vec<_>, _>>()?;
            let remote = h.remote.slice(0..3000)?;
            qp.post_send(&SendRequest::read(&pieces, remote).id(7))?;
            qp.post_send(&SendRequest::read(&pieces[2..], h.remote.slice(0..1000)?).id(8))?;
            for (id, status) in [(7, Status::LocProtErr), (8, Status::WrFlushErr)] {
                let w = h.cq.wait(LONG).map_err(|e| stuck(h.c, e))?;
                ensure!((w.id, w.status) == (id, status), "piece {wrong}: {w:?}");
            }
            // what is posted now is flushed: nothing else came before
            qp.post_send(&SendRequest::send(b"behind").id(9))?;
            let w = h.cq.wait(LONG).map_err(|e| stuck(h.c, e))?;
            ensure!((w.id, w.status) == (9, Status::WrFlushErr), "{w:?}");
            ensure!(qp.send_room() == room, "room for {}", qp.send_room());
            let n = 1000 * wrong;
            ensure!(mr.to_vec(0..n) == text[..n], "the pieces before are filled");
            Ok(())
        });
    }
}

#[test]
fn a_read_sees_the_write_before_it_and_a_fenced_write_what_the_read_before_it_brought() {
    const LEN: usize = 30_000;
    let data = payload(LEN, 8);
    let text = text();
    let (d, t) = (data.clone(), text.clone());
    let b = run(PairConfig::default(), Pmtu::Mtu1024, 16, move |h, qp| {
        let mr = h.pd.alloc_mr(3 * LEN, Access::LOCAL_WRITE)?;
        mr.write(0, &d);
        let (own, back, copy) = (
            mr.slice(0..LEN)?,
            mr.slice(LEN..2 * LEN)?,
            mr.slice(2 * LEN..3 * LEN)?,
        );
        let piece = |from: usize| h.remote.slice(from as u32..(from + LEN) as u32);
        qp.post_send(&SendRequest::write(&[own], piece(1)?).id(1))?;
        qp.post_send(&SendRequest::read(&[back], piece(1)?).id(2))?;
        qp.post_send(&SendRequest::read(&[copy], piece(40_000)?).id(3))?;
        qp.post_send(&SendRequest::write(&[copy], piece(80_000)?).fence().id(4))?;
        h.expect(1..=4)?;
        ensure!(
            mr.to_vec(LEN..2 * LEN) == d,
            "the READ came before the WRITE"
        );
        ensure!(mr.to_vec(2 * LEN..3 * LEN) == t[40_000..40_000 + LEN]);
        Ok(())
    });
    assert!(b[1..1 + LEN] == data, "the WRITE");
    assert!(
        b[80_000..80_000 + LEN] == text[40_000..40_000 + LEN],
        "the fence did not wait for the READ"
    );
}

/// Fetch-and-adds and compare-and-swaps on one number, between READs and WRITEs: each has its effect once, each brings the
/// value before it.
fn atomics(config: PairConfig) {
    const N: u64 = 40;
    const AT: usize = 4096;
    let start = u64::from_le_bytes(text()[AT..AT + 8].try_into().unwrap_or_default());
    let expected = Arc::new(std::sync::Mutex::new(start));
    let last = expected.clone();
    let b = run(config, Pmtu::Mtu256, 16, move |h, qp| {
        let mr = h.pd.alloc_mr(8 * N as usize + 8192, Access::LOCAL_WRITE)?;
        let number = h.remote.slice(AT as u32..AT as u32 + 8)?;
        let mut value = start;
        let mut before = vec![];
        for i in 0..N {
            before.push(value);
            let place = [mr.slice(3 + 8 * i as usize..11 + 8 * i as usize)?];
            let add = 0x0123_4567_89ab_cdef_u64.wrapping_mul(i + 1);
            let r = match i % 3 {
                0 => {
                    value = value.wrapping_add(add);
                    SendRequest::fetch_add(&place, number, add)
                }
                // equal: swapped
                1 => {
                    let r = SendRequest::compare_swap(&place, number, value, add);
                    value = add;
                    r
                }
                // not equal: left
                _ => SendRequest::compare_swap(&place, number, !value, add),
            };
            qp.post_send(&r.id(i))?;
            if i % 5 == 4 {
                let at = 4096 + 64 * i as usize;
                let piece = [mr.slice(at..at + 64)?];
                let remote = h.remote.slice(8192..8256)?;
                let r = if i % 2 == 0 {
                    SendRequest::read(&piece, remote)
                } else {
                    SendRequest::write(&piece, remote)
                };
                qp.post_send(&r.id(1000 + i))?;
            }
        }
        for i in 0..N {
            h.expect([i])?;
            if i % 5 == 4 {
                h.expect([1000 + i])?;
            }
        }
        for (i, want) in before.into_iter().enumerate() {
            let b = mr.to_vec(3 + 8 * i..11 + 8 * i);
            let got = u64::from_le_bytes(b.try_into().unwrap_or_default());
            ensure!(got == want, "atomic {i} brought {got:#x}, not {want:#x}");
        }
        if let Ok(mut v) = last.lock() {
            *v = value;
        }
        Ok(())
    });
    let got = u64::from_le_bytes(b[AT..AT + 8].try_into().unwrap_or_default());
    let want = expected.lock().map(|v| *v).unwrap_or_default();
    assert_eq!(got, want, "the number at the end");
}
#[test]
fn atomics_bring_the_old_value_and_have_their_effect_once() {
    atomics(PairConfig::default());
}
#[test]
fn atomics_have_their_effect_once_on_a_bad_wire_too() {
    for seed in 1..4 {
        atomics(bad_wire(seed));
    }
}
