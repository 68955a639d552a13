//! `host::Flr`: when the device may be cleared.
use rocenic_hdl::host::flr::Flr;
use rocenic_testbench::Dut;

/// Cycles from the choice of a packet to its first beat at the MAC, at most (`roce::Transmit`).
const WAY: u64 = 10;
/// Cycles the reset is held.
const HELD: u64 = 16;
/// Cycles within which everything has happened.
const LONG: u64 = 100;

#[test]
fn a_reset_waits_for_frames_that_are_on_their_way_and_for_the_bus() {
    let mut d = Dut::new(Flr::default());
    d.reset();
    let mut r = d.random("frames");
    for round in 0..200 {
        d.set("master", 1);
        d.set("mac_idle", 1);
        d.set("bus_idle", 1);
        d.steps(r.below(20));
        assert_eq!((d.get("stop"), d.get("clear")), (0, 0), "round {round}");
        d.set("req", 1);
        d.step();
        assert_eq!(
            d.get("draining"),
            1,
            "round {round}: frames may still begin"
        );
        assert_eq!(d.get("stop"), 1, "round {round}");
        // frames that were chosen before follow each other, each within the way of the one before
        for _ in 0..r.below(4) {
            d.steps(r.below(WAY));
            d.set("mac_idle", 0);
            for _ in 0..r.within(1, 80) {
                assert_eq!(d.get("clear"), 0, "round {round}: cleared inside a frame");
                d.step();
            }
            d.set("mac_idle", 1);
        }
        let bus = r.below(100);
        d.set("bus_idle", u64::from(bus == 0));
        for n in 0..=WAY.max(bus) {
            assert_eq!(d.get("clear"), 0, "round {round}: cleared after {n} cycles");
            d.set("bus_idle", u64::from(n >= bus));
            d.step();
        }
        d.run_until(LONG, "the reset begins", |d| d.get("clear") == 1);
        let held = d.run_until(LONG, "the reset ends", |d| d.get("clear") == 0);
        assert_eq!(held, HELD, "round {round}: cycles of the reset");
        assert_eq!(d.get("done"), 1, "round {round}: not done behind the reset");
        d.set("req", 0);
        d.steps(2);
        assert_eq!((d.get("done"), d.get("stop")), (0, 0), "round {round}");
    }
}
