//! pingpong, perf and cp between two processes, each with a simulated NIC of a third one.
mod common;
use common::{Sim, Waiting, end_of, rocenic, run, text};
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

fn two_nics(name: &str, args: &[&str]) -> Sim {
    Sim::start_at(&Sim::base(name), &[&["--nics", "2"], args].concat())
}
/// An empty directory of this test.
fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a directory");
    dir
}
fn random(n: usize) -> Vec<u8> {
    (0..n as u64)
        .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as u8)
        .collect()
}
/// Runs a program against its waiting counterpart; both must succeed. Gives what it printed.
#[track_caller]
fn both(sim: &Sim, command: &[&str], more: &[&str]) -> String {
    let waiting = Waiting::start(&[command, &["--dev", sim.device(0)]].concat());
    let args = [
        command,
        &["--dev", sim.device(1), "--port", &waiting.port, "localhost"],
        more,
    ];
    let o = run(&args.concat());
    assert!(o.status.success(), "{}", text(&o.stderr));
    let (code, err) = waiting.end();
    assert_eq!(code, Some(0), "{err}");
    text(&o.stdout)
}

#[test]
fn messages_go_to_and_fro_and_perf_measures_what_the_line_allows() {
    let sim = two_nics("pingpong", &[]);
    for size in ["1", "4096", "10001"] {
        let out = both(&sim, &["pingpong"], &["--size", size, "-n", "10"]);
        assert!(out.contains("every byte checked"), "{out}");
    }
    // READ: the requests are small, the responses fill the line
    for test in ["write-bw", "send-bw", "read-bw"] {
        let out = both(&sim, &["perf", test], &["--json", "-n", "40"]);
        let row: serde_json::Value = serde_json::from_str(&out).expect("a line of JSON");
        let gbit = row["gbit_per_s"].as_f64().unwrap_or_default();
        // device time: not the machine's speed
        assert!((90.0..100.0).contains(&gbit), "{test}: {out}");
        assert_eq!(row["bytes"], 65536);
    }
    let svg = scratch("histogram").join("latency.svg");
    let drawn = ["-n", "10", "--histogram", svg.to_str().expect("a path")];
    for test in ["write-lat", "send-lat", "read-lat", "atomic-lat"] {
        let out = both(&sim, &["perf", test], &drawn);
        assert!(out.contains("t_median[us]"), "{out}");
        let median = out.lines().last().and_then(|l| l.split_whitespace().nth(3));
        let median: f64 = median.and_then(|m| m.parse().ok()).expect("a latency");
        assert!((1.0..50.0).contains(&median), "{test}: {out}");
        let picture = std::fs::read_to_string(&svg).expect("the picture");
        assert!(picture.contains(&format!("{test} of 8 bytes")) && picture.contains("</svg>"));
    }
}

#[test]
fn atomics_are_measured_eight_bytes_at_a_time() {
    let sim = two_nics("atomics", &[]);
    let more = ["--json", "-n", "40", "--size", "4096"];
    let out = both(&sim, &["perf", "atomic-bw"], &more);
    let row: serde_json::Value = serde_json::from_str(&out).expect("a line of JSON");
    assert_eq!((&row["bytes"], &row["iterations"]), (&8.into(), &40.into()));
    let rate = row["messages_per_us"].as_f64().unwrap_or_default();
    assert!((0.1..20.0).contains(&rate), "{out}");
}

#[test]
fn four_nics_have_the_wires_they_were_given_and_a_capture_each() {
    let pcap = scratch("wires").join("wire.pcapng");
    let args = ["--link", "0,3", "--link", "2,1"];
    let capture = ["--pcap", pcap.to_str().expect("a path")];
    let base = Sim::base("wires");
    let sim = Sim::start_at(&base, &[&["--nics", "4"], &args[..], &capture].concat());
    let sizes = || {
        [0, 1].map(|n| {
            let path = pcap.with_file_name(format!("wire{n}.pcapng"));
            std::fs::metadata(path).expect("a capture").len()
        })
    };
    let before = sizes();
    let to_and_fro = |a: usize, b: usize| {
        let waiting = Waiting::start(&["pingpong", "--dev", sim.device(a)]);
        let there = ["--dev", sim.device(b), "--port", &waiting.port, "localhost"];
        let o = run(&[&["pingpong", "-n", "3"], &there[..]].concat());
        assert!(o.status.success(), "{}", text(&o.stderr));
        assert_eq!(waiting.end().0, Some(0));
    };
    to_and_fro(0, 3);
    let between = sizes();
    assert!(
        between[0] > before[0] && between[1] == before[1],
        "{between:?}"
    );
    to_and_fro(1, 2);
    assert!(sizes()[1] > between[1]);
}

#[test]
fn counters_and_registers_are_seen_beside_the_program_that_uses_the_device() {
    let sim = two_nics("watched", &[]);
    let (waiting, mut child) = endless(&sim);
    let watched = |more: &[&str]| {
        let o = run(&[&["counters", sim.device(0), sim.device(1)], more].concat());
        assert!(o.status.success(), "{}", text(&o.stderr));
        text(&o.stdout)
    };
    // a limit for what never begins, not a measurement
    let mut out = String::new();
    for _ in 0..600 {
        out = watched(&[]);
        if out.matches("RX_ACKS").count() == 2 {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    for want in ["vfio-user:", "RX_ROCE", "Frames sent.", "ACKs received."] {
        assert_eq!(out.matches(want).count(), 2, "`{want}` in {out}");
    }
    assert!(!out.contains("RX_ICRC_BAD"), "{out}");
    assert!(watched(&["--all"]).contains("RX_ICRC_BAD"));
    let lines = watched(&["--watch", "0.2", "--looks", "3", "--json"]);
    let rows: Vec<serde_json::Value> = lines
        .lines()
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect();
    assert_eq!(rows.len(), 6);
    let frames = |row: &serde_json::Value| row["counters"]["TX_FRAMES"].as_u64();
    assert!(frames(&rows[4]) > frames(&rows[0]), "{lines}");
    let o = run(&["regs", sim.device(0)]);
    let registers = text(&o.stdout);
    assert!(o.status.success(), "{}", text(&o.stderr));
    for want in [
        "ROCE",
        "enable 1",
        "ready 1",
        "log2_qps 10",
        "SEND WRITE",
        "10.0.0.1",
        "250 MHz",
        "CMD_OUT[15]",
    ] {
        assert!(registers.contains(want), "`{want}` is not in: {registers}");
    }
    // it went on all the while
    assert!(child.try_wait().expect("wait").is_none());
    let _ = child.kill();
    let _ = child.wait();
    drop(waiting);
}

#[test]
fn a_file_is_copied_over_a_wire_that_loses_frames_and_the_capture_has_them() {
    let dir = scratch("copied");
    let pcap = dir.join("wire.pcapng");
    let args = ["--drop", "1", "--pcap", pcap.to_str().expect("a path")];
    let sim = two_nics("cp", &args);
    let (file, into) = (dir.join("file"), dir.join("in"));
    std::fs::create_dir(&into).expect("a directory");
    let serve = [
        "serve",
        "--dev",
        sim.device(0),
        "--dir",
        into.to_str().expect("a path"),
    ];
    let waiting = Waiting::start(&serve);
    let copy = |to: &str| {
        let file = file.to_str().expect("a path");
        run(&[
            "cp",
            "--dev",
            sim.device(1),
            "--port",
            &waiting.port,
            file,
            to,
        ])
    };
    // one client after the other; sizes around nothing, a packet, a message
    for bytes in [0, 1, 4097, 700_000] {
        std::fs::write(&file, random(bytes)).expect("a file");
        let o = copy("localhost:copy");
        assert!(o.status.success(), "{bytes} bytes: {}", text(&o.stderr));
        assert!(std::fs::read(into.join("copy")).expect("the copy") == random(bytes));
    }
    let o = copy("localhost:../outside");
    assert_eq!(o.status.code(), Some(2));
    assert!(
        text(&o.stderr).contains("not below the directory"),
        "{}",
        text(&o.stderr)
    );
    assert!(!dir.join("outside").exists());
    // a place that cannot be written is refused before anything is sent
    let captured = || std::fs::metadata(&pcap).expect("the capture").len();
    let before = captured();
    for to in ["localhost:no/such/copy", "localhost:copy/below"] {
        let o = copy(to);
        assert_eq!(o.status.code(), Some(2));
        let err = text(&o.stderr);
        assert!(err.contains("make its directory"), "{err}");
    }
    assert_eq!(captured(), before);
    // who connects and says nothing, or nonsense, holds nobody up
    let port: u16 = waiting.port.parse().expect("a port");
    let silent: Vec<_> = (0..3)
        .map(|_| TcpStream::connect(("localhost", port)).expect("a client"))
        .collect();
    (&silent[0])
        .write_all(b"GET / HTTP/1.1\n")
        .expect("nonsense");
    let o = copy("localhost:copy");
    assert!(o.status.success(), "{}", text(&o.stderr));
    assert!(captured() > 700_000, "the capture has {} bytes", captured());
    let left: Vec<_> = std::fs::read_dir(&into).expect("the directory").collect();
    assert_eq!(left.len(), 1, "nothing half written stays");
}

#[test]
fn counterparts_that_do_not_fit_are_told_on_both_sides() {
    let sim = two_nics("misfits", &[]);
    let waiting = Waiting::start(&["pingpong", "--dev", sim.device(0)]);
    let port = waiting.port.clone();
    let o = run(&[
        "perf",
        "write-bw",
        "--dev",
        sim.device(1),
        "--port",
        &port,
        "localhost",
    ]);
    assert_eq!(o.status.code(), Some(2));
    assert!(
        text(&o.stderr).contains("start counterparts"),
        "{}",
        text(&o.stderr)
    );
    let (code, err) = waiting.end();
    assert_eq!(code, Some(2));
    assert!(err.contains("start counterparts"), "{err}");
    let nobody = run(&[
        "pingpong",
        "--dev",
        sim.device(1),
        "--port",
        &port,
        "localhost",
    ]);
    assert_eq!(nobody.status.code(), Some(2));
    assert!(
        text(&nobody.stderr).contains("start the other side"),
        "{}",
        text(&nobody.stderr)
    );
    let busy = Waiting::start(&["pingpong", "--dev", sim.device(0)]);
    let o = run(&["devinfo", sim.device(0)]);
    assert_eq!(o.status.code(), Some(2));
    assert!(
        text(&o.stderr).contains("another driver uses"),
        "{}",
        text(&o.stderr)
    );
    drop(busy);
}

#[test]
fn the_selftest_passes_and_its_text_went_over_the_wire() {
    let pcap = scratch("selftest").join("wire.pcapng");
    let sim = two_nics("selftest", &["--pcap", pcap.to_str().expect("a path")]);
    let text_sent = "seen on the wire";
    let o = run(&[
        "selftest",
        sim.device(0),
        sim.device(1),
        "--text",
        text_sent,
    ]);
    let out = text(&o.stdout);
    assert!(o.status.success(), "{out}{}", text(&o.stderr));
    for want in [
        "ok interrupt",
        "ok unmapped memory: refused",
        "steps passed",
    ] {
        assert!(out.contains(want), "`{want}` is not in: {out}");
    }
    let capture = std::fs::read(&pcap).expect("the capture");
    let n = text_sent.len();
    assert!(capture.windows(n).any(|w| w == text_sent.as_bytes()));
}

#[test]
fn two_simulators_are_joined_by_a_socket_and_one_of_them_writes_a_waveform() {
    let dir = scratch("joined");
    let (base_a, base_b) = (Sim::base("left"), Sim::base("right"));
    let wire = |from: &str, to: &str| {
        let at =
            |n: &str| std::env::temp_dir().join(format!("rocenic-eth-{}-{n}", std::process::id()));
        format!("unix:{},{}", at(from).display(), at(to).display())
    };
    let fst = dir.join("nic.fst");
    let args = [
        "--trace",
        "0..20",
        "--trace-file",
        fst.to_str().expect("a path"),
    ];
    let (to_right, to_left) = (wire("a", "b"), wire("b", "a"));
    let a = Sim::start_at(&base_a, &[&["--eth", &to_right], &args[..]].concat());
    let b = Sim::start_at(&base_b, &["--eth", &to_left]);
    // the simulators' times have nothing to do with each other: a timeout that both can keep
    let waiting = Waiting::start(&["pingpong", "--timeout", "20", "--dev", a.device(0)]);
    let o = run(&[
        "pingpong",
        "--timeout",
        "20",
        "--dev",
        b.device(0),
        "--port",
        &waiting.port,
        "localhost",
        "-n",
        "5",
        "--size",
        "5000",
    ]);
    assert!(o.status.success(), "{}", text(&o.stderr));
    assert!(text(&o.stdout).contains("every byte checked"));
    let (code, err) = waiting.end();
    assert_eq!(code, Some(0), "{err}");
    let waves = wellen::simple::read(&fst).expect("a waveform");
    let times = waves.time_table();
    assert!(times.last() > times.first(), "{times:?}");
}

/// Waits until somebody has connected to this port of this machine.
fn until_connected(port: &str) {
    let port: u16 = port.parse().expect("a port number");
    let here = format!(":{port:04X}");
    for _ in 0..6000 {
        let open = ["/proc/net/tcp", "/proc/net/tcp6"]
            .iter()
            .flat_map(std::fs::read_to_string)
            .any(|t| {
                t.lines().any(|l| {
                    let w: Vec<&str> = l.split_whitespace().collect();
                    // local address, remote address, state: established
                    w.len() > 3 && w[1].ends_with(&here) && w[3] == "01"
                })
            });
        if open {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("nobody has connected to port {port} in a minute");
}

/// A pair of programs that would run for hours.
fn endless(sim: &Sim) -> (Waiting, Child) {
    let waiting = Waiting::start(&["pingpong", "--dev", sim.device(0)]);
    let child = rocenic(&["pingpong", "--dev", sim.device(1), "--port", &waiting.port])
        .args(["localhost", "-n", "100000000"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    (waiting, child)
}

#[test]
fn whoever_is_killed_the_others_say_so_and_the_next_run_works() {
    let mut sim = two_nics("killed", &[]);
    // several moments: before the connection, in the middle of commands, of messages
    for ms in [1, 40, 300, 1000] {
        let (waiting, mut child) = endless(&sim);
        if ms >= 300 {
            until_connected(&waiting.port);
        }
        std::thread::sleep(Duration::from_millis(ms));
        child.kill().expect("kill");
        let _ = child.wait();
        if ms >= 300 {
            let (code, err) = waiting.end();
            assert_eq!(code, Some(2), "{ms} ms: {err}");
            assert!(
                err.contains("closed its connection") || err.contains("failed"),
                "{err}"
            );
        } else {
            // it may have no client yet, and wait on
            drop(waiting);
        }
        let (mut waiting, mut child) = endless(&sim);
        if ms >= 300 {
            until_connected(&waiting.port);
        }
        std::thread::sleep(Duration::from_millis(ms));
        waiting.kill();
        let (code, err) = end_of(&mut child);
        assert_eq!(code, Some(2), "{ms} ms: {err}");
    }
    let out = both(&sim, &["pingpong"], &["-n", "5"]);
    assert!(out.contains("every byte checked"), "{out}");

    let (waiting, mut child) = endless(&sim);
    until_connected(&waiting.port);
    std::thread::sleep(Duration::from_millis(500));
    sim.kill();
    let ends = [waiting.end(), end_of(&mut child)];
    for (code, err) in &ends {
        assert_eq!(*code, Some(2), "{err}");
        assert!(
            err.contains("simulator") || err.contains("closed its connection"),
            "{err}"
        );
    }
    assert!(
        ends.iter().any(|(_, e)| e.contains("did it stop")),
        "{ends:?}"
    );
}
