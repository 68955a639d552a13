//! `rocenic demo` as a user meets it.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An empty directory of this test.
fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a directory");
    dir
}
fn demo(dir: &Path, args: &[&str]) -> Output {
    let mut c = Command::new(env!("CARGO_BIN_EXE_rocenic"));
    c.arg("demo").arg("--out").arg(dir).args(args);
    c.output().expect("the program starts")
}
fn text(b: &[u8]) -> String {
    String::from_utf8_lossy(b).into_owned()
}
#[track_caller]
fn moves(dir: &Path, bytes: &[u8], args: &[&str]) -> String {
    let file = dir.join("file");
    std::fs::write(&file, bytes).expect("a file");
    let o = demo(dir, &[&[file.to_str().expect("a path")], args].concat());
    assert!(o.status.success(), "{}", text(&o.stderr));
    assert!(
        std::fs::read(dir.join("received-file")).expect("what B received") == bytes,
        "B received something else"
    );
    text(&o.stdout)
}
#[track_caller]
fn refuses(args: &[&str], why: &[&str]) {
    let o = demo(&scratch("refused"), args);
    assert!(!o.status.success());
    let err = text(&o.stderr);
    for w in why {
        assert!(err.contains(w), "`{w}` is not in: {err}");
    }
}
fn bytes(n: usize) -> Vec<u8> {
    (0..n as u64)
        .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as u8)
        .collect()
}

#[test]
fn a_file_arrives_and_its_waveform_has_every_signal_of_the_views() {
    let dir = scratch("wave");
    let out = moves(&dir, &bytes(10_001), &[]);
    for w in [
        "SHA-256", "bytes", "packets", "ACKs", "cycles", "goodput", "clocks/s",
    ] {
        assert!(out.contains(w), "no {w} in: {out}");
    }
    let wave = wellen::simple::read(dir.join("nic.fst")).expect("a waveform");
    let h = wave.hierarchy();
    let names: Vec<String> = h.all_vars().map(|v| h[v].full_name(h)).collect();
    for view in ["nic.gtkw", "nic.surfer"] {
        let v = std::fs::read_to_string(dir.join(view)).expect("a view");
        let signals: Vec<&str> = v
            .split_whitespace()
            .filter(|w| w.starts_with("nic_a."))
            .collect();
        assert!(signals.len() > 20, "{view} shows {} signals", signals.len());
        for s in signals {
            assert!(
                names.iter().any(|n| n == s),
                "{view} names {s}, which is not in the waveform: {:?} …",
                &names[..names.len().min(20)]
            );
        }
    }
}

#[test]
fn an_empty_file_and_one_byte_arrive() {
    moves(&scratch("empty"), &[], &["--no-wave"]);
    moves(&scratch("one"), &[0x5a], &["--no-wave"]);
}

#[test]
fn a_file_arrives_though_the_wire_loses_frames() {
    moves(
        &scratch("lossy"),
        &bytes(300_000),
        &["--no-wave", "--drop", "3", "--seed", "5"],
    );
}

#[test]
fn a_cut_wire_is_a_clear_error() {
    let dir = scratch("cut");
    let file = dir.join("file");
    std::fs::write(&file, bytes(2_000_000)).expect("a file");
    let o = demo(
        &dir,
        &[file.to_str().expect("a path"), "--no-wave", "--cut", "120"],
    );
    assert!(!o.status.success());
    let err = text(&o.stderr);
    assert!(
        err.contains("did not arrive") && err.contains("wire cut"),
        "{err}"
    );
}

#[test]
fn what_is_no_file_is_refused_by_name() {
    refuses(&["no/such/file"], &["no/such/file", "cannot read"]);
    refuses(&["."], &["is a directory"]);
    refuses(&["--drop", "101"], &["--drop 101"]);
}
