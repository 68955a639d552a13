//! `rocenic decode` as a user runs it.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn captures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testbench/data/pcaps")
}
fn decode(file: &Path, more: &[&str]) -> Output {
    let mut c = Command::new(env!("CARGO_BIN_EXE_rocenic"));
    c.arg("decode")
        .arg(file)
        .args(more)
        .output()
        .expect("the program starts")
}
fn text(b: &[u8]) -> String {
    String::from_utf8_lossy(b).into_owned()
}
/// A file of this test's own.
fn temporary(name: &str, bytes: &[u8]) -> PathBuf {
    let f = std::env::temp_dir().join(format!("rocenic-decode-{}-{name}", std::process::id()));
    std::fs::write(&f, bytes).expect("a temporary file");
    f
}
fn rows(o: &Output) -> Vec<serde_json::Value> {
    let v: serde_json::Value = serde_json::from_slice(&o.stdout).expect("JSON");
    v["frames"].as_array().expect("frames").clone()
}

#[test]
fn rtl_and_software_agree_on_every_frame_of_every_capture() {
    let mut n = 0;
    let mut files: Vec<_> = std::fs::read_dir(captures())
        .expect("captures")
        .flatten()
        .map(|e| e.path())
        .collect();
    files.sort();
    for f in files
        .iter()
        .filter(|f| f.extension().is_some_and(|e| e == "pcap"))
    {
        let o = decode(f, &["--json"]);
        assert!(
            o.status.success(),
            "{}: {}{}",
            f.display(),
            text(&o.stdout),
            text(&o.stderr)
        );
        let name = f
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default();
        for r in rows(&o) {
            n += 1;
            let v = r["verdict"].as_str().expect("verdict");
            let want: &[&str] = match &*name {
                // TCP, and ARP between
                f if f.starts_with("oob_") => &["RX_DROP_NOT_ROCE", "RX_DROP_ETHERTYPE"],
                f if f.contains("ipv6") => &["RX_DROP_ETHERTYPE"],
                // one frame is bad on purpose
                "rxe_resp_nak_seq_icrc_dup.pcap" => &["ok", "RX_DROP_ETHERTYPE", "RX_ICRC_BAD"],
                _ => &["ok", "RX_DROP_ETHERTYPE"],
            };
            assert!(want.contains(&v), "{name}: {r}");
        }
    }
    assert!(n > 150, "{n} frames");
}

#[test]
fn the_table_names_opcode_psn_pad_and_verdict() {
    let o = decode(&captures().join("rxe_resp_nak_seq_icrc_dup.pcap"), &[]);
    let out = text(&o.stdout);
    assert!(o.status.success(), "{out}{}", text(&o.stderr));
    assert_eq!(
        out.matches("RX_ICRC_BAD").count(),
        2,
        "one line and the summary:\n{out}"
    );
    assert!(
        out.contains("RC_ACK") && out.contains("RC_SEND_MIDDLE") && out.contains("CNP"),
        "{out}"
    );
    let o = decode(&captures().join("rxe_req_write.pcap"), &["--json"]);
    let rows = rows(&o);
    let last = rows
        .iter()
        .find(|r| r["pad"] == 3)
        .expect("3001 bytes end with a pad of 3");
    assert_eq!(
        (&last["payload"], &last["icrc_ok"]),
        (&(3001 % 1024).into(), &true.into())
    );
}

#[test]
fn what_cannot_be_read_is_said_clearly() {
    let check = |o: &Output, words: &[&str]| {
        let e = text(&o.stderr);
        assert_eq!(o.status.code(), Some(2), "{e}");
        for w in words {
            assert!(e.contains(w), "no `{w}` in: {e}");
        }
    };
    check(
        &decode(Path::new("no/such.pcap"), &[]),
        &["no/such.pcap", "No such file"],
    );
    check(&decode(&captures(), &[]), &["directory"]);
    let f = temporary("empty", b"");
    check(&decode(&f, &[]), &["not a capture"]);
    let f = temporary("text", b"hello, this is no capture");
    check(&decode(&f, &[]), &["not a capture"]);

    let whole = std::fs::read(captures().join("pair_write_only_8B.pcap")).expect("capture");
    let f = temporary("header", &whole[..10]);
    check(&decode(&f, &[]), &["middle of the file header"]);
    let f = temporary("truncated", &whole[..whole.len() - 5]);
    let o = decode(&f, &[]);
    check(&o, &["ends in the middle of frame"]);
    assert!(
        text(&o.stdout).contains("RC_WRITE_ONLY"),
        "whole frames are still shown"
    );
    // link type of raw IP
    let mut raw = whole.clone();
    let swapped = whole[0] == 0xd4;
    raw[if swapped { 20 } else { 23 }] = 101;
    let f = temporary("raw", &raw);
    check(&decode(&f, &[]), &["link type 101", "Ethernet"]);
}

#[test]
fn pcapng_is_read_too() {
    let whole = std::fs::read(captures().join("pair_write_only_8B.pcap")).expect("capture");
    let mut r = pcap_file::pcap::PcapReader::new(&whole[..]).expect("pcap");
    let f = temporary("ng.pcapng", &[]);
    let mut w = pcap_file::pcapng::PcapNgWriter::new(std::fs::File::create(&f).expect("file"))
        .expect("pcapng");
    let i = pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock::new(
        pcap_file::DataLink::ETHERNET,
        65535,
    );
    w.write_pcapng_block(i).expect("interface");
    let mut n = 0;
    while let Some(p) = r.next_packet() {
        let p = p.expect("packet");
        w.write_pcapng_block(
            pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock {
                interface_id: 0,
                timestamp: p.timestamp,
                original_len: p.orig_len,
                data: p.data.clone(),
                options: vec![],
            },
        )
        .expect("packet");
        n += 1;
    }
    drop(w);
    let o = decode(&f, &["--json"]);
    assert!(o.status.success(), "{}", text(&o.stderr));
    assert_eq!(rows(&o).len(), n);
}
