"""RoCEv2 frames by scapy, and an ICRC of our own, for the Rust tests: one JSON object a line in, one out.

{"op": "make", ...}   a frame from fields, ICRC by scapy          -> {"frame": hex}
{"op": "check", "frame": hex}  dissect and rebuild with scapy     -> {"good": bool, "icrc": hex, "fields": {...}}
{"op": "icrc", "frame": hex}   ICRC by masking bytes and zlib     -> {"icrc": hex}
An exception becomes {"error": text}.

The two ICRCs share only zlib's crc32: scapy builds a masked packet from its layers, `masked` edits bytes.
"""
import json
import struct
import sys
import zlib

from scapy.config import conf

conf.logLevel = 40
from scapy.contrib.roce import BTH  # noqa: E402
from scapy.layers.inet import IP, UDP  # noqa: E402
from scapy.layers.inet6 import IPv6  # noqa: E402
from scapy.layers.l2 import Dot1Q, Ether  # noqa: E402
from scapy.packet import Raw  # noqa: E402


def masked(frame):
    """Bytes under the ICRC (IBTA annex A17, 7.8.1), and where it stands."""
    at = 12
    while frame[at:at + 2] in (b"\x81\x00", b"\x88\xa8"):
        at += 4
    kind, at = frame[at:at + 2], at + 2
    b = bytearray(frame[at:])
    if kind == b"\x08\x00":
        ihl = (b[0] & 15) * 4
        length = struct.unpack("!H", b[2:4])[0]
        b[1] = 0xff                     # type of service
        b[8] = 0xff                     # time to live
        b[10:12] = b"\xff\xff"          # header checksum
        udp = ihl
    elif kind == b"\x86\xdd":
        length = 40 + struct.unpack("!H", b[4:6])[0]
        b[0] |= 0x0f                    # traffic class
        b[1:4] = b"\xff\xff\xff"        # traffic class, flow label
        b[7] = 0xff                     # hop limit
        udp = 40
    else:
        raise ValueError("neither IPv4 nor IPv6")
    if len(b) < length or length < udp + 8 + 12 + 4:
        raise ValueError(f"IP length {length} does not fit the frame of {len(frame)} bytes")
    b[udp + 6:udp + 8] = b"\xff\xff"    # UDP checksum
    b[udp + 8 + 4] = 0xff               # BTH: FECN, BECN, reserved
    end = length - 4
    return bytes(b"\xff" * 8 + b[:end]), at + end


def icrc(frame):
    return struct.pack("<I", zlib.crc32(masked(frame)[0]) & 0xffffffff)


def make(q):
    p = Ether(dst=q["dmac"], src=q["smac"])
    for tag in q.get("vlans", []):
        p /= Dot1Q(vlan=tag & 0xfff, prio=tag >> 13)
    if ":" in q["dip"]:
        p /= IPv6(src=q["sip"], dst=q["dip"], tc=q["tos"], hlim=q["ttl"], fl=q.get("flow", 0))
    else:
        p /= IP(src=q["sip"], dst=q["dip"], tos=q["tos"], ttl=q["ttl"], id=q["ip_id"], flags="DF" if q["df"] else 0)
    bth = {k: q[k] for k in ("opcode", "psn", "dqpn", "ackreq", "solicited", "migreq", "padcount", "pkey", "fecn", "becn")}
    p /= UDP(sport=q["sport"], dport=q.get("dport", 4791), chksum=0) / BTH(**bth) / Raw(bytes.fromhex(q["rest"]))
    return bytes(p)


def check(frame):
    end = masked(frame)[1] + 4
    p = Ether(frame[:end])
    bth = p[BTH]
    fields = {k: int(getattr(bth, k)) for k in
              ("opcode", "solicited", "migreq", "padcount", "version", "pkey", "fecn", "becn", "dqpn", "ackreq", "psn")}
    ip = p.getlayer(IP) or p.getlayer(IPv6)
    udp = p[UDP]
    fields.update(sip=ip.src, dip=ip.dst, sport=udp.sport, dport=udp.dport, udp_length=udp.len,
                  dmac=p.dst, smac=p.src, rest=bytes(bth.payload).hex())
    if isinstance(ip, IP):
        fields.update(ip_length=ip.len, ttl=ip.ttl, tos=ip.tos, ip_id=ip.id)
        given = ip.chksum
        again = ip.copy()
        again.chksum = None
        fields["ip_checksum_good"] = IP(bytes(again)).chksum == given
    else:
        fields.update(ip_length=ip.plen, ttl=ip.hlim, tos=ip.tc, ip_checksum_good=True)
    want = bth.compute_icrc(b"")
    return {"good": want == frame[end - 4:end], "icrc": want.hex(), "fields": fields}


def answer(q):
    if q["op"] == "make":
        return {"frame": make(q).hex()}
    frame = bytes.fromhex(q["frame"])
    if q["op"] == "check":
        return check(frame)
    if q["op"] == "icrc":
        return {"icrc": icrc(frame).hex()}
    raise ValueError(f"unknown op {q['op']}")


for line in sys.stdin:
    try:
        reply = answer(json.loads(line))
    except Exception as e:  # the test must see any of them
        reply = {"error": f"{type(e).__name__}: {e}"}
    print(json.dumps(reply), flush=True)
