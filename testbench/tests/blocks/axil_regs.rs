//! `host::AxilRegs`: what stands where in BAR0, and who may change it.
use rocenic_contract::layout::{Access, RegPage};
use rocenic_contract::regs::{self, PAGE_BYTES, control, limits, mailbox, request_limits};
use rocenic_contract::{LAYOUT_HASH, VERSION, caps, counters, rqe, wqe};
use rocenic_hdl::host::axil_regs::{AxilRegs, Done, Go, OUT_BITS};
use rocenic_hdl::host::doorbells::DbWrite;
use rocenic_hdl::types::PortCfg;
use rocenic_testbench::Dut;
use rust_hdl_core::prelude::*;
use std::collections::BTreeMap;

/// Cycles an access may take.
const LIMIT: u64 = 20;
/// Every byte of a word.
const WHOLE: u64 = 0xf;
const CAPS: u32 = 0x8765_4321;
const MAC: u64 = 0x0211_2233_4455;
const IPV4: u32 = 0x0a01_0203;
const PMTU: u32 = 4;
const CYCLES: u64 = 0x1122_3344_5566_7788;
const COUNT: u64 = 0x99aa_bbcc_ddee_ff01;

/// What every word reads, by address.
type Words = BTreeMap<u64, u32>;

/// Words of a page's registers.
fn words_of(page: &RegPage) -> impl Iterator<Item = (u64, Access)> + '_ {
    let all = |r: &rocenic_contract::layout::Reg| (r.addr, r.words, r.access);
    let regs = page.regs.iter().map(all);
    regs.flat_map(|(at, words, access)| (0..words).map(move |i| (at + 4 * i, access)))
}
fn word(reg: u64, i: u64) -> u64 {
    reg + 4 * i
}
fn words_in(name: &str) -> u64 {
    let reg = mailbox::REGS.iter().find(|r| r.name == name);
    reg.expect("a register of the mailbox").words
}

/// The block behind its port, commands taken at once and never answered.
fn bench() -> Dut {
    let mut d = Dut::new(AxilRegs::default());
    d.set("go_ready", 1);
    d.set("db_ready", 1);
    d.set("caps", CAPS.into());
    let port = PortCfg {
        mac: bits(MAC),
        ipv4: bits(IPV4.into()),
        enable: false,
    };
    d.put("port", &port);
    d.set("pmtu", PMTU.into());
    d.set("cycles", CYCLES);
    d.set("count", COUNT);
    d.set("status", device_status().into());
    d.reset();
    d
}
fn device_status() -> u32 {
    let status = regs::status::DeviceStatus {
        ready: 1,
        bus_master: 1,
        ..Default::default()
    };
    u32::from_le_bytes(status.to_bytes())
}
fn write(d: &mut Dut, at: u64, data: u32) {
    write_strobes(d, at, data, WHOLE);
}
fn write_strobes(d: &mut Dut, at: u64, data: u32, strobes: u64) {
    for (pin, v) in [
        ("aw_addr", at),
        ("w_data", data.into()),
        ("w_strb", strobes),
        ("aw_valid", 1),
        ("w_valid", 1),
        ("b_ready", 1),
    ] {
        d.set(pin, v);
    }
    d.run_until(LIMIT, "address and data", |d| d.get("aw_ready") == 1);
    d.step();
    d.set("aw_valid", 0);
    d.set("w_valid", 0);
    d.run_until(LIMIT, "the write's response", |d| d.get("b_valid") == 1);
    d.step();
}
fn read(d: &mut Dut, at: u64) -> u32 {
    d.set("ar_addr", at);
    d.set("ar_valid", 1);
    d.set("r_ready", 1);
    d.run_until(LIMIT, "the address", |d| d.get("ar_ready") == 1);
    d.step();
    d.set("ar_valid", 0);
    d.run_until(LIMIT, "the data", |d| d.get("r_valid") == 1);
    let v = d.get("r_data") as u32;
    d.step();
    v
}
/// Every word of the control page and the mailbox.
fn all(d: &mut Dut) -> Words {
    let at = [control::PAGE, mailbox::PAGE];
    let at = at.iter().flat_map(words_of);
    at.map(|(at, _)| (at, read(d, at))).collect()
}
#[track_caller]
fn all_are(d: &mut Dut, want: &Words, what: &str) {
    for (at, v) in all(d) {
        assert_eq!(v, want[&at], "word at {at:#x}: {what}");
    }
}
/// Writes a number of its own into every input word.
fn fill(d: &mut Dut) {
    for i in 0..words_in("CMD_IN") {
        write(d, word(mailbox::CMD_IN, i), 0x0101_0101 * (i as u32 + 1));
    }
}
fn answer(d: &mut Dut, status: u64, out: Bits<OUT_BITS>) {
    let done = Done {
        status: bits(status),
        out,
    };
    d.put("done", &done);
    d.set("done_valid", 1);
    d.step();
    d.set("done_valid", 0);
}
fn go_word(opcode: u8, token: u8) -> u32 {
    let go = regs::cmd_go::CmdGo {
        opcode,
        token,
        ..Default::default()
    };
    u32::from_le_bytes(go.to_bytes())
}
fn status_word(busy: bool, status: u8, token: u8) -> u32 {
    let status = regs::cmd_status::CmdStatus {
        status,
        token,
        busy: busy.into(),
        ..Default::default()
    };
    u32::from_le_bytes(status.to_bytes())
}

#[test]
fn every_register_reads_its_own_value() {
    let mut d = bench();
    let sizes = limits::Limits {
        log2_qps: caps::LOG2_QPS as u8,
        log2_cqs: caps::LOG2_CQS as u8,
        log2_mrs: caps::LOG2_MRS as u8,
        log2_eqs: caps::LOG2_EQS as u8,
        log2_outstanding: caps::LOG2_OUTSTANDING as u8,
        log2_ring: caps::LOG2_RING as u8,
        log2_rd_atomic: caps::LOG2_RD_ATOMIC as u8,
    };
    let requests = request_limits::RequestLimits {
        send_sges: wqe::MAX_SGE as u8,
        recv_sges: rqe::MAX_SGE as u8,
        inline: wqe::MAX_INLINE as u8,
        ..Default::default()
    };
    let mut want = Words::from([
        (control::MAGIC, regs::MAGIC_VALUE),
        (control::VERSION, VERSION),
        (control::LAYOUT_HASH_LO, LAYOUT_HASH as u32),
        (control::LAYOUT_HASH_HI, (LAYOUT_HASH >> 32) as u32),
        (control::CAPS, CAPS),
        (control::LIMITS, u32::from_le_bytes(sizes.to_bytes())),
        (
            control::REQUEST_LIMITS,
            u32::from_le_bytes(requests.to_bytes()),
        ),
        (control::VECTORS, caps::VECTORS as u32),
        (control::MAX_MSG, caps::MAX_MSG_BYTES as u32),
        (control::CLOCK_KHZ, caps::CLOCK_KHZ as u32),
        (control::CTRL, 0),
        (control::STATUS, device_status()),
        (control::PORT_MAC_LO, MAC as u32),
        (control::PORT_MAC_HI, (MAC >> 32) as u32),
        (control::PORT_IPV4, IPV4),
        (control::PORT_PMTU, PMTU),
        (control::CYCLES_LO, CYCLES as u32),
        (control::CYCLES_HI, (CYCLES >> 32) as u32),
    ]);
    fill(&mut d);
    write(&mut d, mailbox::CMD_GO, go_word(3, 0x7e));
    let out = (0..words_in("CMD_OUT")).fold(Bits::<OUT_BITS>::default(), |all, i| {
        all | (Bits::<OUT_BITS>::from(0xa000_0000 + i) << (32 * i))
    });
    answer(&mut d, 9, out);
    for (at, _) in words_of(&mailbox::PAGE) {
        want.insert(at, 0);
    }
    for i in 0..words_in("CMD_IN") {
        want.insert(word(mailbox::CMD_IN, i), 0x0101_0101 * (i as u32 + 1));
    }
    want.insert(mailbox::CMD_STATUS, status_word(false, 9, 0x7e));
    for i in 0..words_in("CMD_OUT") {
        want.insert(word(mailbox::CMD_OUT, i), 0xa000_0000 + i as u32);
    }
    all_are(&mut d, &want, "it does not read its own value");
    for (at, _) in words_of(&counters::PAGE) {
        let high = !(at - counters::BASE).is_multiple_of(counters::COUNTER_BYTES);
        let half = if high { COUNT >> 32 } else { COUNT };
        assert_eq!(read(&mut d, at), half as u32, "counter word at {at:#x}");
    }
}

#[test]
fn writing_a_register_changes_no_other() {
    let mut d = bench();
    fill(&mut d);
    let mut want = all(&mut d);
    let mut r = d.random("data");
    let at = [control::PAGE, mailbox::PAGE, counters::PAGE];
    for (at, access) in at.iter().flat_map(words_of) {
        // commands have a test of their own
        if at == mailbox::CMD_GO {
            continue;
        }
        let data = r.next_u64() as u32;
        write(&mut d, at, data);
        if access == Access::RW {
            let kept = if at == control::CTRL {
                data & regs::ctrl::ENABLE.mask() as u32
            } else {
                data
            };
            want.insert(at, kept);
        }
        all_are(&mut d, &want, &format!("after a write at {at:#x}"));
    }
}

#[test]
fn mailbox_words_stand_still_while_a_command_is_busy() {
    let mut d = bench();
    let go = d.sink::<Go>("go");
    fill(&mut d);
    let mut want = all(&mut d);
    for token in [5, 6] {
        write(&mut d, mailbox::CMD_GO, go_word(token + 1, token));
        let began = go.try_recv().expect("a command");
        let (opcode, named) = (began.field("opcode"), began.field("token"));
        assert_eq!((opcode, named), (u64::from(token) + 1, token.into()));
        let before = want[&mailbox::CMD_STATUS].to_le_bytes()[0];
        want.insert(mailbox::CMD_STATUS, status_word(true, before, token));
        // the engine has taken it and has not answered
        for (at, _) in words_of(&mailbox::PAGE) {
            write(&mut d, at, 0xdead_0000 | at as u32);
            assert_eq!(read(&mut d, at), want[&at], "word at {at:#x} while busy");
        }
        all_are(&mut d, &want, "a write while a command is busy");
        assert!(
            go.try_recv().is_none(),
            "a second command while one is busy"
        );
        let out = Bits::<OUT_BITS>::from(u64::from(token));
        answer(&mut d, token.into(), out);
        want.insert(mailbox::CMD_STATUS, status_word(false, token, token));
        for i in 0..words_in("CMD_OUT") {
            let low = if i == 0 { token.into() } else { 0 };
            want.insert(word(mailbox::CMD_OUT, i), low);
        }
        all_are(&mut d, &want, "after the answer");
        for i in 0..words_in("CMD_IN") {
            let at = word(mailbox::CMD_IN, i);
            let data = u32::from(token) << 24 | i as u32;
            write(&mut d, at, data);
            want.insert(at, data);
        }
        all_are(&mut d, &want, "written again after the answer");
    }
}

#[test]
fn a_command_that_is_not_taken_yet_keeps_the_mailbox_too() {
    let mut d = bench();
    fill(&mut d);
    let want = all(&mut d);
    d.set("go_ready", 0);
    write(&mut d, mailbox::CMD_GO, go_word(1, 2));
    for i in 0..words_in("CMD_IN") {
        let at = word(mailbox::CMD_IN, i);
        write(&mut d, at, !want[&at]);
        assert_eq!(read(&mut d, at), want[&at], "word {i}");
    }
}

#[test]
fn outside_of_the_map_reads_give_zero_and_writes_do_nothing() {
    let mut d = bench();
    let db = d.sink::<DbWrite>("db");
    fill(&mut d);
    let want = all(&mut d);
    let end = |p: &RegPage| words_of(p).map(|(at, _)| at + 4).max().unwrap_or(p.base);
    let mut holes = vec![regs::MSIX_PAGE, regs::DOORBELL_BASE - 4];
    for p in [control::PAGE, mailbox::PAGE, counters::PAGE] {
        let last = p.base + PAGE_BYTES - 4;
        holes.extend([end(&p), (end(&p) + last) / 8 * 4, last]);
    }
    for at in holes {
        write(&mut d, at, u32::MAX);
        assert_eq!(read(&mut d, at), 0, "word at {at:#x}");
        all_are(&mut d, &want, &format!("after a write at {at:#x}"));
    }
    assert!(db.try_recv().is_none(), "a doorbell");
    // a doorbell goes to the doorbells alone, and reads 0
    for page in [0, 1, regs::DOORBELL_PAGES - 1] {
        let at = regs::doorbell_page(page) + regs::doorbell::CQ_CI;
        write(&mut d, at, 0x1234_0000 + page as u32);
        let rung = db.try_recv().expect("a doorbell");
        assert_eq!(rung.field("page"), page);
        assert_eq!(rung.field("word"), regs::doorbell::index::CQ_CI as u64);
        assert_eq!(rung.field("data"), 0x1234_0000 + page);
        assert_eq!(read(&mut d, at), 0, "doorbell page {page}");
        all_are(&mut d, &want, &format!("after a doorbell of page {page}"));
    }
}

#[test]
fn a_write_of_part_of_a_word_does_nothing() {
    let mut d = bench();
    fill(&mut d);
    let want = all(&mut d);
    for strobes in 0..WHOLE {
        for at in [control::CTRL, mailbox::CMD_IN, mailbox::CMD_GO] {
            write_strobes(&mut d, at, u32::MAX, strobes);
        }
        all_are(&mut d, &want, &format!("after strobes {strobes:#x}"));
    }
}
