"""check_capture.py FILE [--harmed N]: every frame of a capture of RoCEv2 traffic, judged by three that do not know each other.

tshark must decode it as RoCEv2, not malformed, with the headers that scapy sees; scapy and a routine on bytes and zlib
must compute the ICRC that stands in it. --harmed N allows N frames whose ICRC is wrong (a wire that flips bits);
--others counts frames that are not to RoCEv2's UDP port instead of refusing them (a neighbour with more to say).
Prints how many frames of each opcode there are.
"""
import argparse
import collections
import json
import subprocess
import sys

import icrc
import pcapng
import roce_server
import shark
from shark import Wrong, number

# what tshark calls the fields, and scapy's reader here
FIELDS = {
    "infiniband.bth.opcode": "opcode",
    "infiniband.bth.se": "solicited",
    "infiniband.bth.m": "migreq",
    "infiniband.bth.padcnt": "padcount",
    "infiniband.bth.tver": "version",
    "infiniband.bth.p_key": "pkey",
    "infiniband.bth.destqp": "dqpn",
    "infiniband.bth.a": "ackreq",
    "infiniband.bth.psn": "psn",
    "udp.srcport": "sport",
    "udp.dstport": "dport",
    "udp.length": "udp_length",
    "ip.len": "ip_length",
}
RETH = ("infiniband.reth.va", 0, 8), ("infiniband.reth.r_key", 8, 12), ("infiniband.reth.dmalen", 12, 16)
AETH = ("infiniband.aeth.syndrome", 0, 1), ("infiniband.aeth.msn", 1, 4)
PORT = (4791).to_bytes(2, "big")
WITH_RETH, ACKNOWLEDGE = (6, 10, 11), 17
EXPERT, MALFORMED, ICRC = "_ws.expert.message", "_ws.malformed", "infiniband.invariant.crc"


def payload_guesses():
    """Protocols that tshark guesses InfiniBand payloads to be."""
    run = subprocess.run(["tshark", "-G", "heuristic-decodes"], capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in run.stdout.splitlines()]
    names = [r[1] for r in rows if r[0] == "infiniband.payload"]
    return [n for n in names if n != "ethertype" and not n.startswith("infiniband.")]


def tshark(path):
    """A dictionary of texts for every frame."""
    names = [*FIELDS, *(n for n, _, _ in RETH + AETH), MALFORMED, EXPERT, ICRC, "frame.protocols"]
    options = ["-o", "ip.check_checksum:TRUE"]
    # what an application sends is its own affair: tshark must not take four bytes for a cut RPC header
    for name in payload_guesses():
        options += ["--disable-protocol", name]
    # nor a payload of 90 00 00 00 for EtherType 9000 and a loop test's frame
    for name in ("eth_over_ib", "mellanox_eoib"):
        options += ["--disable-heuristic", name]
    return shark.fields(path, names, options)


def compare(seen, fields, rest):
    """Both must have read the same."""
    want = {n: fields[f] for n, f in FIELDS.items()}
    parts = RETH if fields["opcode"] in WITH_RETH else AETH if fields["opcode"] == ACKNOWLEDGE else ()
    want.update({n: int.from_bytes(rest[a:b], "big") for n, a, b in parts})
    for name, value in want.items():
        if not seen[name]:
            raise Wrong(f"tshark sees no {name} in opcode {fields['opcode']:#x} ({seen['frame.protocols']})")
        if number(seen[name]) != value:
            raise Wrong(f"{name}: tshark {seen[name]}, scapy {value:#x}")


def roce(frame):
    """A UDP datagram over IPv4 or IPv6 to RoCEv2's port."""
    udp = {b"\x08\x00": (23, 34), b"\x86\xdd": (20, 54)}.get(frame[12:14])
    return bool(udp) and frame[udp[0]:udp[0] + 1] == b"\x11" and frame[udp[1] + 2:udp[1] + 4] == PORT


def check(path, harmed, others):
    decoded = tshark(path)
    frames = list(pcapng.frames(path))
    if len(decoded) != len(frames):
        raise Wrong(f"{len(frames)} frames, tshark saw {len(decoded)}")
    counts, bad, other = collections.Counter(), 0, 0
    for i, (seen, frame) in enumerate(zip(decoded, frames), 1):
        if others and not roce(frame):
            other += 1
            continue
        try:
            try:
                c = roce_server.check(frame)
                good = c["good"]
                if good != (icrc.icrc(frame) == icrc.carried(frame)):
                    raise Wrong("scapy and zlib disagree about the ICRC")
            except (ValueError, IndexError):
                good = False
            if not good:
                bad += 1
                if bad > harmed:
                    raise Wrong("wrong ICRC")
                continue
            if not c["fields"]["ip_checksum_good"]:
                raise Wrong("wrong IP checksum")
            if seen[MALFORMED] or "alformed" in seen[EXPERT]:
                raise Wrong(f"malformed to tshark: {seen[EXPERT]}")
            compare(seen, c["fields"], bytes.fromhex(c["fields"]["rest"]))
            counts[c["fields"]["opcode"]] += 1
        except Wrong as e:
            raise Wrong(f"frame {i} of {path}: {e}\n{frame.hex()}") from None
    return {"frames": len(frames), "others": other, "harmed": bad, "opcodes": {str(k): n for k, n in sorted(counts.items())}}


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("capture")
    a.add_argument("--harmed", type=int, default=0)
    a.add_argument("--others", action="store_true")
    a = a.parse_args()
    try:
        print(json.dumps(check(a.capture, a.harmed, a.others)))
    except (Wrong, ValueError, OSError) as e:
        sys.exit(f"check_capture: {e}")


if __name__ == "__main__":
    main()
