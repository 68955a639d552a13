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

/// Every command, as `--help` lists them.
fn commands() -> Vec<Vec<String>> {
    let of = |args: &[&str]| -> Vec<String> {
        let o = run(&[args, &["--help"]].concat());
        assert_eq!(o.status.code(), Some(0));
        let help = text(&o.stdout);
        let lines = help.lines().skip_while(|l| *l != "Commands:").skip(1);
        let names = lines.take_while(|l| !l.is_empty());
        names
            .filter_map(|l| l.strip_prefix("  ")?.split_whitespace().next())
            .filter(|n| *n != "help")
            .map(str::to_owned)
            .collect()
    };
    let (top, sims) = (of(&[]), of(&["sim"]));
    assert!(top.len() > 10 && !sims.is_empty(), "{top:?} {sims:?}");
    let below = sims.into_iter().map(|s| vec!["sim".to_owned(), s]);
    let top = top.into_iter().filter(|n| n != "sim").map(|n| vec![n]);
    top.chain(below).collect()
}

#[test]
fn the_help_of_every_command_has_an_example_that_begins_with_it() {
    let all = run(&["--help"]);
    let help = text(&all.stdout);
    assert!(
        help.contains("Exit status:") && help.contains("Examples"),
        "{help}"
    );
    for c in commands() {
        let args: Vec<&str> = c.iter().map(String::as_str).chain(["--help"]).collect();
        let help = text(&run(&args).stdout);
        let example = format!("\n  rocenic {}", c.join(" "));
        assert!(
            help.contains("Example") && help.contains(&example),
            "{help}"
        );
    }
}

#[test]
fn the_exit_status_is_what_the_help_says() {
    let sim = Sim::start_at(&Sim::base("status"), &[]);
    let status = |args: &[&str]| run(args).status.code();
    assert_eq!(status(&["devinfo", sim.device(0)]), Some(0));
    assert_eq!(status(&["--version"]), Some(0));
    // an error, options that make no sense, no command
    assert_eq!(status(&["devinfo", "vfio-user:/no/such"]), Some(2));
    assert_eq!(status(&["devinfo", "--no-such-option"]), Some(2));
    assert_eq!(status(&["frobnicate"]), Some(2));
    assert_eq!(status(&[]), Some(2));
    for c in commands() {
        let args: Vec<&str> = c.iter().map(String::as_str).chain(["--nonsense"]).collect();
        let o = run(&args);
        assert_eq!(o.status.code(), Some(2), "{c:?}");
        assert_eq!(
            text(&o.stdout),
            "",
            "errors are on the standard error output"
        );
    }
}

#[test]
fn a_device_of_another_version_is_refused_with_both_versions() {
    use rocenic_driver::contract::{LAYOUT_HASH, VERSION, regs};
    use rocenic_vfio_user::channel::Channel;
    use rocenic_vfio_user::message::*;
    let path = Sim::base("other");
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    // what a NIC of another build answers
    let hash = !LAYOUT_HASH;
    let server = std::thread::spawn(move || {
        let (socket, _) = listener.accept().expect("a client");
        let channel = Channel::new(socket).expect("a channel");
        let limit = std::time::Duration::from_secs(60);
        while let Ok(m) = channel.receive(Some(limit), limit) {
            let body = &mut &m.body[..];
            let answer = match m.header.command {
                command::VERSION => m.body,
                command::REGION_READ => {
                    let a = Access::take(body).expect("an access");
                    let value = match (a.region, a.offset) {
                        (0, regs::control::MAGIC) => regs::MAGIC_VALUE,
                        (0, regs::control::VERSION) => VERSION + 1,
                        (0, regs::control::LAYOUT_HASH_LO) => hash as u32,
                        (0, regs::control::LAYOUT_HASH_HI) => (hash >> 32) as u32,
                        _ => {
                            use rocenic_driver::contract::pci;
                            u32::from(pci::DEVICE_ID) << 16 | u32::from(pci::VENDOR_ID)
                        }
                    };
                    [a.to_bytes(), value.to_le_bytes().to_vec()].concat()
                }
                c => panic!("command {c}"),
            };
            let header = Header {
                flags: flag::REPLY,
                ..m.header
            };
            channel.send(header, &[&answer], &[], limit).expect("sent");
        }
    });
    let address = format!("vfio-user:{}", path.display());
    refuses(
        &["regs", &address],
        &[
            "another contract",
            &format!("{hash:#018x}"),
            &format!("{LAYOUT_HASH:#018x}"),
            "build both from the same source",
        ],
    );
    server.join().expect("the server");
    let _ = std::fs::remove_file(&path);
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
    let serve = ["sim", "serve", "--socket", "/tmp/x"];
    let wired = |more: &[&'static str], why: &[&str]| refuses(&[&serve[..], more].concat(), why);
    wired(&["--nics", "2", "--link", "0,2"], &["there are 2 NICs"]);
    wired(&["--nics", "2", "--link", "1,1"], &["two ends"]);
    wired(
        &["--nics", "3", "--link", "0,1", "--link", "1,2"],
        &["NIC 1", "one port"],
    );
    wired(&["--nics", "2", "--link", "0"], &["A,B"]);
    wired(&["--nics", "0"], &["1..=64"]);
    refuses(&["counters"], &["<DEVICES>", "--help"]);
    let never = ["counters", "vfio-user:/tmp/x", "--watch", "0"];
    refuses(&never, &["0.01 seconds"]);
    let nowhere = ["sim", "serve", "--socket", "/no/such/directory/nic"];
    refuses(&nowhere, &["cannot serve /no/such/directory/nic"]);
}
