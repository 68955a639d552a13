//! The contract against frames of real NICs and of Linux soft-RoCE (`testbench/data/vectors.jsonl`).
use rocenic_contract::opcode::{self, Direction, header};
use rocenic_contract::wire::{ICRC_BYTES, aeth, bth, deth, eth, ip, reth, udp};

struct Frame {
    line: usize,
    op: String,
    bytes: Vec<u8>,
}

fn frames() -> Vec<Frame> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../testbench/data/vectors.jsonl"
    );
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let frames: Vec<Frame> = text
        .lines()
        .enumerate()
        .map(|(i, l)| {
            let v: serde_json::Value = serde_json::from_str(l).unwrap();
            let hex = v["frame"].as_str().unwrap();
            let bytes = (0..hex.len() / 2)
                .map(|k| u8::from_str_radix(&hex[2 * k..2 * k + 2], 16).unwrap())
                .collect();
            Frame {
                line: i + 1,
                op: v["op"].as_str().unwrap().into(),
                bytes,
            }
        })
        .collect();
    assert_eq!(frames.len(), 200, "{path}");
    frames
}

#[test]
fn every_captured_frame_has_the_opcode_headers_and_length_the_table_says() {
    for f in frames() {
        let (l, b) = (f.line, &f.bytes);
        let e = eth::Eth::read(b).unwrap();
        assert_eq!(e.ethertype as u64, eth::ethertype::IPV4, "line {l}");
        let i = ip::v4::Ipv4::read(&b[eth::BYTES..]).unwrap();
        assert_eq!(
            (i.version as u64, i.ihl as u64),
            (ip::v4::VERSION_VALUE, ip::v4::IHL_VALUE),
            "line {l}"
        );
        assert_eq!(i.protocol as u64, ip::PROTOCOL_UDP, "line {l}");
        let at = eth::BYTES + ip::v4::BYTES;
        let u = udp::Udp::read(&b[at..]).unwrap();
        assert_eq!(u.dport as u64, udp::ROCE_PORT, "line {l}");
        assert_eq!(
            u.length as usize + ip::v4::BYTES,
            i.total_length as usize,
            "line {l}"
        );
        let t = bth::Bth::read(&b[at + udp::BYTES..]).unwrap();
        let row = opcode::info(t.opcode)
            .unwrap_or_else(|| panic!("line {l}: opcode {:#x} undefined", t.opcode));
        assert_eq!(row.name, f.op, "line {l}");
        assert_eq!(t.version as u64, bth::VERSION_VALUE, "line {l}");
        let body = u.length as usize - udp::BYTES - ICRC_BYTES;
        let payload = (body - t.pad as usize)
            .checked_sub(row.header_bytes)
            .unwrap_or_else(|| panic!("line {l}: too short"));
        let (min, max) = row.payload_range(4096);
        if !matches!(row.payload, opcode::Payload::Full) {
            assert!(
                (min..=max).contains(&payload),
                "line {l}: {} with {payload} bytes",
                row.name
            );
        } else {
            assert!(
                [256, 512, 1024, 2048, 4096].contains(&payload),
                "line {l}: {} with {payload} bytes",
                row.name
            );
        }
        assert!(row.pad_allowed() || t.pad == 0, "line {l}");
    }
}

#[test]
fn extended_headers_of_captured_frames_hold_sensible_values() {
    for f in frames() {
        let at = eth::BYTES + ip::v4::BYTES + udp::BYTES;
        let (l, b) = (f.line, &f.bytes[at..]);
        let row = opcode::info(bth::Bth::read(b).unwrap().opcode).unwrap();
        if row.has(header::RETH) {
            let r = reth::Reth::read(&b[row.header_offset(header::RETH)..]).unwrap();
            let body = f.bytes.len() - at - row.header_bytes - ICRC_BYTES;
            match row.class {
                // the captured READs and WRITEs are short: a wrong offset would show a huge length
                opcode::Class::Write if row.ends() => {
                    assert!(body - r.length as usize <= 3, "line {l}")
                }
                _ => assert!(
                    r.length as usize >= body && r.length < 1 << 26,
                    "line {l}: length {}",
                    r.length
                ),
            }
        }
        if row.has(header::AETH) {
            let a = aeth::Aeth::read(&b[row.header_offset(header::AETH)..]).unwrap();
            assert_eq!((a.reserved, a.kind), (0, 0), "line {l}: an ACK");
            assert_eq!(row.direction, Direction::Response);
        }
        if row.has(header::DETH) {
            let d = deth::Deth::read(&b[row.header_offset(header::DETH)..]).unwrap();
            assert!(d.qkey != 0 && d.reserved == 0 && d.src_qpn != 0, "line {l}");
        }
    }
}

#[test]
fn known_bytes_of_one_acknowledgement() {
    // from the first frame of the file, decoded by hand: BTH 11 00 ffff 00 00001d 00 000000, AETH 1f 000001
    let f = &frames()[0];
    let t = bth::Bth::read(&f.bytes[42..]).unwrap();
    let want = bth::Bth {
        opcode: 0x11,
        pkey: 0xffff,
        dest_qpn: 0x1d,
        ..Default::default()
    };
    assert_eq!(t, want);
    assert_eq!(t.to_bytes(), f.bytes[42..54]);
    let a = aeth::Aeth::read(&f.bytes[54..]).unwrap();
    assert_eq!(
        a,
        aeth::Aeth {
            syndrome_value: 31,
            msn: 1,
            ..Default::default()
        }
    );
    assert_eq!(a.to_bytes(), f.bytes[54..58]);
}

#[test]
fn headers_written_back_are_the_captured_bytes() {
    for f in frames() {
        let b = &f.bytes;
        let mut again = vec![];
        again.extend(eth::Eth::read(b).unwrap().to_bytes());
        again.extend(ip::v4::Ipv4::read(&b[again.len()..]).unwrap().to_bytes());
        again.extend(udp::Udp::read(&b[again.len()..]).unwrap().to_bytes());
        again.extend(bth::Bth::read(&b[again.len()..]).unwrap().to_bytes());
        assert_eq!(again, b[..again.len()], "line {}", f.line);
    }
}
