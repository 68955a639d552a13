//! Receive WQEs of several pieces: every byte in its place, whatever the split.
use super::*;
use rocenic_testbench::Random;

/// A message of `len` bytes in packets of `pmtu`.
fn message(b: &mut Bench, psn: &mut u32, len: u64, pmtu: u64) {
    let n = len.div_ceil(pmtu).max(1);
    for k in 0..n {
        let part = if k + 1 < n { pmtu } else { len - pmtu * k };
        let o = match (k == 0, k + 1 == n) {
            (true, true) => op::SEND_ONLY,
            (true, false) => op::SEND_FIRST,
            (false, true) => op::SEND_LAST,
            _ => op::SEND_MIDDLE,
        };
        b.send(QPN, packet(o, *psn, part));
        *psn = (*psn + 1) & 0xff_ffff;
    }
}
/// Lengths that add up to `sum`; some are 0, some end with a packet.
fn split(r: &mut Random, count: usize, sum: u64) -> Vec<u64> {
    let mut ends: Vec<u64> = (1..count)
        .map(|_| match r.below(4) {
            0 => sum.min(256 * r.below(5)),
            _ => r.below(sum + 1),
        })
        .collect();
    ends.extend([0, sum]);
    ends.sort();
    ends.windows(2).map(|w| w[1] - w[0]).collect()
}
fn wqe(r: &mut Random, lengths: &[u64]) -> Rqe {
    let mut pieces = lengths
        .iter()
        .map(|len| (VA + r.below(SIZE - 8192), *len, RKEY));
    let (va, len, lkey) = pieces.next().unwrap();
    Rqe {
        va,
        len,
        lkey,
        more: pieces.collect(),
        unreadable: false,
    }
}

#[test]
fn messages_go_into_one_to_four_pieces_at_every_split() {
    for percent in [0, 40] {
        let mut b = one(256);
        b.pause(percent);
        let mut psn = PSN;
        for round in 0..30u64 {
            for i in 0..6 {
                let len = match (round + i) % 4 {
                    0 => b.r.below(9),
                    1 => 256 * b.r.below(5),
                    _ => b.r.below(1500),
                };
                let spare = if b.r.percent(50) { 0 } else { b.r.below(300) };
                let count = 1 + (round + i) as usize % 4;
                let lengths = split(&mut b.r, count, len + spare);
                let w = wqe(&mut b.r, &lengths);
                b.post(QPN, w);
                message(&mut b, &mut psn, len, 256);
                // between the parts of one QP, packets of nobody's receive WQE
                b.send(QPN, write(op::WRITE_ONLY, psn, 8, VA, RKEY, 8));
                psn = (psn + 1) & 0xff_ffff;
            }
            b.ring(QPN);
            b.check();
        }
        assert!(b.qps[&QPN].cqes.iter().all(|c| c.status == model::OK));
        assert_eq!(b.qps[&QPN].cqes.len(), 180);
    }
}

#[test]
fn pieces_of_one_byte_and_of_a_whole_packet_share_its_beats() {
    let mut b = one(4096);
    let mut psn = PSN;
    for lengths in [
        [1, 1, 1, 4093],
        [4093, 1, 1, 1],
        [64, 64, 64, 64],
        [57, 7, 63, 65],
        [0, 0, 0, 4096],
        [0, 5, 0, 9],
        [4096, 0, 0, 0],
        [2048, 2048, 4096, 4096],
    ] {
        let w = wqe(&mut b.r, &lengths);
        b.post(QPN, w);
        message(&mut b, &mut psn, lengths.iter().sum(), 4096);
    }
    b.ring(QPN);
    b.check();
    assert_eq!(b.qps[&QPN].cqes.len(), 8);
}

#[test]
fn long_pieces_end_where_their_sums_carry() {
    let mut b = one(4096);
    let mut psn = PSN;
    // the low halves of each two add up to 64 KiB and more
    for lengths in [
        [8, 8, 0x1_8000, 0x1_8001],
        [0x1_8000, 0x1_8001, 8, 8],
        [0x1_ffff, 1, 0xffff, 0x1_0002],
        [0xffff, 0xffff, 0xffff, 0xffff],
    ] {
        let pieces = lengths.map(|len| (VA + b.r.below(0x8_0000), len, RKEY));
        let w = Rqe {
            va: pieces[0].0,
            len: pieces[0].1,
            lkey: RKEY,
            more: pieces[1..].to_vec(),
            unreadable: false,
        };
        b.post(QPN, w);
        b.ring(QPN);
        message(&mut b, &mut psn, lengths.iter().sum(), 4096);
        b.check();
    }
    let done: Vec<u8> = b.qps[&QPN].cqes.iter().map(|c| c.status).collect();
    assert_eq!(done, [model::OK; 4]);
}

/// One message of 600 bytes into these pieces; how it ends.
fn ends(name: &str, w: Rqe, syndrome: u8, status: u8) {
    println!("{name}");
    let mut b = one(256);
    b.post(QPN, w);
    b.post(QPN, buffer(0, 64));
    b.ring(QPN);
    b.step(300);
    let mut psn = PSN;
    message(&mut b, &mut psn, 600, 256);
    b.send(QPN, packet(op::SEND_ONLY, psn, 64));
    b.check();
    let q = &b.qps[&QPN];
    assert_eq!(q.acks.last().unwrap().syndrome, syndrome, "{name}");
    assert_eq!(q.cqes[0].status, status, "{name}");
    b.put_in_error(QPN);
    b.check();
}

#[test]
fn too_little_room_or_a_wrong_key_in_any_piece_ends_the_message_and_nothing_behind_it_is_written() {
    let whole = |lengths: &[u64]| wqe(&mut Random::new(7), lengths);
    ends(
        "a byte short",
        whole(&[300, 100, 100, 99]),
        0x61,
        model::LEN_ERR,
    );
    ends("no room at all", whole(&[0, 0, 0, 0]), 0x61, model::LEN_ERR);
    for bad in 0..4 {
        let mut w = whole(&[100, 100, 100, 300]);
        match bad {
            0 => w.lkey ^= 1,
            n => w.more[n - 1].2 ^= 1,
        }
        ends(&format!("piece {bad}"), w, 0x63, model::PROT_ERR);
    }
    // the list ends at the first end mark; lengths add up without wrap
    let mut w = whole(&[600, 10]);
    w.more[0] = (VA, 0xffff_ffff, 0x55);
    ends("longer than 2^32 in sum", w, 0x1f, model::OK);
}

#[test]
fn a_write_that_fails_in_one_part_fails_the_packet_once() {
    let mut b = one(256);
    let w = Rqe {
        len: 100,
        more: vec![(VA + 8192, 100, RKEY), (VA + 65536, 100, RKEY)],
        ..buffer(0, 100)
    };
    b.host.borrow_mut().write_errors.insert((IOVA + 8192) / 64);
    b.post(QPN, w.clone());
    b.post(QPN, w);
    b.ring(QPN);
    b.step(300);
    let h = b.header(QPN, &packet(op::SEND_ONLY, PSN, 240));
    b.host.borrow_mut().packets.push_back(h);
    b.want
        .push(vec![(IOVA, 100), (IOVA + 8192, 100), (IOVA + 65536, 40)]);
    b.settle();
    let s = b.seen();
    let (acks, cqes) = (&s.acks[&QPN], &s.cqes[&QPN]);
    assert_eq!((acks.len(), cqes.len()), (1, 1));
    assert_eq!(acks[0].field("syndrome"), 0x63);
    assert_eq!(cqes[0].field("status"), u64::from(model::FATAL));
}
