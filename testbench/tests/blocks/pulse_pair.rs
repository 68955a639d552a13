//! `host::PulsePair`
use rocenic_hdl::host::pulse_pair::PulsePair;
use rocenic_testbench::Dut;

#[test]
fn pulses_of_two_sources_in_one_cycle_are_both_counted() {
    let mut d = Dut::new(PulsePair::default());
    d.reset();
    let mut r = d.random("pulses");
    let (mut sent, mut got) = (0, 0);
    for n in 0..4000 {
        let go = n < 3900;
        let (a, b) = (
            u64::from(go && r.percent(45)),
            u64::from(go && r.percent(45)),
        );
        d.set("a", a);
        d.set("b", b);
        sent += a + b;
        got += d.get("o");
        d.step();
    }
    assert_eq!(got, sent);
}
