//! Parses received frames and makes every check of rule R21 that needs no queue pair.
//!
//! | port | |
//! |---|---|
//! | `rx` | in, no ready: beats from the MAC |
//! | `port` | own addresses; looked at one cycle after the second beat (or the only one) |
//! | `v` | out, no ready: verdict on each frame, in order |
//!
//! The headers lie in the first two beats. Their checks run down a pipeline and wait for the frame's end, where the
//! frame's length and the MAC's error flag join them. The first failed check in the order of `contract::rules::Check`
//! gives the reason; `early` says that it stands before the ICRC in that order. Runts without a whole UDP header count as
//! LENGTH whatever they hold. The end of the packet comes from the IP length: padding behind it is no error.
//!
//! Latency: last beat to `v` 6 cycles. Throughput: a beat a cycle, frames of one beat back to back too.
//! Never: looks at the payload; takes VLAN tags or IPv6 (dropped as Ethertype).
use super::rx_fields::*;
use crate::cfg::*;
use crate::prim::*;
use crate::types::*;
use rocenic_contract::counters::Counter;
use rocenic_contract::wire::{bth, eth, eth::ethertype, ip, ip::v4, udp};
use rtl::{regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

/// Most payload of one packet: PMTU 4096.
const MAX_PAYLOAD: u64 = 4096;
/// Upper four bits of a multicast address, 224.0.0.0/4: no host sends from one.
const MULTICAST: u64 = 0xe;
/// What the 16-bit words of a right IP header add up to.
const RIGHT_SUM: u64 = 0xffff;
/// Beats counted before the count stands still: more than any IP length.
const MAX_BEATS: u64 = (1 << 11) - 2;

/// The first beats of the frame that comes in.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Window {
    /// Complete.
    valid: Bit,
    first: Bits<512>,
    second: Bits<512>,
}
/// End of a frame on its way down the pipeline.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Ending {
    valid: Bit,
    err: Bit,
    bytes: Bits<17>,
}
/// Checks that compare fields with constants and with the port's addresses.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Failed {
    disabled: Bit,
    ethertype: Bit,
    version: Bit,
    ihl: Bit,
    csum: Bit,
    fragment: Bit,
    not_roce: Bit,
    length: Bit,
    bth_version: Bit,
    opcode: Bit,
    dst_mac: Bit,
    dst_ip: Bit,
    qp0: Bit,
    src_ip: Bit,
}
/// Stage 1: fields are cut out.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Cut {
    valid: Bit,
    failed: Failed,
    hdr: RxHdr,
    ext: Bits<EXT_BITS>,
    ip_len: Bits<16>,
    udp_len: Bits<16>,
    /// The IP header's words added in pairs.
    sum0: Bits<17>,
    sum1: Bits<17>,
    sum2: Bits<17>,
    sum3: Bits<17>,
    sum4: Bits<17>,
}
/// Stage 2: opcode looked up.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Looked {
    valid: Bit,
    failed: Failed,
    hdr: RxHdr,
    ext: Bits<EXT_BITS>,
    op: OpcodeBits,
    ip_len: Bits<16>,
    /// IP length less everything that does not depend on the opcode; the top bit is a borrow.
    rest: Bits<17>,
    sum: Bits<20>,
}
/// Stage 3: lengths known; stage 4 makes a reason of the flags.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Measured {
    valid: Bit,
    failed: Failed,
    hdr: RxHdr,
    /// Bytes the frame must have.
    need: Bits<17>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Judged {
    disabled: Bit,
    /// Failed before the frame's length is looked at, and behind.
    outer: Bit,
    outer_reason: Bits<COUNTER_W>,
    length: Bit,
    inner: Bit,
    inner_reason: Bits<COUNTER_W>,
    hdr: RxHdr,
    need: Bits<17>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Verdict {
    valid: Bit,
    v: RxVerdict,
}

const fn number(c: Counter) -> u64 {
    c as u64
}
/// IP word `2 * pair` plus the next one.
#[rtl_fn]
fn pair_sum(w: Bits<WINDOW_BITS>, pair: usize) -> Bits<17> {
    bit_cast::<17, 16>(w.get_bits::<16>(ip_word(2 * pair)))
        + bit_cast::<17, 16>(w.get_bits::<16>(ip_word(2 * pair + 1)))
}

#[rtl_fn]
fn cut(w: Bits<WINDOW_BITS>, port: PortCfg, valid: Bit) -> Cut {
    let h = bth_fields(w);
    let l4_ok = w.get_bits::<{ v4::PROTOCOL.width }>(place(v4::PROTOCOL, L3)) == ip::PROTOCOL_UDP
        && w.get_bits::<{ udp::DPORT.width }>(place(udp::DPORT, L4)) == udp::ROCE_PORT;
    let nobody = h.sip == 0 || !h.sip == 0 || h.sip.get_bits::<4>(28) == MULTICAST;
    Cut {
        valid,
        failed: Failed {
            disabled: !port.enable,
            ethertype: w.get_bits::<{ eth::ETHERTYPE.width }>(place(eth::ETHERTYPE, 0))
                != ethertype::IPV4,
            version: w.get_bits::<{ v4::VERSION.width }>(place(v4::VERSION, L3))
                != v4::VERSION_VALUE,
            ihl: w.get_bits::<{ v4::IHL.width }>(place(v4::IHL, L3)) != v4::IHL_VALUE,
            csum: false,
            fragment: w.get_bit(place(v4::MF, L3))
                || w.get_bits::<{ v4::FRAGMENT.width }>(place(v4::FRAGMENT, L3)) != 0,
            not_roce: !l4_ok,
            length: false,
            bth_version: w.get_bits::<{ bth::VERSION.width }>(place(bth::VERSION, BTH))
                != bth::VERSION_VALUE,
            opcode: false,
            dst_mac: w.get_bits::<{ eth::DST.width }>(place(eth::DST, 0)) != port.mac,
            dst_ip: h.dip != port.ipv4,
            qp0: h.qpn == 0,
            src_ip: nobody,
        },
        hdr: h,
        ext: w.get_bits::<EXT_BITS>(EXT_PLACE),
        ip_len: w.get_bits::<{ v4::TOTAL_LENGTH.width }>(place(v4::TOTAL_LENGTH, L3)),
        udp_len: w.get_bits::<{ udp::LENGTH.width }>(place(udp::LENGTH, L4)),
        sum0: pair_sum(w, 0),
        sum1: pair_sum(w, 1),
        sum2: pair_sum(w, 2),
        sum3: pair_sum(w, 3),
        sum4: pair_sum(w, 4),
    }
}

#[rtl_fn]
fn look(c: Cut) -> Looked {
    let op = opcode_bits(c.hdr.opcode);
    let udp_len = c.ip_len - v4::BYTES as u64;
    Looked {
        valid: c.valid,
        failed: Failed {
            opcode: !op.defined,
            length: c.udp_len != udp_len,
            ..c.failed
        },
        hdr: c.hdr,
        ext: c.ext,
        op,
        ip_len: c.ip_len,
        rest: bit_cast::<17, 16>(c.ip_len) - AROUND_BTH,
        sum: bit_cast::<20, 17>(c.sum0)
            + bit_cast::<20, 17>(c.sum1)
            + (bit_cast::<20, 17>(c.sum2) + bit_cast::<20, 17>(c.sum3))
            + bit_cast::<20, 17>(c.sum4),
    }
}

#[rtl_fn]
fn measure(l: Looked) -> Measured {
    // header lengths are multiples of 4, so the pad goes into their low bits; an undefined opcode has the BTH alone
    let headers = if l.op.defined {
        l.op.header_bytes
    } else {
        bits::<7>(bth::BYTES as u64)
    };
    let pad = if l.op.defined { l.hdr.pad } else { 0.into() };
    let payload = l.rest - bit_cast::<17, 7>(headers | bit_cast::<7, 2>(pad));
    let short = l.rest.get_bit(16) || payload.get_bit(16);
    let odd = l.ip_len.get_bits::<2>(0) != 0;
    let long = payload > MAX_PAYLOAD;
    let extra = l.op.no_payload && payload != 0;
    // one's complement: carries come back in at the bottom
    let sum =
        bit_cast::<17, 16>(l.sum.get_bits::<16>(0)) + bit_cast::<17, 4>(l.sum.get_bits::<4>(16));
    Measured {
        valid: l.valid,
        failed: Failed {
            csum: sum != RIGHT_SUM,
            length: l.failed.length || short || l.op.defined && (odd || long || extra),
            ..l.failed
        },
        hdr: RxHdr {
            payload_at: l.op.header_bytes + BEFORE_BTH,
            payload_len: payload.get_bits::<PLEN_W>(0),
            ..ext_fields(l.hdr, l.ext, l.op)
        },
        need: bit_cast::<17, 16>(l.ip_len) + L3 as u64,
    }
}

#[rtl_fn]
fn judge(m: Measured) -> Judged {
    let f = m.failed;
    Judged {
        disabled: f.disabled,
        outer: f.ethertype || f.version || f.ihl || f.csum || f.fragment || f.not_roce,
        outer_reason: if f.ethertype {
            number(Counter::RxDropEthertype).into()
        } else if f.version {
            number(Counter::RxDropIpVersion).into()
        } else if f.ihl {
            number(Counter::RxDropIhl).into()
        } else if f.csum {
            number(Counter::RxDropIpCsum).into()
        } else if f.fragment {
            number(Counter::RxDropFragment).into()
        } else {
            number(Counter::RxDropNotRoce).into()
        },
        length: f.length,
        inner: f.bth_version || f.opcode || f.dst_mac || f.dst_ip || f.qp0 || f.src_ip,
        inner_reason: if f.bth_version {
            number(Counter::RxDropBthVersion).into()
        } else if f.opcode {
            number(Counter::RxDropOpcode).into()
        } else if f.dst_mac {
            number(Counter::RxDropDstMac).into()
        } else if f.dst_ip {
            number(Counter::RxDropDstIp).into()
        } else if f.qp0 {
            number(Counter::RxDropQp0).into()
        } else {
            number(Counter::RxDropSrcIp).into()
        },
        hdr: m.hdr,
        need: m.need,
    }
}

#[rtl_fn]
fn conclude(j: Judged, e: Ending) -> RxVerdict {
    let runt = e.bytes < BEFORE_BTH;
    let length = j.length || e.bytes < j.need;
    let early = e.err || j.disabled || runt || j.outer || length;
    RxVerdict {
        good: !early && !j.inner,
        early,
        reason: if e.err {
            number(Counter::RxDropMacError).into()
        } else if j.disabled {
            number(Counter::RxDropDisabled).into()
        } else if runt || length && !j.outer {
            number(Counter::RxDropLength).into()
        } else if j.outer {
            j.outer_reason
        } else {
            j.inner_reason
        },
        hdr: j.hdr,
    }
}

#[derive(LogicBlock, Default)]
pub struct RxParse {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub rx_valid: Signal<In, Bit>,
    pub rx: Signal<In, Beat>,
    pub port: Signal<In, PortCfg>,
    pub v_valid: Signal<Out, Bit>,
    pub v: Signal<Out, RxVerdict>,
    reverse: ByteRev<WINDOW_BITS>,
    /// Beats of the frame so far.
    beats: Reg<Bits<11>>,
    window: Reg<Window>,
    cut: Reg<Cut>,
    looked: Reg<Looked>,
    measured: Reg<Measured>,
    judged: Reg<Judged>,
    ending: [Reg<Ending>; 5],
    out: Reg<Verdict>,
}
impl Logic for RxParse {
    #[rtl]
    fn update(&mut self) {
        regs!(
            self, clock, beats, window, cut, looked, measured, judged, out
        );
        let b = self.rx.val();
        let n = self.beats.q.val();
        if self.rx_valid.val() {
            self.beats.d.next = if b.last {
                0.into()
            } else if n == MAX_BEATS {
                n
            } else {
                n + 1
            };
            if n == 0 {
                self.window.d.next.first = b.data;
            } else {
                self.window.d.next.second = b.data;
            }
        }
        // complete with the second beat, or with the only one
        self.window.d.next.valid = self.rx_valid.val() && (n == 1 || n == 0 && b.last);

        let w = self.window.q.val();
        self.reverse.x.next =
            bit_cast::<WINDOW_BITS, 512>(w.second) << 512 | bit_cast::<WINDOW_BITS, 512>(w.first);
        self.cut.d.next = cut(self.reverse.y.val(), self.port.val(), w.valid);
        self.looked.d.next = look(self.cut.q.val());
        self.measured.d.next = measure(self.looked.q.val());
        // stands until the next frame's
        if self.measured.q.val().valid {
            self.judged.d.next = judge(self.measured.q.val());
        }

        // the end of the frame keeps step with the stages
        for k in 0..5 {
            self.ending[k].clock.next = self.clock.val();
            if k > 0 {
                self.ending[k].d.next = self.ending[k - 1].q.val();
            }
        }
        self.ending[0].d.next = Ending {
            valid: self.rx_valid.val() && b.last,
            err: b.err,
            bytes: (bit_cast::<17, 11>(n) << 6) + bit_cast::<17, 7>(b.bytes),
        };
        let e = self.ending[4].q.val();
        self.out.d.next = Verdict {
            valid: e.valid,
            v: conclude(self.judged.q.val(), e),
        };
        self.v_valid.next = self.out.q.val().valid;
        self.v.next = self.out.q.val().v;
        if self.reset.val() {
            self.beats.d.next = 0.into();
            self.window.d.next.valid = false;
            self.cut.d.next.valid = false;
            self.looked.d.next.valid = false;
            self.measured.d.next.valid = false;
            for k in 0..5 {
                self.ending[k].d.next.valid = false;
            }
            self.out.d.next.valid = false;
        }
    }
}
