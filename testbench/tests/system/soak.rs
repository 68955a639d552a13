//! Two episodes of the campaign (`cargo xtask soak` runs a million packets).
use rocenic_testbench::Random;
use rocenic_testbench::soak::{State, table};

/// Episodes that take some seconds together.
const EPISODES: u64 = 2;

#[test]
fn mixed_messages_through_faults_arrive_complete_and_in_order_as_the_model_says() {
    let mut s = State::new(Random::seed(1));
    for _ in 0..EPISODES {
        s.step(&super::library());
        eprintln!("{} packets, {} failures", s.packets, s.failures.len());
    }
    eprint!("{}", table(&s));
    assert!(s.failures.is_empty(), "{:#?}", s.failures);
    assert!(s.packets > 1_000 * EPISODES, "{} packets", s.packets);
}
