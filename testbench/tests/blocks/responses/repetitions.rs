//! Repetitions that newer READs overtake.
use super::*;

/// A peer that asks again for READ 0 and, before the repetition has gone, for a 17th READ: it has had the first 16
/// answers, what it asks for again is a straggler. The new READ has the place of READ 0.
#[test]
fn a_read_that_takes_the_place_of_one_that_is_being_repeated_ends_the_repetition_and_is_answered() {
    /// More than the turns that transmit takes while it stands still.
    const LONG: u32 = 100;
    // the last one asked for again
    for to in [0, 1, 2, 4, 6, 10, 14, 15] {
        let mut lengths = [600; 18];
        lengths[0] = LONG * PMTU;
        let all = reads(0xff_ffd0, &lengths);
        let mut b = Bench::new();
        b.create(9);
        all[..16].iter().for_each(|r| b.read(9, *r));
        assert_eq!(b.got(9), whole(&all[..16]));

        b.tx.set_pause(Pause::Always);
        all[..=to].iter().for_each(|r| b.again(9, r.psn));
        (0..300).for_each(|_| b.step());
        b.read(9, all[16]);
        (0..100).for_each(|_| b.step());
        b.tx.set_pause(Pause::Never);
        // not until nothing comes any more: that might be never
        (0..4000).for_each(|_| b.step());
        let got = b.got.remove(&9).unwrap_or_default();
        let new = got.iter().position(|p| p.psn == all[16].psn);
        let new = new.unwrap_or_else(|| panic!("to {to}: the new READ is not answered: {got:?}"));
        assert!((1..LONG as usize).contains(&new), "to {to}: {new} packets");
        assert_eq!(got[..new], all[0].from(0)[..new], "to {to}");
        assert_eq!(got[new..], all[16].from(0), "to {to}");

        // the others are still known
        b.again(9, all[15].psn + 1);
        b.read(9, all[17]);
        let mut want = all[15].from(1);
        want.extend(all[17].from(0));
        assert_eq!(b.got(9), want, "to {to}: what comes behind");
    }
}
