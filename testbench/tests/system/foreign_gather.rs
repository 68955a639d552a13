//! Messages of several pieces, as a responder that is not ours sees them.
use super::foreign::{Path, SIZE, psns, run};
use super::pair::payload;
use rocenic_driver::*;
use rocenic_testbench::responder::Plan;

/// Lengths of a message's pieces.
type Lens = &'static [usize];
const MESSAGES: [Lens; 12] = [
    &[1, 1],
    &[63, 66],
    &[300, 212],
    &[512, 512],
    &[0, 40],
    &[2000, 1],
    &[1, 2, 3],
    &[512, 1, 511],
    &[700, 0, 900],
    &[33, 1, 65, 9],
    &[1024, 511, 1, 1500],
    &[1, 3000, 0, 2],
];

/// Each message as a WRITE and as a SEND, from pieces that lie apart at odd addresses.
fn gathered(plans: &[(u32, Plan, u32)]) -> Option<Vec<u32>> {
    let path = Path {
        pmtu: Pmtu::Mtu512,
        psn: 0xff_fff8,
        // long enough for what is only taken because it was asked for again
        timeout: 2,
        ..Path::default()
    };
    let text = payload(SIZE, rocenic_testbench::Random::seed(7));
    let mut expected = vec![0; SIZE];
    let mut sends = vec![];
    let mut to = 1;
    let mut places = vec![];
    for (i, lens) in MESSAGES.iter().enumerate() {
        let mut message = vec![];
        let mut at = 4099 * i % 20_000;
        let mut pieces = vec![];
        for len in *lens {
            pieces.push(at..at + len);
            message.extend(&text[at..at + len]);
            at += len + 77;
        }
        expected[to..to + message.len()].copy_from_slice(&message);
        places.push((pieces, to, message.len()));
        to += message.len() + 3;
        sends.push(message);
    }
    let data = text.clone();
    let mut r = run(path, plans, move |h, mut qp| {
        let mr = h.pd.alloc_mr(SIZE, Access::NONE)?;
        mr.write(0, &data);
        for (i, (pieces, to, len)) in places.into_iter().enumerate() {
            let pieces = pieces.into_iter().map(|p| mr.slice(p));
            let pieces: Vec<Sge> = pieces.collect::<std::result::Result<_, _>>()?;
            let remote = h.remote.slice(to as u32..(to + len) as u32)?;
            let id = 2 * i as u64;
            qp.post_send(&SendRequest::write(&pieces[..], remote).id(id))?;
            qp.post_send(&SendRequest::send(&pieces[..]).id(id + 1))?;
            if i % 3 == 2 {
                for id in id - 4..=id + 1 {
                    h.expect(id, Status::Success)?;
                }
            }
        }
        Ok(())
    })?;
    assert!(r.memory() == expected, "the responder's memory differs");
    assert!(r.sends() == sends, "the SENDs differ");
    Some(psns(&r))
}

#[test]
fn messages_of_several_pieces_arrive_at_every_split() {
    let Some(psns) = gathered(&[]) else { return };
    let want: Vec<u32> = (0..psns.len() as u32)
        .map(|i| (0xff_fff8 + i) & 0xff_ffff)
        .collect();
    assert_eq!(psns, want);
}
#[test]
fn a_gathered_message_is_gone_on_with_from_any_packet() {
    // every third packet is lost once, or refused
    let plans: Vec<_> = (0..30)
        .map(|k| {
            let plan = if k % 2 == 0 {
                Plan::Sequence
            } else {
                Plan::Drop
            };
            ((0xff_fff8 + 3 * k + 1) & 0xff_ffff, plan, 1)
        })
        .collect();
    let Some(psns) = gathered(&plans) else { return };
    for (psn, plan, _) in plans {
        let times = psns.iter().filter(|p| **p == psn).count();
        assert!(
            times != 1,
            "{psn:#x} was planned to {plan:?} and came once: {psns:x?}"
        );
    }
}
