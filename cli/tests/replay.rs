//! `rocenic replay`: captures of soft-RoCE, fed to the RTL as responder, get the answers that the rules ask for. Where
//! soft-RoCE keeps to the rules, its own answers in the capture are the expectation.
mod common;

use common::{run, text};
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};
use rocenic_contract::opcode::{self, Direction, header};
use rocenic_contract::wire::aeth::whole::AethWhole;
use rocenic_testbench::classify::{BTH_AT, bth_of, icrc_ok};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Opcode, PSN, and syndrome with MSN where there are any.
type Answer = (&'static str, u32, Option<(u8, u32)>);

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
fn answer(frame: &[u8]) -> Option<Answer> {
    let b = bth_of(frame)?;
    let o = opcode::info(b.opcode)?;
    assert_eq!(icrc_ok(frame), Some(true), "ICRC of an answer");
    let aeth = o.has(header::AETH).then(|| {
        let at = BTH_AT + o.header_offset(header::AETH);
        let a = AethWhole::read(&frame[at..]).expect("an AETH");
        (a.syndrome, a.msn)
    });
    (o.direction == Direction::Response).then_some((o.name, b.psn, aeth))
}
/// Answers in a capture to this MAC address.
fn captured(file: &str, to: [u8; 6]) -> Vec<Answer> {
    let path = repository().join(format!("testbench/data/pcaps/{file}.pcap"));
    let mut r = PcapReader::new(File::open(&path).expect("the capture")).expect("a capture");
    let mut answers = vec![];
    while let Some(p) = r.next_packet() {
        let p = p.expect("a packet");
        if p.data[..6] == to {
            answers.extend(answer(&p.data));
        }
    }
    answers
}
/// Replays a capture; what the NIC answered, and what was printed.
fn replay(file: &str, setup: &Path) -> (Vec<Answer>, String) {
    let out = std::env::temp_dir().join(format!("rocenic-replay-{}-{file}", std::process::id()));
    let capture = repository().join(format!("testbench/data/pcaps/{file}.pcap"));
    let text_of = |p: &Path| p.display().to_string();
    let o = run(&[
        "replay",
        &text_of(&capture),
        "--setup",
        &text_of(setup),
        "--out",
        &text_of(&out),
    ]);
    let said = text(&o.stdout);
    assert!(o.status.success(), "{file}: {said}{}", text(&o.stderr));
    let mut r = PcapNgReader::new(File::open(&out).expect("the answers")).expect("a capture");
    let mut answers = vec![];
    while let Some(block) = r.next_block() {
        if let Block::EnhancedPacket(p) = block.expect("a block") {
            answers.extend(answer(&p.data));
        }
    }
    std::fs::remove_file(&out).expect("the answers are ours");
    (answers, said)
}
fn example(name: &str) -> PathBuf {
    repository().join(format!("docs/replay/{name}.toml"))
}
fn setup(name: &str) -> PathBuf {
    repository().join(format!("cli/tests/replay/{name}.toml"))
}
const LINUX: [u8; 6] = [0x52, 0x54, 0, 0, 0, 2];
const FAKE: [u8; 6] = [0x52, 0x54, 0, 0, 0, 0x99];

/// The NIC answers as soft-RoCE did.
fn as_captured(file: &str, setup: &Path, peer: [u8; 6]) -> String {
    let want = captured(file, peer);
    let (got, said) = replay(file, setup);
    assert!(!want.is_empty(), "{file}");
    assert_eq!(got, want, "{file}: {said}");
    said
}

#[test]
fn a_bad_key_in_a_capture_is_refused_as_linux_refuses_it() {
    let said = as_captured("rxe_resp_write_nak_access", &example("write-access"), FAKE);
    assert!(said.contains("event     QP_ACCESS_ERROR of 0x13"), "{said}");
}

#[test]
fn after_an_rnr_nak_a_replayed_capture_gets_no_answer_until_the_expected_psn() {
    let (got, said) = replay("rxe_resp_nak_rnr", &example("not-ready"));
    // soft-RoCE sends a sequence NAK behind the RNR NAK: the rules ask for silence
    let want = [
        ("RC_ACK", 0x11_1111, Some((0x1f, 1))),
        ("RC_ACK", 0x11_1112, Some((0x2c, 1))),
    ];
    assert_eq!(got, want, "{said}");
}

#[test]
fn gaps_duplicates_bad_icrcs_and_congestion_marks_in_a_capture_are_answered_as_linux_answers_them()
{
    let said = as_captured("rxe_resp_nak_seq_icrc_dup", &example("sequence"), FAKE);
    assert!(said.contains("counter   RX_ICRC_BAD 1"), "{said}");
    assert!(said.contains("counter   RX_DUPLICATES 1"), "{said}");
}

#[test]
fn a_write_that_the_queue_pair_forbids_is_an_invalid_request_as_in_linux() {
    as_captured("rxe_resp_nak_inv_req", &setup("write-forbidden"), FAKE);
}

#[test]
fn reads_repeated_reads_and_reads_out_of_bounds_in_a_capture_are_answered_as_linux_answers_them() {
    as_captured("rxe_resp_read_nak_access", &setup("read-access"), FAKE);
}

#[test]
fn atomics_duplicates_and_misaligned_ones_in_a_capture_are_answered_as_linux_answers_them() {
    as_captured("rxe_resp_atomic", &setup("atomic"), FAKE);
}

#[test]
fn requests_of_linux_to_a_number_the_device_has_not_are_answered_under_another() {
    for (file, name) in [
        ("rxe_req_write", "rxe-write"),
        ("rxe_req_send", "rxe-send"),
        ("rxe_req_read", "rxe-read"),
        ("rxe_req_atomic_faa", "rxe-faa"),
        ("rxe_req_atomic_cas", "rxe-cas"),
    ] {
        as_captured(file, &setup(name), LINUX);
    }
}

#[test]
fn a_setup_that_makes_no_sense_is_refused_with_the_place() {
    let bad = std::env::temp_dir().join(format!("rocenic-replay-{}.toml", std::process::id()));
    let good = std::fs::read_to_string(example("not-ready")).expect("the example");
    for (change, to, what) in [
        (
            "region = \"inbox\"",
            "region = \"outbox\"",
            "no region is named outbox",
        ),
        ("pmtu = 1024", "pmtu = 1000", "pmtu 1000"),
        ("52:54:00:00:00:02", "52:54", "no MAC address"),
        ("va = ", "wa = ", "wa"),
    ] {
        std::fs::write(&bad, good.replace(change, to)).expect("a temporary file");
        let capture = repository().join("testbench/data/pcaps/rxe_resp_nak_rnr.pcap");
        let o = run(&[
            "replay",
            &capture.display().to_string(),
            "--setup",
            &bad.display().to_string(),
        ]);
        let said = text(&o.stderr);
        assert_eq!(o.status.code(), Some(2), "{said}");
        assert!(said.contains(what), "{said}");
    }
    std::fs::remove_file(&bad).expect("a file of ours");
}
