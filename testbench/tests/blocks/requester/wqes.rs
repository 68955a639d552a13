//! Doorbells and pushes that are wrong or come late, and WQEs of which a part is still to come.
use super::*;

#[test]
fn a_message_waits_for_its_second_block_and_lets_others_go_on() {
    let mut b = Bench::new();
    b.open(70, |_| ());
    b.open(71, |_| ());
    // behind seven others the first block ends the turn
    for before in [0, 7, 3] {
        for _ in 0..before {
            simple(&mut b, 70, Write, 10);
        }
        let w = b.gather(70, Send, &[10, 20, 30], SIGNALED);
        let first = b.post(70, w);
        b.bell_value(70, first + 1);
        b.steps(3000);
        assert_eq!(b.qps[&70].messages, first, "without its second block");
        simple(&mut b, 71, Write, 5000);
        b.bell(71);
        b.until(3000, "the other", |b| {
            b.qps[&71].cqes.len() == b.qps[&71].posted.len()
        });
        b.bell(70);
        b.until(5000, "the message", |b| b.idle());
    }
    b.all_good();
}

#[test]
fn impossible_doorbells_are_refused_and_pushes_fall_back_to_the_ring() {
    let mut b = Bench::new();
    b.open(30, |c| c.sq_log2 = 4.into());
    b.bell_value(30, 17);
    b.bell_value(30, 0xffff);
    b.bell_value(31, 1); // no such QP
    b.steps(200);
    assert_eq!(b.count(Counter::DoorbellBadValue), 3);
    assert_eq!(b.read_requests, 0);
    let page = b.qps[&30].cfg.db_page.to_u64();
    for _ in 0..5 {
        simple(&mut b, 30, Send, 32);
    }
    b.push(30, 0, true, page + 1); // another page
    b.steps(200);
    assert_eq!(b.count(Counter::DoorbellBadPage), 1);
    assert_eq!(b.qps[&30].sent, 0);
    b.push(30, 0, true, page);
    b.push(30, 1, true, page);
    b.steps(20);
    assert_eq!((b.count(Counter::PushAccepted), b.read_requests), (2, 0));
    b.push(30, 2, false, page); // torn
    b.steps(20);
    b.push(30, 4, true, page); // overtakes number 3
    b.push(30, 3, true, page);
    b.until(5000, "five messages", |b| b.idle());
    assert_eq!(b.count(Counter::PushFallback), 3);
    for _ in 0..16 {
        simple(&mut b, 30, Send, 32);
    }
    b.bell(30); // a full ring
    b.until(5000, "a ringful", |b| b.idle());
    b.bell_value(30, 20);
    b.steps(300);
    b.all_good();
    assert_eq!(b.count(Counter::DoorbellBadValue), 4);
}

#[test]
fn a_doorbell_that_a_later_push_overtakes_is_no_wrong_one() {
    let mut b = Bench::new();
    b.open(30, |c| c.sq_log2 = 4.into());
    let page = b.qps[&30].cfg.db_page.to_u64();
    for _ in 0..4 {
        simple(&mut b, 30, Send, 32);
    }
    b.push(30, 3, true, page);
    b.bell_value(30, 3);
    b.bell_value(30, 2);
    b.until(5000, "four messages", |b| b.idle());
    b.all_good();
    assert_eq!(b.count(Counter::DoorbellBadValue), 0);
    b.bell_value(30, 3); // all are complete: nothing can be posted there any more
    b.steps(200);
    assert_eq!(b.count(Counter::DoorbellBadValue), 1);
}

#[test]
fn only_the_last_packet_of_a_solicited_send_or_write_says_so() {
    let cases = [
        (Send, 900),
        (SendImm, 900),
        (SendInv, 900),
        (WriteImm, 900),
        (SendImm, 100),
        (WriteImm, 0),
        (Read, 900),
        (Read, 100),
        (AtomicCas, 8),
        (AtomicFaa, 8),
    ];
    for (how, len) in cases {
        for flags in [SIGNALED, SIGNALED | SOLICITED] {
            let mut b = Bench::new();
            b.keep_log = true;
            b.open(5, |c| c.max_rd_atomic = 4.into());
            let w = b.work(5, how, len, flags);
            b.post(5, w);
            b.bell(5);
            b.until(5000, "its completion", |b| b.qps[&5].cqes.len() == 1);
            let answered = matches!(how, Read | AtomicCas | AtomicFaa);
            let packets = match len.div_ceil(b.qps[&5].pmtu) {
                _ if answered => 1,
                n => n.max(1) as usize,
            };
            let mut want = vec![false; packets];
            want[packets - 1] = flags & SOLICITED != 0 && !answered;
            let said: Vec<bool> = b.log.iter().map(|p| p.solicited).collect();
            assert_eq!(said, want, "{how:?} of {len} bytes, flags {flags:#x}");
        }
    }
}
