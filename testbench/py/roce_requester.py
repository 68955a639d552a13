"""A reliable-connection requester that is not ours: scapy builds its requests and dissects what a NIC answers.

JSON lines as in roce_server.py:
{"op": "setup", "qpn", "peer_qpn", "psn", "pmtu", "size", "mac", "ip", "peer_mac", "peer_ip", "scenario", ...}
    qpn is the requester's, peer_qpn the NIC's, psn the first it sends
{"op": "frame", "frame": hex}   -> {"replies": [hex]}
{"op": "end"}                   -> {"done": bool, "reads": n, "packets": n}

The NIC's host begins with a SEND of rkey, virtual address (8 and 8 bytes, big endian) and the bytes of a region, of which
the requester keeps a copy. The scenario runs then; at its end the requester sends a SEND of no bytes, which tells the
host. Every frame must be the very one that the specification asks for: addresses, lengths, ICRC by scapy and by zlib,
opcode, PSN, syndrome, MSN, payload. Anything else is an error that ends the test.
"""
import random

from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

import icrc
import roce_server

PSNS = 1 << 24
SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY, SEND_ONLY_INV = 0, 1, 2, 4, 0x17
WRITE_ONLY, READ, ACK = 0x0a, 0x0c, 0x11
FIRST, MIDDLE, LAST, ONLY = 0x0d, 0x0e, 0x0f, 0x10
ATOMIC_ACK, SWAP, ADD = 0x12, 0x13, 0x14
WORDS = 1 << 64
GOOD, INVALID, ACCESS = 0x1f, 0x61, 0x62


class Wrong(Exception):
    pass


def need(ok, what):
    if not ok:
        raise Wrong(what)


class Requester:
    def __init__(self, q):
        self.q = q
        self.psn, self.pmtu = q["psn"], q["pmtu"]
        self.msn = 0
        self.random = random.Random(q.get("seed", 1))
        self.hello = b""
        self.memory = None
        self.reads = self.packets = 0
        self.done = False
        self.script = self.run()
        self.out = next(self.script)

    # frames

    def request(self, opcode, psn, rest=b"", ackreq=0):
        q = self.q
        p = Ether(dst=q["peer_mac"], src=q["mac"])
        p /= IP(src=q["ip"], dst=q["peer_ip"], ttl=64, flags="DF")
        p /= UDP(sport=49152, dport=4791, chksum=0)
        pad = -len(rest) % 4
        p /= BTH(opcode=opcode, dqpn=q["peer_qpn"], psn=psn % PSNS, migreq=1, padcount=pad, ackreq=ackreq)
        if opcode == ACK:
            p /= AETH(syndrome=GOOD, msn=self.msn % PSNS)
        return bytes(p / Raw(rest + bytes(pad))) if rest else bytes(p)

    def reth(self, va, length, rkey=None):
        return va.to_bytes(8, "big") + (self.rkey if rkey is None else rkey).to_bytes(4, "big") + length.to_bytes(4, "big")

    def ask(self, at, length, psn):
        return self.request(READ, psn, self.reth((self.va + at) % (1 << 64), length), ackreq=1)

    def write(self, at, data):
        self.memory[at:at + len(data)] = data
        frame = self.request(WRITE_ONLY, self.psn, self.reth(self.va + at, len(data)) + data, ackreq=1)
        self.psn += 1
        self.msn += 1
        return frame

    def check(self, frame):
        q = self.q
        c = roce_server.check(frame)
        need(c["good"], "scapy computes another ICRC")
        need(icrc.icrc(frame).hex() == c["icrc"], "zlib computes another ICRC than scapy")
        f = c["fields"]
        for name, want in (("dmac", q["mac"]), ("smac", q["peer_mac"]), ("sip", q["peer_ip"]), ("dip", q["ip"]),
                           ("dport", 4791), ("dqpn", q["qpn"]), ("version", 0), ("pkey", 0xffff), ("ttl", 64)):
            need(f[name] == want, f"{name} is {f[name]}, not {want}")
        need(f["ip_checksum_good"], "IP checksum is wrong")
        need(f["udp_length"] == f["ip_length"] - 20, "UDP and IP lengths disagree")
        rest = bytes.fromhex(f.pop("rest"))
        if f["opcode"] in (FIRST, LAST, ONLY, ACK, ATOMIC_ACK):
            f["syndrome"], f["msn"] = rest[0], int.from_bytes(rest[1:4], "big")
            rest = rest[4:]
        if f["opcode"] in (FIRST, MIDDLE, LAST, ONLY, ACK, ATOMIC_ACK):
            need(not f["ackreq"], "a response asks for an ACK")
        pad = f["padcount"]
        need(len(rest) % 4 == 0 and rest[len(rest) - pad:] == bytes(pad), "pad is wrong")
        f["data"] = rest[:len(rest) - pad]
        return f

    # what must come

    def expect_ack(self, psn, syndrome=GOOD, out=()):
        f = yield list(out)
        got = tuple(f.get(k) for k in ("opcode", "psn", "syndrome", "msn"))
        want = (ACK, psn % PSNS, syndrome, self.msn % PSNS)
        need(got == want, f"expected ACK {want}, got {got}")

    def packets_of(self, length):
        return max(1, -(-length // self.pmtu))

    def expect_read(self, at, length, psn, msn, out=(), skip=False):
        """The response to a READ; with `skip`, packets before its First or Only are those of an earlier run."""
        n = self.packets_of(length)
        out = list(out)
        for i in range(n):
            f = yield out
            out = []
            while skip and (f["psn"] != psn % PSNS or f["opcode"] not in (FIRST, ONLY)):
                f = yield []
            skip = False
            self.packets += 1
            opcode = ONLY if n == 1 else FIRST if i == 0 else LAST if i == n - 1 else MIDDLE
            got, want = (f["opcode"], f["psn"]), (opcode, (psn + i) % PSNS)
            need(got == want, f"READ of {length} bytes, packet {i} of {n}: expected {want}, got {got}")
            if opcode != MIDDLE:
                got, want = (f["syndrome"], f["msn"]), (GOOD, msn % PSNS)
                need(got == want, f"READ of {length} bytes, packet {i}: expected AETH {want}, got {got}")
            part = self.memory[at + i * self.pmtu:at + min(length, (i + 1) * self.pmtu)]
            need(f["data"] == part, f"READ of {length} bytes at {at}: data of packet {i} differs")
        self.reads += 1

    def read(self, at, length):
        """A READ, and its response. Gives its PSN and MSN."""
        psn = self.psn
        self.psn += self.packets_of(length)
        self.msn += 1
        yield from self.expect_read(at, length, psn, self.msn, [self.ask(at, length, psn)])
        return psn, self.msn

    def atomic(self, opcode, at, operand, compare, psn, rkey=None):
        rest = self.reth(self.va + at, 0, rkey)[:12]
        return self.request(opcode, psn, rest + operand.to_bytes(8, "big") + compare.to_bytes(8, "big"), ackreq=1)

    def expect_atomic(self, psn, msn, original, out=()):
        f = yield list(out)
        got = tuple(f.get(k) for k in ("opcode", "psn", "syndrome", "msn"))
        want = (ATOMIC_ACK, psn % PSNS, GOOD, msn % PSNS)
        need(got == want, f"expected atomic ACK {want}, got {got}")
        need(len(f["data"]) == 8, f"{len(f['data'])} bytes in an atomic ACK")
        got = int.from_bytes(f["data"], "big")
        need(got == original, f"atomic of PSN {psn}: original {got:#x}, not {original:#x}")
        self.reads += 1
        self.packets += 1

    def execute(self, opcode, at, operand, compare):
        """On the copy of the region; gives the frame, PSN, MSN and what was there."""
        old = int.from_bytes(self.memory[at:at + 8], "little")
        new = (old + operand) % WORDS if opcode == ADD else operand if old == compare else old
        self.memory[at:at + 8] = new.to_bytes(8, "little")
        frame = self.atomic(opcode, at, operand, compare, self.psn)
        self.psn += 1
        self.msn += 1
        return frame, self.psn - 1, self.msn, old

    def refused(self, frame, syndrome):
        yield from self.expect_ack(self.psn, syndrome, [frame])

    # scenarios

    def every_length(self):
        m = self.pmtu
        for i, length in enumerate((0, 1, 3, 4, 63, 64, 65, m - 1, m, m + 1, 2 * m, 3 * m - 1, 8 * m, 9 * m + 5, 17 * m)):
            yield from self.read((i * 61 + 3) % 64, length)
        for at in range(64):
            yield from self.read(at, 2 * m + 64 - at)

    def many(self):
        """As many outstanding as there may be, WRITEs between them: answers come in the order of the PSNs."""
        place = self.q["size"] - 200
        for turn in range(6):
            out, wait = [], []
            for i in range(self.q["depth"]):
                at, length = self.random.randrange(1000), self.random.randrange(1, 3 * self.pmtu)
                out.append(self.ask(at, length, self.psn))
                self.msn += 1
                wait.append((at, length, self.psn, self.msn, bytes(self.memory[at:at + length])))
                self.psn += self.packets_of(length)
            written = self.psn
            out.append(self.write(place, self.random.randbytes(100)))
            for at, length, psn, msn, data in wait:
                yield from self.expect_read(at, length, psn, msn, out)
                out = []
            yield from self.expect_ack(written)
            yield from self.read(place, 100)

    def repeated(self):
        """Duplicates, whole and from the middle, also of READs long past; then silence for those too old."""
        past = []
        for length in (10, 5 * self.pmtu, 0, 2 * self.pmtu + 9, 20 * self.pmtu):
            at = self.random.randrange(100)
            past.append((at, length, *(yield from self.read(at, length))))
        for at, length, psn, msn in past:
            for k in {0, self.packets_of(length) // 2, self.packets_of(length) - 1}:
                skip = k * self.pmtu
                again = self.ask(at + skip, length - skip, psn + k)
                yield from self.expect_read(at + skip, length - skip, psn + k, msn, [again])
        # go back: the second, all behind it, and a new one
        back = [self.ask(at, length, psn) for at, length, psn, _ in past[1:]]
        for i, (at, length, psn, msn) in enumerate(past[1:]):
            yield from self.expect_read(at, length, psn, msn, back if i == 0 else [])
        for i in range(16):
            yield from self.read(i, 100)
        old = self.ask(past[1][0], past[1][1], past[1][2])
        psn = self.psn
        self.psn += 1
        self.msn += 1
        yield from self.expect_read(1, 2, psn, self.msn, [old, self.ask(1, 2, psn)])

    def lost(self):
        """Packets of responses are lost, and asked for again while the rest still comes."""
        for length in (12 * self.pmtu, 40 * self.pmtu + 1):
            for k in (0, 1, 7, 8, 9, self.packets_of(length) - 1):
                psn = self.psn
                n = self.packets_of(length)
                self.psn += n
                self.msn += 1
                out = [self.ask(3, length, psn)]
                for _ in range(min(k + 2, n)):
                    yield out
                    out = []
                skip = k * self.pmtu
                again = self.ask(3 + skip, length - skip, psn + k)
                yield from self.expect_read(3 + skip, length - skip, psn + k, self.msn, [again], skip=True)

    def gap(self):
        """A READ ahead of its turn: a NAK, then silence, then all is well."""
        ahead = self.ask(0, 8, self.psn + 1)
        yield from self.expect_ack(self.psn, 0x60, [ahead, ahead])
        yield from self.read(0, 8)
        yield from self.read(0, 3 * self.pmtu)

    def atomics(self):
        """Swaps that hit and miss, sums that wrap, between WRITEs and READs; many at once; duplicates."""
        r = self.random
        even = -self.va % 8
        self_at = lambda i: even + 8 * i
        for i in range(40):
            at = self_at(r.randrange(4))
            old = int.from_bytes(self.memory[at:at + 8], "little")
            opcode = r.choice((SWAP, ADD))
            operand = r.choice((0, 1, WORDS - 1, r.randrange(WORDS)))
            compare = r.choice((old, old ^ 1, 0))
            frame, psn, msn, old = self.execute(opcode, at, operand, compare)
            yield from self.expect_atomic(psn, msn, old, [frame])
            if i % 3 == 0:
                yield from self.read(even, 32)
            if i % 5 == 0:
                word = r.randbytes(8)
                psn = self.psn
                yield from self.expect_ack(psn, out=[self.write(at, word)])
        for _ in range(4):
            out, wait = [], []
            for i in range(self.q["depth"]):
                frame, psn, msn, old = self.execute(r.choice((SWAP, ADD)), self_at(r.randrange(2)), i, i - 1 if i else 0)
                out.append(frame)
                wait.append((psn, msn, old))
            first = list(out)
            for psn, msn, old in wait:
                yield from self.expect_atomic(psn, msn, old, out)
                out = []
            # all of them again: the same answers, and nothing is executed
            for i, (psn, msn, old) in enumerate(wait):
                yield from self.expect_atomic(psn, msn, old, first if i == 0 else [])
            yield from self.expect_atomic(*wait[3], out=[first[3]])
            yield from self.read(even, 32)

    def crooked(self):
        even = -self.va % 8
        yield from self.refused(self.atomic(ADD, even + 4, 1, 0, self.psn), INVALID)

    def no_atomic(self):
        even = -self.va % 8
        yield from self.refused(self.atomic(SWAP, even, 1, 0, self.psn), self.q["syndrome"])

    def bad_key(self):
        yield from self.read(0, 8)
        yield from self.refused(self.request(READ, self.psn, self.reth(self.va, 8, self.rkey ^ 1), ackreq=1), ACCESS)

    def out_of_bounds(self):
        yield from self.read(self.q["size"] - 8, 8)
        yield from self.refused(self.ask(self.q["size"] - 8, 9, self.psn), ACCESS)

    def no_right(self):
        yield from self.refused(self.ask(0, 8, self.psn), self.q["syndrome"])

    def scattered(self):
        """SENDs of bytes of the region, which the host receives into several pieces each."""
        m = self.pmtu
        lengths = (0, 1, 63, 64, 65, m - 1, m, m + 1, 2 * m, 3 * m + 9, 5 * m - 1, 2 * m + 64)
        for i in range(self.q["messages"]):
            length = lengths[i % len(lengths)]
            data = bytes(self.memory[7 * i:7 * i + length])
            n = self.packets_of(length)
            out = []
            for k in range(n):
                opcode = SEND_ONLY if n == 1 else SEND_FIRST if k == 0 else SEND_LAST if k == n - 1 else SEND_MIDDLE
                out.append(self.request(opcode, self.psn + k, data[k * m:(k + 1) * m], ackreq=int(k == n - 1)))
            self.psn += n
            self.msn += 1
            yield from self.expect_ack(self.psn - 1, out=out)

    def invalidate(self, key=0):
        """A SEND takes the region's key away (IETH, 9.3.4): nothing goes under it any more."""
        yield from self.expect_ack(self.psn, out=[self.write(8, b"before")])
        yield from self.read(0, 3 * self.pmtu)
        frame = self.request(SEND_ONLY_INV, self.psn, (self.rkey ^ key).to_bytes(4, "big") + b"over", ackreq=1)
        self.psn += 1
        self.msn += 1
        yield from self.expect_ack(self.psn - 1, out=[frame])
        if not key:
            yield from self.refused(self.ask(0, 8, self.psn), ACCESS)

    def invalidate_other(self):
        yield from self.invalidate(1)

    def too_many(self):
        """Accepted ones are answered, the one too many gets its NAK behind them."""
        out, wait = [], []
        for i in range(self.q["depth"]):
            out.append(self.ask(i, 5 * self.pmtu, self.psn))
            self.msn += 1
            wait.append((i, 5 * self.pmtu, self.psn, self.msn))
            self.psn += 5
        out.append(self.ask(0, 8, self.psn))
        for w in wait:
            yield from self.expect_read(*w, out)
            out = []
        yield from self.expect_ack(self.psn, INVALID)

    def run(self):
        f = yield []
        while self.memory is None:
            need(f["opcode"] in (SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY), f"opcode {f['opcode']} is no SEND")
            self.hello += f["data"]
            if f["opcode"] in (SEND_LAST, SEND_ONLY):
                self.rkey, self.va = (int.from_bytes(self.hello[i:i + 8], "big") for i in (0, 8))
                self.memory = bytearray(self.hello[16:])
                need(len(self.memory) == self.q["size"], "the host told of another region")
                break
            f = yield []
        acknowledge = self.request(ACK, f["psn"])
        scenario = getattr(self, self.q["scenario"])()
        first = next(scenario)
        out = [acknowledge] + first
        while True:
            f = yield out
            try:
                out = scenario.send(f)
            except StopIteration:
                break
        self.done = True
        yield [self.request(SEND_ONLY, self.psn, b"", ackreq=1)]
        while True:
            yield []

    def frame(self, frame):
        return self.script.send(self.check(frame))


requester = None


def answer(q):
    global requester
    if q["op"] == "setup":
        requester = Requester(q)
        return {}
    if q["op"] == "frame":
        return {"replies": [f.hex() for f in requester.frame(bytes.fromhex(q["frame"]))]}
    if q["op"] == "end":
        return {"done": requester.done, "reads": requester.reads, "packets": requester.packets}
    raise ValueError(f"unknown op {q['op']}")


if __name__ == "__main__":
    roce_server.serve(answer)
