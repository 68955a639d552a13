"""rebuild.py CAPTURE --out FILE: the memory that RDMA WRITEs of a capture wrote, from the capture alone.

Packets count by PSN, so lost, doubled, late and repeated ones do not matter as long as each came once unharmed; a frame
with a wrong ICRC has not come. Of several remote regions the largest is taken, or the one of --rkey; of a region, the
bytes from the lowest address written to the highest, which must have no hole.
"""
import argparse
import hashlib
import struct
import sys
import zlib

import pcapng

PORT = 4791
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM, WRITE_ONLY, WRITE_ONLY_IMM = range(6, 12)
HALF = 1 << 23


class Failed(Exception):
    pass


def packet(frame):
    """Stream, opcode, PSN and what follows the BTH without pad; None when it is not a good RoCEv2 frame over IPv4."""
    if len(frame) < 58 or frame[12:14] != b"\x08\x00" or frame[14] != 0x45 or frame[23] != 17:
        return None
    length = struct.unpack_from("!H", frame, 16)[0]
    if length < 44 or 14 + length > len(frame) or struct.unpack_from("!H", frame, 36)[0] != PORT:
        return None
    body = frame[14:14 + length]
    m = bytearray(body[:-4])
    m[1] = m[8] = m[10] = m[11] = m[26] = m[27] = m[32] = 0xff
    if zlib.crc32(b"\xff" * 8 + bytes(m)) != struct.unpack("<I", body[-4:])[0]:
        return None
    bth = body[28:40]
    pad = bth[1] >> 4 & 3
    stream = (body[12:16], body[16:20], bth[5:8])
    return stream, bth[0], int.from_bytes(bth[9:12], "big"), body[40:length - 4 - pad]


def streams(path):
    """Packets of each stream by PSN, counted on across the wrap; and how many frames were doubles."""
    found, newest, requests, bad = {}, {}, 0, 0
    for frame in pcapng.frames(path):
        p = packet(frame)
        if p is None:
            bad += 1
            continue
        stream, opcode, psn, rest = p
        if opcode >> 5 or opcode in (16, 17):
            continue                        # not a request of a reliable connection
        last = newest.get(stream, psn)
        psn = last + (psn - last + HALF) % (2 * HALF) - HALF
        newest[stream] = max(last, psn)
        if found.setdefault(stream, {}).setdefault(psn, (opcode, rest)) != (opcode, rest):
            raise Failed(f"PSN {psn % (2 * HALF):#x} came twice with different contents")
        requests += 1
    return found, requests - sum(len(s) for s in found.values()), bad


def writes(packets):
    """(rkey, address, bytes) of every WRITE packet, in the order of PSNs."""
    at = None                               # (rkey, address, PSN) of what comes next in an open message
    for psn in sorted(packets):
        opcode, rest = packets[psn]
        if not WRITE_FIRST <= opcode <= WRITE_ONLY_IMM:
            continue
        if opcode in (WRITE_FIRST, WRITE_ONLY, WRITE_ONLY_IMM):
            va, rkey, _ = struct.unpack_from("!QII", rest)
            rest = rest[16:]
        else:
            if at is None or at[2] != psn:
                raise Failed(f"a packet before PSN {psn % (2 * HALF):#x} is not in the capture")
            rkey, va, _ = at
        if opcode in (WRITE_LAST_IMM, WRITE_ONLY_IMM):
            rest = rest[4:]
        yield rkey, va, rest
        at = (rkey, va + len(rest), psn + 1) if opcode in (WRITE_FIRST, WRITE_MIDDLE) else None


def rebuild(path, rkey=None):
    found, doubles, bad = streams(path)
    regions = {}
    for stream, packets in found.items():
        for key, va, data in writes(packets):
            if data and rkey in (None, key):
                regions.setdefault((stream[1], key), []).append((va, data))
    if not regions:
        raise Failed(f"no RDMA WRITE in {path}" + (f" with rkey {rkey:#x}" if rkey is not None else ""))
    pieces = max(regions.values(), key=lambda r: sum(len(d) for _, d in r))
    start = min(va for va, _ in pieces)
    size = max(va + len(d) for va, d in pieces) - start
    if size > sum(len(d) for _, d in pieces):
        raise Failed(f"{size} bytes from {start:#x} on, but the WRITEs brought only {sum(len(d) for _, d in pieces)}")
    memory, written = bytearray(size), bytearray(size)
    for va, data in pieces:
        at = va - start
        memory[at:at + len(data)] = data
        written[at:at + len(data)] = b"\1" * len(data)
    hole = written.find(0)
    if hole >= 0:
        raise Failed(f"nothing was written at {start + hole:#x}, inside the region")
    return bytes(memory), sum(len(s) for s in found.values()), doubles, bad


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("capture")
    a.add_argument("--out", required=True)
    a.add_argument("--rkey", type=lambda t: int(t, 0))
    a = a.parse_args()
    try:
        data, requests, doubles, bad = rebuild(a.capture, a.rkey)
    except (Failed, ValueError, OSError) as e:
        sys.exit(f"rebuild: {e}")
    with open(a.out, "wb") as file:
        file.write(data)
    print(f"{len(data)} bytes from {requests} request packets, {doubles} more that were repeated, {bad} frames not good")
    print(f"SHA-256 {hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main()
