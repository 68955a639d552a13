//! `host::Counters`
use rocenic_contract::counters::{COUNT, index};
use rocenic_hdl::host::counters::{AW, Counters};
use rocenic_testbench::Dut;

#[test]
fn no_pulse_and_no_byte_is_lost_at_any_rate_and_carries_go_through() {
    let mut d = Dut::new(Counters::default());
    d.reset();
    d.steps((1 << AW) + 5);
    let mut r = d.random("pulses");
    let mut want = [0u64; COUNT];
    // long enough for the byte counters to carry out of their lowest third
    for cycle in 0..70_000 {
        let mut words = [0u64; COUNT.div_ceil(64)];
        let mut pulse = |i: usize, on: bool| {
            words[i / 64] |= u64::from(on) << (i % 64);
            want[i] += u64::from(on);
        };
        for i in 0..COUNT {
            let bytes = i == index::RX_BYTES || i == index::TX_BYTES;
            // the first ones in every cycle, the others now and then, some never
            let on = match i % 4 {
                0 => true,
                1 => r.percent(30),
                2 => cycle == 3000,
                _ => false,
            };
            pulse(i, on && !bytes);
        }
        let (rx, tx) = (if r.percent(90) { 64 } else { r.below(65) }, r.below(65));
        d.set_words("pulses", &words);
        d.set("rx_bytes", rx);
        d.set("tx_bytes", tx);
        want[index::RX_BYTES] += rx;
        want[index::TX_BYTES] += tx;
        d.step();
    }
    d.set_words("pulses", &[0; COUNT.div_ceil(64)]);
    d.set("rx_bytes", 0);
    d.set("tx_bytes", 0);
    d.steps((1 << AW) + 5);
    for (i, want) in want.into_iter().enumerate() {
        d.set("raddr", i as u64);
        d.step();
        assert_eq!(d.get("rdata"), want, "counter {i}");
    }
}
