//! The documents and the C header that come from the contract.
use rocenic_contract::cmd::{self, qp_state::QpState};
use rocenic_contract::layout::{Access, Layout, Order, RegPage, Values};
use rocenic_contract::rules::{Completion, RULES, Recovery, Reply, Rule};
use rocenic_contract::{
    HOST_LAYOUTS, LAYOUT_HASH, VALUES, VERSION, caps, opcode, regs, rqe, sge, syndrome, wire, wqe,
};
use std::fmt::Write;

/// Path below the workspace's root, and the text it must have.
pub fn documents() -> Vec<(&'static str, String)> {
    vec![
        ("docs/registers.md", registers()),
        ("docs/wire.md", wire_formats()),
        ("contract/include/rocenic.h", header()),
    ]
}

const NOTE: &str =
    "Generated from `contract/` by `cargo xtask gen`; change the declarations there.\n";

macro_rules! line { ($o:expr, $($t:tt)*) => { writeln!($o, $($t)*).expect("a String takes all") } }

fn registers() -> String {
    let mut o = String::new();
    line!(o, "# Registers, commands and ring entries\n\n{NOTE}");
    line!(
        o,
        "Contract version {}.{}, layout hash `{LAYOUT_HASH:#018x}`. Everything here is little-endian.\n",
        VERSION >> 16,
        VERSION & 0xffff
    );
    line!(o, "## BAR0\n");
    line!(
        o,
        "{} KiB, AXI4-Lite, 32 bits. Doorbell page i is at `{:#x} + i * {:#x}` ({} pages); its push window is at `i * {:#x}` in BAR2. The page at `{:#x}` belongs to the PCIe shell (MSI-X).\n",
        regs::BAR0_BYTES >> 10,
        regs::DOORBELL_BASE,
        regs::PAGE_BYTES,
        regs::DOORBELL_PAGES,
        regs::PAGE_BYTES,
        regs::MSIX_PAGE
    );
    for p in regs::PAGES {
        page(&mut o, &p);
    }
    line!(o, "## Layouts\n");
    for l in HOST_LAYOUTS.iter().chain(&cmd::LAYOUTS) {
        layout(&mut o, l);
    }
    line!(o, "## Queue pair states\n");
    line!(
        o,
        "Any state may go to RESET and to ERROR. Beside that, with the attribute bits that must be given:\n"
    );
    line!(
        o,
        "| from | to | RC must give | UC must give | may give |\n|---|---|---|---|---|"
    );
    for t in cmd::TRANSITIONS {
        line!(
            o,
            "| {} | {} | {} | {} | {} |",
            t.from,
            t.to,
            bits(&cmd::attr::VALUES, t.required_rc),
            bits(&cmd::attr::VALUES, t.required_uc),
            bits(&cmd::attr::VALUES, t.optional)
        );
    }
    line!(o, "\n## Numbers\n");
    for v in VALUES.iter().filter(|v| !on_the_wire(v)) {
        values(&mut o, v);
    }
    rules(&mut o);
    o
}

/// Lists that belong on the page of the wire formats.
fn on_the_wire(v: &Values) -> bool {
    ["BthOpcode", "AethKind", "NakCode", "Ethertype", "Ecn"].contains(&v.name)
}

fn wire_formats() -> String {
    let mut o = String::new();
    line!(o, "# Wire formats\n\n{NOTE}");
    line!(
        o,
        "Network order; bit offsets count from the first bit on the wire. Every packet ends with a {}-byte ICRC.\n",
        wire::ICRC_BYTES
    );
    line!(o, "## Headers\n");
    for l in &wire::LAYOUTS {
        layout(&mut o, l);
    }
    line!(o, "## Opcodes\n");
    line!(
        o,
        "`headers` is what follows the BTH; `bytes` is the length from the beginning of the BTH to the payload. RD and XRC opcodes are undefined here.\n"
    );
    line!(
        o,
        "| opcode | name | position | direction | headers | bytes | payload | pad | takes a receive WQE | completes it |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    let yes = |b| if b { "yes" } else { "" };
    for r in &opcode::LIST {
        let h: Vec<_> = opcode::HEADERS
            .iter()
            .filter(|h| r.has(h.0))
            .map(|h| h.1)
            .collect();
        let payload = match r.payload {
            opcode::Payload::None => "none",
            opcode::Payload::Full => "PMTU",
            opcode::Payload::Tail => "1 to PMTU",
            opcode::Payload::Any => "0 to PMTU",
        };
        line!(
            o,
            "| {:#04x} | {} | {:?} | {:?} | {} | {} | {payload} | {} | {} | {} |",
            r.code,
            r.name,
            r.position,
            r.direction,
            h.join(", "),
            r.header_bytes,
            yes(r.pad_allowed()),
            yes(r.needs_rqe),
            yes(r.completes_rqe)
        );
    }
    line!(o, "\n## Numbers\n");
    for v in VALUES
        .iter()
        .filter(|v| on_the_wire(v) && v.name != "BthOpcode")
    {
        values(&mut o, v);
    }
    line!(o, "### RNR timer\n\n| code | µs |\n|---|---|");
    for (i, _) in syndrome::RNR_TIMER_10US.iter().enumerate() {
        line!(o, "| {i} | {} |", syndrome::rnr_ns(i as u8) / 1000);
    }
    o
}

fn page(o: &mut String, p: &RegPage) {
    line!(o, "### Page {}\n\n{}\n", p.name, p.doc);
    line!(
        o,
        "| address | register | access | reset | what |\n|---|---|---|---|---|"
    );
    for r in p.regs {
        let a = match r.access {
            Access::RO => "RO",
            Access::RW => "RW",
            Access::WO => "WO",
        };
        let n = if r.words == 1 {
            String::new()
        } else {
            format!("[{}]", r.words)
        };
        line!(
            o,
            "| {:#06x} | {}{n} | {a} | {:#x} | {} |",
            r.addr,
            r.name,
            r.reset,
            r.doc
        );
    }
    line!(o, "");
}

fn layout(o: &mut String, l: &Layout) {
    let at = if l.base > 0 {
        format!(" from byte {}", l.base)
    } else {
        String::new()
    };
    line!(
        o,
        "### {}\n\n{} {} bytes{at}. Source: {}.\n",
        l.name,
        flat(l.doc),
        l.bytes,
        l.source
    );
    line!(
        o,
        "| byte | bits | field | width | what |\n|---|---|---|---|---|"
    );
    for f in l.fields {
        let (first, last) = match l.order {
            Order::Little => (f.offset % 8 + f.width - 1, f.offset % 8),
            // counted from the most significant bit of the field's last byte
            Order::Big => {
                let low = (8 - (f.offset + f.width) % 8) % 8;
                (low + f.width - 1, low)
            }
        };
        line!(
            o,
            "| {} | {first}:{last} | {} | {} | {} |",
            f.byte(),
            f.name,
            f.width,
            f.doc
        );
    }
    line!(o, "");
}

fn values(o: &mut String, v: &Values) {
    line!(
        o,
        "### {}\n\n{} Source: {}.\n",
        v.name,
        flat(v.doc),
        v.source
    );
    line!(o, "| number | name | what |\n|---|---|---|");
    for x in v.values {
        line!(o, "| {:#x} | {} | {} |", x.value, x.name, x.doc);
    }
    line!(o, "");
}

/// Doc lines as one paragraph.
fn flat(doc: &str) -> String {
    doc.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

fn bits(v: &Values, set: u64) -> String {
    let names: Vec<_> = v
        .values
        .iter()
        .filter(|x| set & x.value != 0)
        .map(|x| x.name)
        .collect();
    names.join(" ")
}

fn rules(o: &mut String) {
    line!(
        o,
        "## Failed checks\n\nThe first check that fails, in the order of its number, decides. An event is written when the completion completes nothing.\n"
    );
    line!(
        o,
        "| check | transport | classes | states | reply | recovery | completion | event | counter | next |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    for r in &RULES {
        rule(o, r);
    }
}

fn rule(o: &mut String, r: &Rule) {
    let transports = cmd::transport::QpTransport::ALL;
    let t: Vec<_> = transports
        .iter()
        .filter(|&&t| r.transports >> t as u8 & 1 == 1)
        .map(|t| t.name())
        .collect();
    let mut classes: Vec<String> = vec![];
    for c in &opcode::LIST {
        let n = format!("{:?}", c.class);
        if r.classes >> c.class as u16 & 1 == 1 && !classes.contains(&n) {
            classes.push(n);
        }
    }
    let states: Vec<_> = QpState::ALL
        .iter()
        .filter(|&&s| r.states >> s as u8 & 1 == 1)
        .map(|s| s.name())
        .collect();
    let all = |v: Vec<String>, n: usize| {
        if v.len() == n {
            "any".into()
        } else {
            v.join(" ")
        }
    };
    let reply = match r.reply {
        Reply::Nothing => String::new(),
        Reply::Ack => "ACK".into(),
        Reply::Again => "same answer again".into(),
        Reply::Nak(c) => format!("NAK {c}"),
        Reply::RnrNak => "RNR NAK".into(),
    };
    let recovery = match r.recovery {
        Recovery::Nothing => "",
        Recovery::Retry => "retry",
        Recovery::RetryLater => "retry after the RNR time",
    };
    let completion = match r.completion {
        Completion::Nothing => String::new(),
        Completion::Send(s) => format!("send: {s}"),
        Completion::Receive(s) => format!("receive: {s}"),
        Completion::Flush => "all: WR_FLUSH_ERR".into(),
    };
    line!(
        o,
        "| {} | {} | {} | {} | {reply} | {recovery} | {completion} | {} | {} | {} |",
        r.check,
        all(t.iter().map(|s| s.to_string()).collect(), transports.len()),
        all(classes, 9),
        all(
            states.iter().map(|s| s.to_string()).collect(),
            QpState::ALL.len()
        ),
        r.event.map_or("", |e| e.name()),
        r.counter.info().name,
        r.next.map_or("", |s| s.name())
    );
}

fn header() -> String {
    let mut o = String::new();
    line!(o, "/* The contract between host and hardware of Rocenic.");
    line!(
        o,
        "   Generated from contract/ by `cargo xtask gen`; change the declarations there. */"
    );
    line!(
        o,
        "#ifndef ROCENIC_H\n#define ROCENIC_H\n#include <stdint.h>\n"
    );
    define(&mut o, "VERSION", VERSION as u64);
    define(&mut o, "LAYOUT_HASH", LAYOUT_HASH);
    define(&mut o, "MAGIC", regs::MAGIC_VALUE as u64);
    define(&mut o, "BAR0_BYTES", regs::BAR0_BYTES);
    define(&mut o, "BAR2_BYTES", regs::BAR2_BYTES);
    define(&mut o, "PAGE_BYTES", regs::PAGE_BYTES);
    define(&mut o, "DOORBELL_BASE", regs::DOORBELL_BASE);
    define(&mut o, "DOORBELL_PAGES", regs::DOORBELL_PAGES);
    define(&mut o, "WQE_MAX_SGE", wqe::MAX_SGE as u64);
    define(&mut o, "WQE_MAX_INLINE", wqe::MAX_INLINE as u64);
    define(&mut o, "RQE_MAX_SGE", rqe::MAX_SGE as u64);
    define(&mut o, "SGE_END_LKEY", sge::END_LKEY as u64);
    define(&mut o, "MAX_MSG_BYTES", caps::MAX_MSG_BYTES);
    define(&mut o, "ROCE_PORT", wire::udp::ROCE_PORT);
    for p in regs::PAGES {
        line!(o, "\n/* registers: {} */", p.name);
        for r in p.regs {
            define(
                &mut o,
                &format!("REG_{}_{}", p.name.to_uppercase(), r.name),
                r.addr,
            );
        }
    }
    for v in VALUES {
        line!(o, "\n/* {} */", flat(v.doc));
        for x in v.values {
            define(&mut o, &format!("{}_{}", upper(v.name), x.name), x.value);
        }
    }
    line!(
        o,
        "\n/* Layouts: first bit (little-endian numbering for host layouts, from the first bit on the wire for\n   headers) and width of each field. */"
    );
    for l in HOST_LAYOUTS
        .iter()
        .chain(&cmd::LAYOUTS)
        .chain(&wire::LAYOUTS)
    {
        line!(o, "\n/* {} */", flat(l.doc));
        let n = upper(l.name);
        define(&mut o, &format!("{n}_BYTES"), l.bytes as u64);
        for f in l.fields {
            let f_name = f.name.to_uppercase();
            define(&mut o, &format!("{n}_{f_name}_BIT"), f.offset as u64);
            define(&mut o, &format!("{n}_{f_name}_WIDTH"), f.width as u64);
        }
    }
    line!(o, "\n#endif");
    o
}

fn define(o: &mut String, name: &str, v: u64) {
    if v >> 32 != 0 {
        line!(o, "#define ROCENIC_{name} UINT64_C({v:#x})");
    } else {
        line!(o, "#define ROCENIC_{name} {v:#x}u");
    }
}

/// `CreateQp` as `CREATE_QP`.
fn upper(camel: &str) -> String {
    let mut o = String::new();
    for (i, c) in camel.chars().enumerate() {
        if c.is_uppercase() && i > 0 {
            o.push('_');
        }
        o.extend(c.to_uppercase());
    }
    o
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_defines_no_name_twice_and_is_taken_by_a_c_compiler() {
        let text = header();
        let mut names: Vec<_> = text
            .lines()
            .filter_map(|l| l.strip_prefix("#define ")?.split(' ').next())
            .collect();
        names.sort_unstable();
        for w in names.windows(2) {
            assert_ne!(w[0], w[1]);
        }
        let dir = std::env::temp_dir().join(format!("rocenic-header-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let c = dir.join("t.c");
        std::fs::write(dir.join("rocenic.h"), &text).unwrap();
        std::fs::write(
            &c,
            "#include \"rocenic.h\"\nint main(void) { return ROCENIC_WQE_BYTES == 64 ? 0 : 1; }\n",
        )
        .unwrap();
        let out = std::process::Command::new("cc")
            .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-std=c99", "-o"])
            .arg(dir.join("t"))
            .arg(&c)
            .output()
            .expect("the linker that builds this workspace is a C compiler");
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        assert!(
            std::process::Command::new(dir.join("t"))
                .status()
                .unwrap()
                .success()
        );
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
