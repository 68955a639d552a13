//! The budgets that every change must keep, by short runs: the benchmark measures all of them, and longer.
use crate::library;
use rocenic_driver::Pmtu;
use rocenic_sim::nic::Pace;
use rocenic_testbench::bench::measure::{Op, pushed_to_mac, read_to_header, transmit};
use rocenic_testbench::bench::rig::Setup;
use rocenic_testbench::bench::{icrc_insert, long, read_rate};

#[test]
fn long_writes_on_one_queue_pair_leave_at_62_bytes_a_cycle() {
    let r = transmit(
        &library(),
        &Setup::default(),
        &long(Op::Write, Pmtu::Mtu4096, 512),
    )
    .unwrap_or_else(|e| panic!("{e:#}"));
    let rate = r.bytes_per_cycle();
    assert!(
        rate >= 62.0,
        "{rate:.2} payload B/cycle; ideal {:.2}",
        r.ideal_bytes_per_cycle()
    );
}

#[test]
fn long_writes_fill_a_100_gigabit_line() {
    let setup = Setup {
        pace: Pace::GBE100,
        ..Setup::default()
    };
    let r = transmit(&library(), &setup, &long(Op::Write, Pmtu::Mtu4096, 512))
        .unwrap_or_else(|e| panic!("{e:#}"));
    let share = r.bytes_per_cycle() / r.line_bytes_per_cycle();
    assert!(share >= 0.99, "{:.2} % of the line", share * 100.0);
}

#[test]
fn long_reads_between_two_nics_fill_97_percent_of_a_100_gigabit_line() {
    let (rate, ideal) = read_rate(&library(), 50).unwrap_or_else(|e| panic!("{e:#}"));
    let share = rate / ideal;
    assert!(share >= 0.97, "{rate:.2} of {ideal:.2} payload B/cycle");
    eprintln!("{:.2} % of the line", share * 100.0);
}

#[test]
fn a_pushed_message_is_at_the_mac_within_40_cycles() {
    let s = pushed_to_mac(&library(), 16).unwrap_or_else(|e| panic!("{e:#}"));
    assert!(s.most <= 40, "{s:?}");
}

#[test]
fn a_header_leaves_within_20_cycles_of_the_last_payload_beat() {
    let s = read_to_header(&library(), 16).unwrap_or_else(|e| panic!("{e:#}"));
    assert!(s.most <= 20, "{s:?}");
}

#[test]
fn the_icrc_costs_at_most_four_cycles() {
    let (latency, pace) = icrc_insert().unwrap_or_else(|e| panic!("{e:#}"));
    assert!(
        latency <= 4.0 && pace <= 1.0,
        "{latency} cycles, {pace} cycles a beat"
    );
}
