"""RoCEv2 frames by scapy, and an ICRC of our own, for the Rust tests: one JSON object a line in, one out.

{"op": "make", ...}   a frame from fields, ICRC by scapy          -> {"frame": hex}
{"op": "check", "frame": hex}  dissect and rebuild with scapy     -> {"good": bool, "icrc": hex, "fields": {...}}
{"op": "icrc", "frame": hex}   ICRC by masking bytes and zlib     -> {"icrc": hex}
An exception becomes {"error": text}.

The two ICRCs share only zlib's crc32: scapy builds a masked packet from its layers, `masked` edits bytes.
"""
import json
import sys

from scapy.config import conf

conf.logLevel = 40
from scapy.contrib.roce import BTH  # noqa: E402
from scapy.layers.inet import IP, UDP  # noqa: E402
from scapy.layers.inet6 import IPv6  # noqa: E402
from scapy.layers.l2 import Dot1Q, Ether  # noqa: E402
from scapy.packet import Raw  # noqa: E402

from icrc import icrc, masked  # noqa: E402


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


def serve(answer):
    """A JSON object a line in, one out; an exception becomes {"error": text}."""
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception as e:  # the test must see any of them
            reply = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    serve(answer)
