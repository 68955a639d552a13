//! The executor's promises: order, time, cancellation, the watchdog's report.
use rocenic_hdl::prim::Fifo;
use rocenic_testbench::Dut;
use rocenic_testbench::bfm::Pause;
use rocenic_testbench::dut::PERIOD;
use rocenic_testbench::exec::{Either, Queue, select};
use rust_hdl_core::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

type Fifo8 = Fifo<Bits<8>, 4, 5>;

fn dut() -> Dut {
    let mut dut = Dut::new(Fifo8::default());
    dut.reset();
    dut
}

#[test]
fn tasks_woken_by_one_edge_run_in_the_order_they_began_to_wait() {
    let mut dut = dut();
    let log = Rc::new(RefCell::new(vec![]));
    for name in ["a", "b", "c"] {
        let (clock, log) = (dut.clock(), log.clone());
        dut.sim().spawn(name, async move {
            for _ in 0..3 {
                clock.rising_edge().await;
                log.borrow_mut().push(name);
            }
        });
    }
    dut.steps(5);
    assert_eq!(log.borrow().concat(), "abcabcabc");
}

#[test]
fn time_and_cycles_agree_and_a_timeout_fires_when_it_should() {
    let mut dut = dut();
    let (sim, clock) = (dut.sim(), dut.clock());
    let never: Queue<()> = Queue::new(&sim, "never");
    dut.run(async {
        let (t, c) = (sim.now(), clock.count());
        clock.cycles(10).await;
        assert_eq!(clock.count() - c, 10);
        // the first of the ten edges came half a period after `t`
        assert_eq!(sim.now() - t, 10 * PERIOD - PERIOD / 2);
        let t = sim.now();
        assert_eq!(sim.timeout(7 * PERIOD, never.pop()).await, None);
        assert_eq!(sim.now() - t, 7 * PERIOD);
        assert_eq!(sim.timeout(9 * PERIOD, clock.cycles(2)).await, Some(()));
    });
}

#[test]
fn dropped_timeouts_wake_nobody_and_leave_no_timer() {
    let mut dut = dut();
    let (sim, clock) = (dut.sim(), dut.clock());
    dut.run(async {
        for _ in 0..5000 {
            let long = sim.timeout(1_000_000 * PERIOD, clock.rising_edge());
            assert_eq!(long.await, Some(()));
        }
    });
    assert_eq!(sim.next_timer(), None);
}

#[test]
fn select_takes_the_left_side_of_two_that_are_ready_and_drops_the_other() {
    let mut dut = dut();
    let (sim, clock) = (dut.sim(), dut.clock());
    let q = Queue::new(&sim, "q");
    dut.run(async {
        q.push(1);
        assert_eq!(select(q.pop(), clock.rising_edge()).await, Either::Left(1));
        assert_eq!(select(clock.rising_edge(), q.pop()).await, Either::Left(()));
        // the abandoned `pop` took nothing
        q.push(2);
        assert_eq!(q.pop().await, 2);
    });
}

#[test]
fn a_joined_task_gives_its_value() {
    let mut dut = dut();
    let (sim, clock) = (dut.sim(), dut.clock());
    let task = sim.spawn("sum", async move {
        clock.cycles(3).await;
        clock.count()
    });
    assert!(dut.run(task) >= 3);
}

#[test]
#[should_panic(expected = "test: waits for an item of `o`")]
fn the_watchdog_says_who_waits_for_what() {
    let mut dut = dut();
    let sink = dut.sink::<Bits<8>>("o");
    dut.set_watchdog(100);
    dut.run(sink.recv());
}

#[test]
#[should_panic(expected = "`o_valid` fell before `ready`")]
fn a_sink_notices_valid_that_does_not_hold() {
    // a FIFO in reset forgets what it offers
    let mut dut = dut();
    let source = dut.source::<Bits<8>>("i");
    let _sink = dut.sink_paused::<Bits<8>>("o", Pause::Always);
    source.send(&1.into());
    dut.steps(6);
    dut.set("reset", 1);
    dut.steps(3);
}

#[test]
fn one_seed_gives_one_run() {
    let run = |seed: u64| {
        let mut dut = dut();
        let source = dut.source_paused::<Bits<8>>("i", Pause::bursts(seed, 5, 9));
        let sink = dut.sink_paused::<Bits<8>>("o", Pause::random(seed + 1, 40));
        (0..200u64).for_each(|w| source.send(&w.into()));
        dut.run(async {
            let mut cycles = vec![];
            for _ in 0..200 {
                cycles.push(sink.recv().await.cycle);
            }
            cycles
        })
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
