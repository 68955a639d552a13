//! `rocenic sim serve` and `rocenic devinfo` as a user meets them.
mod common;
use common::{Sim, run, text};

#[track_caller]
fn refuses(args: &[&str], why: &[&str]) {
    let o = run(args);
    assert_eq!(o.status.code(), Some(2), "{}", text(&o.stderr));
    let err = text(&o.stderr);
    for w in why {
        assert!(err.contains(w), "`{w}` is not in: {err}");
    }
}

#[test]
fn devinfo_tells_what_a_served_nic_can_and_again_after_the_simulator_was_killed() {
    let base = Sim::base("devinfo");
    for round in 0..2 {
        // the second one finds the sockets of the first
        let mut sim = Sim::start_at(&base, &["--nics", "2"]);
        for n in 0..2 {
            let o = run(&["devinfo", sim.device(n)]);
            assert!(o.status.success(), "round {round}: {}", text(&o.stderr));
            let out = text(&o.stdout);
            for want in ["SEND WRITE", "queue pairs         1024", "250 MHz"] {
                assert!(out.contains(want), "`{want}` is not in: {out}");
            }
        }
        let device = sim.device(0).to_owned();
        sim.kill();
        refuses(
            &["devinfo", &device],
            &["nobody serves", "rocenic sim serve"],
        );
        if round == 0 {
            std::mem::forget(sim);
        }
    }
}

#[test]
fn wrong_addresses_and_options_are_told_with_what_to_do() {
    refuses(&["devinfo", "/dev/nic"], &["vfio-user:PATH"]);
    refuses(
        &["devinfo", "vfio-user:/no/such/socket"],
        &["there is no socket"],
    );
    let none = ["devinfo", "vfio:ffff:ff:1f.7"];
    refuses(&none, &["no such PCI device", "lspci"]);
    let pcap = ["sim", "serve", "--socket", "x", "--pcap", "y"];
    refuses(&pcap, &["--nics 2"]);
    let drop = ["sim", "serve", "--socket", "x", "--drop", "101"];
    refuses(&drop, &["0 to 100"]);
    let nowhere = ["sim", "serve", "--socket", "/no/such/directory/nic"];
    refuses(&nowhere, &["cannot serve /no/such/directory/nic"]);
}
