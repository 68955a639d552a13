//! Captures of the wire between two NICs, judged by programs that are not ours.
use super::traffic::{data, transfer};
use rocenic_sim::wire::{Capture, Faults};
use rocenic_testbench::system::PairConfig;
use rocenic_testbench::{python, skip};
use std::path::{Path, PathBuf};
use std::process::Command;

const LEN: usize = 300_000;

/// A directory for what a test writes.
pub fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    dir
}
/// Runs a script of ours with Python; what it printed.
fn script(python: &Path, name: &str, args: &[&str]) -> String {
    let run = Command::new(python)
        .arg(python::script(name))
        .args(args)
        .output();
    let run = run.unwrap_or_else(|e| panic!("{}: {e}", python.display()));
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    assert!(
        run.status.success(),
        "{name} {args:?}: {}",
        text(&run.stderr)
    );
    text(&run.stdout)
}
fn have_tshark() -> bool {
    Command::new("tshark")
        .arg("--version")
        .output()
        .is_ok_and(|o| o.status.success())
}
/// A transfer through a wire with these faults; its capture.
fn captured(name: &str, len: usize, faults: Faults) -> PathBuf {
    let path = scratch(name).join("wire.pcapng");
    let mut config = PairConfig {
        seed: 5,
        capture: Some(path.clone()),
        ..PairConfig::default()
    };
    config.link.faults = faults.clone();
    let r = transfer(config, len, 2);
    let lost: u64 = r.nics.iter().map(|n| n.wire.dropped).sum();
    assert!(
        faults.drop == 0.0 || lost > 0,
        "the wire lost nothing: {:?}",
        r.nics
    );
    path
}

#[test]
fn tshark_scapy_and_another_icrc_agree_on_every_frame() {
    let python = match python::scapy() {
        Ok(p) => p,
        Err(why) => return skip::note(&why),
    };
    if !have_tshark() {
        return skip::note("no tshark; run: apt-get install tshark");
    }
    let bad_wire = Faults {
        drop: 0.02,
        duplicate: 0.02,
        reorder: 0.02,
        corrupt: 0.0,
        ..Faults::default()
    };
    for (name, faults) in [("clean", Faults::default()), ("bad-wire", bad_wire)] {
        let path = captured(name, LEN, faults);
        let said = script(&python, "check_capture.py", &[&path.display().to_string()]);
        eprint!("{name}: {said}");
        let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        let frames = said["frames"].as_u64().unwrap_or_default();
        assert!(frames > (LEN / 4096) as u64, "{said}");
        assert_eq!(said["harmed"], 0);
    }
}

/// The first four bytes of this READ response, 90 00 00 00, are an EtherType (a loop test's) to tshark, which guesses.
/// A byte of a guest's memory, as Linux sent it.
const LOOKS_LIKE_A_LOOP_TEST: &str = "020000000001020000000002080045000034e7a64000401137bec0a84d02c0a84d01\
c44e12b7002000001030ffff0000001300a10b8e1f00009490000000327851f7";

#[test]
fn a_payload_that_looks_like_another_protocol_is_not_malformed() {
    let python = match python::scapy() {
        Ok(p) => p,
        Err(why) => return skip::note(&why),
    };
    if !have_tshark() {
        return skip::note("no tshark; run: apt-get install tshark");
    }
    let path = scratch("looks-like").join("wire.pcapng");
    let frame: Vec<u8> = (0..LOOKS_LIKE_A_LOOP_TEST.len() / 2)
        .map(|i| u8::from_str_radix(&LOOKS_LIKE_A_LOOP_TEST[2 * i..2 * i + 2], 16).expect("hex"))
        .collect();
    let mut capture = Capture::create(&path).expect("a capture");
    capture.frame(0, &frame).expect("a frame");
    capture.close().expect("the capture is written");
    let said = script(&python, "check_capture.py", &[&path.display().to_string()]);
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said["frames"], 1);
}

#[test]
fn the_capture_alone_holds_the_data_that_one_percent_of_loss_could_not_stop() {
    let path = captured(
        "one-percent",
        2 * LEN,
        Faults {
            drop: 0.01,
            ..Faults::default()
        },
    );
    let out = path.with_file_name("rebuilt");
    let args = [
        &path.display().to_string(),
        "--out",
        &out.display().to_string(),
    ];
    // nothing but the standard library is needed
    eprint!(
        "{}",
        script(Path::new("python3"), "rebuild.py", &args.map(|a| a as &str))
    );
    let rebuilt = std::fs::read(&out).expect("rebuild.py wrote the file");
    assert!(rebuilt == data(2 * LEN), "the rebuilt bytes differ");
}
