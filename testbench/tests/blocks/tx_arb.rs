//! `roce::TxArb`
use crate::beats::{recv_frame, same, send_frame};
use rocenic_contract::{opcode, syndrome};
use rocenic_hdl::cfg::QP_W;
use rocenic_hdl::roce::TxArb;
use rocenic_hdl::types::*;
use rocenic_testbench::bfm::{ChannelSink, ChannelSource, Pause};
use rocenic_testbench::{Dut, Value};
use rust_hdl_core::prelude::*;

struct Bench {
    dut: Dut,
    data: ChannelSource<TxReady>,
    d: ChannelSource<Beat>,
    ack: ChannelSource<TxReady>,
    epoch: ChannelSource<EpochSet>,
    tx: ChannelSink<TxReady>,
    p: ChannelSink<Beat>,
    unasked: ChannelSink<AckIn>,
}
fn bench() -> Bench {
    let mut dut = Dut::new(TxArb::default());
    let mut b = Bench {
        data: dut.source("data"),
        d: dut.source("d"),
        ack: dut.source("ack"),
        epoch: dut.source("epoch"),
        tx: dut.sink("tx"),
        p: dut.sink("p"),
        unasked: dut.sink("unasked"),
        dut,
    };
    b.dut.reset();
    // the epoch table is being cleared
    b.dut.steps((1 << QP_W) + 2);
    b
}
fn packet(qpn: u64, epoch: u64, psn: u64, len: usize) -> TxReady {
    TxReady {
        pkt: TxPkt {
            qpn: bits(qpn),
            epoch: bits(epoch),
            psn: bits(psn),
            payload_len: bits(len as u64),
            ..TxPkt::default()
        },
        offset: bits(psn % 64),
    }
}
fn psn(t: &Value<TxReady>) -> u64 {
    t.field("pkt.psn")
}

#[test]
fn stale_packets_go_with_their_beats_and_the_others_keep_order_and_payload() {
    let mut b = bench();
    let mut r = b.dut.random("packets");
    let last = (1 << QP_W) - 1;
    let mut epochs = [(1, 0), (2, 0), (last, 0), (517, 0)];
    for round in 0..40 {
        b.data
            .set_pause(Pause::random(r.next_u64(), [0, 40][round % 2]));
        b.d.set_pause(Pause::random(r.next_u64(), [0, 50, 20][round % 3]));
        b.tx.set_pause(Pause::random(r.next_u64(), [0, 0, 60][round % 3]));
        b.p.set_pause(Pause::random(r.next_u64(), [0, 60][round / 2 % 2]));
        let k = r.below(4) as usize;
        epochs[k].1 = (epochs[k].1 + r.below(3)) & 0xff;
        b.epoch.send(&EpochSet {
            qpn: bits(epochs[k].0),
            epoch: bits(epochs[k].1),
        });
        b.dut.steps(5);
        let mut want = vec![];
        for n in 0..30 {
            let (qpn, now) = epochs[r.below(4) as usize];
            let epoch = if r.percent(40) {
                now.wrapping_sub(1 + r.below(3)) & 0xff
            } else {
                now
            };
            let len = if r.percent(30) {
                0
            } else {
                r.within(1, 400) as usize
            };
            let (t, payload) = (packet(qpn, epoch, n, len), r.bytes(len));
            b.data.send(&t);
            if len > 0 {
                send_frame(&b.d, &payload);
            }
            if epoch == now {
                want.push((t, payload));
            }
        }
        let (tx, p) = (&b.tx, &b.p);
        b.dut.run(async {
            for (t, payload) in &want {
                tx.recv().await.expect(t);
                if !payload.is_empty() {
                    same(&recv_frame(p).await.bytes, payload, "payload");
                }
            }
        });
    }
    b.dut.steps(200);
    assert!(
        b.tx.is_empty() && b.p.is_empty(),
        "a stale packet came through"
    );
}

#[test]
fn a_packet_that_waits_dies_when_its_epoch_changes_and_is_counted_once() {
    let mut b = bench();
    b.tx.set_pause(Pause::Always);
    // two fill the output, one the look-up stage; the fourth waits outside
    for n in 0..4 {
        b.data.send(&packet(9, 0, n, 0));
    }
    b.dut.steps(10);
    b.epoch.send(&EpochSet {
        qpn: bits(9),
        epoch: bits(1),
    });
    let mut dropped = 0;
    for _ in 0..20 {
        b.dut.step();
        dropped += b.dut.get("dropped");
    }
    b.tx.set_pause(Pause::Never);
    for _ in 0..20 {
        b.dut.step();
        dropped += b.dut.get("dropped");
    }
    for n in 0..2 {
        assert_eq!(
            psn(&b.tx.try_recv().expect("the packets already chosen")),
            n
        );
    }
    assert!(b.tx.is_empty(), "a stale packet came through");
    assert_eq!(dropped, 2);
}

#[test]
fn acknowledgements_and_data_take_turns_and_acknowledgements_have_no_epoch() {
    let mut b = bench();
    b.epoch.send(&EpochSet {
        qpn: bits(3),
        epoch: bits(7),
    });
    b.dut.steps(3);
    for n in 0..50 {
        b.data.send(&packet(3, 7, n, 0));
        b.ack.send(&packet(3, 0, 1000 + n, 0));
    }
    b.dut.steps(10);
    let tx = &b.tx;
    let got = b.dut.run(async {
        let mut got = vec![];
        for _ in 0..100 {
            let t = tx.recv().await;
            got.push((psn(&t), t.cycle));
        }
        got
    });
    let acks: Vec<u64> = got.iter().map(|g| g.0).filter(|p| *p >= 1000).collect();
    assert!(
        acks.iter().copied().eq(1000..1050),
        "acknowledgements out of order: {acks:?}"
    );
    // after the first ones, when both sides wait
    for w in got[4..96].windows(2) {
        assert_ne!(
            w[0].0 >= 1000,
            w[1].0 >= 1000,
            "two of one kind in a row: {w:?}"
        );
        assert_eq!(w[1].1 - w[0].1, 1, "a cycle without a packet: {w:?}");
    }
}

#[test]
fn nothing_is_chosen_while_held_and_nothing_is_lost() {
    let mut b = bench();
    b.dut.set("hold", 1);
    for n in 0..20 {
        b.data.send(&packet(3, 0, n, 0));
        b.ack.send(&packet(3, 0, 1000 + n, 0));
    }
    b.dut.steps(100);
    assert!(b.tx.is_empty(), "{} packets while held", b.tx.len());
    b.dut.set("hold", 0);
    b.dut.steps(100);
    assert_eq!(b.tx.len(), 40);
}

#[test]
fn packets_of_unreliable_connections_that_would_ask_tell_once_that_they_have_left() {
    let mut b = bench();
    let mut r = b.dut.random("unasked");
    let stale = 4;
    b.epoch.send(&EpochSet {
        qpn: bits(stale),
        epoch: bits(1),
    });
    b.dut.steps(5);
    for round in 0..12 {
        // back-pressure, in the last rounds such that it stops the packets for a while
        let blocked = round >= 8;
        b.unasked.set_pause(match blocked {
            true => Pause::Always,
            false => Pause::random(r.next_u64(), [0, 50, 90][round % 3]),
        });
        b.tx.set_pause(Pause::random(r.next_u64(), [0, 40][round % 2]));
        let (mut left, mut told) = (vec![], vec![]);
        for n in 0..60 {
            let qpn = r.within(3, 6);
            let unreliable = r.percent(60);
            let mut t = packet(qpn, 0, n, 0);
            t.pkt.opcode = bits(match unreliable {
                true => opcode::UC_SEND_ONLY,
                false => opcode::RC_SEND_ONLY,
            });
            t.pkt.ack_req = r.percent(70);
            b.data.send(&t);
            if qpn == stale {
                continue;
            }
            left.push(n);
            if unreliable && t.pkt.ack_req {
                told.push((qpn, n));
            }
        }
        b.dut.steps(1000);
        if blocked {
            assert!(b.tx.len() < left.len(), "more leave than can be told");
            b.unasked.set_pause(Pause::Never);
            b.dut.steps(1000);
        }
        let sent: Vec<u64> = std::iter::from_fn(|| b.tx.try_recv())
            .map(|t| psn(&t))
            .collect();
        assert_eq!(sent, left, "round {round}");
        let said = std::iter::from_fn(|| b.unasked.try_recv());
        let said: Vec<_> = said
            .map(|a| {
                assert_eq!(
                    (a.field("own"), a.field("syndrome")),
                    (1, syndrome::ACK.into())
                );
                (a.field("qpn"), a.field("psn"))
            })
            .collect();
        assert_eq!(said, told, "round {round}");
    }
}
