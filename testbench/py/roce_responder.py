"""A reliable-connection responder that is not ours: scapy dissects what a NIC sends and builds what it gets back.

JSON lines as in roce_server.py:
{"op": "setup", "qpn", "peer_qpn", "psn", "pmtu", "rkey", "va", "size", "mac", "ip", "peer_mac", "peer_ip"}
{"op": "plan", "psn": P, "do": "drop" | "sequence" | "rnr" | "access" | "mute" | "deaf", "times": N, "timer": T}
    what to do instead of executing the packet with PSN P the next N times it is due:
    drop: nothing; sequence: NAK as if it were a gap; rnr: RNR NAK with timer code T; access: remote access NAK and no
    execution ever after; mute: execute it but say nothing; deaf: nothing, now and for all that follows
{"op": "spoil", "psn": P, "do": "lose" | "double" | "nak" | "short" | "kind" | "place" | "syndrome", "times": N}
    what to do with the response to a READ or atomic that has PSN P the next N times it is sent:
    lose: nothing is sent; double: it is sent twice; nak: NAK remote operational error instead, and dead from there;
    short: 4 bytes are missing; kind: an atomic's for a READ and the other way round; place: FIRST for LAST and so on;
    syndrome: one that means nothing
{"op": "fill", "bytes": hex}    the memory at the beginning
{"op": "frame", "frame": hex}   -> {"replies": [hex], "fields": {...}, "did": text}
{"op": "memory"}                -> {"bytes": hex}
{"op": "messages"}              -> {"sends": [hex], "immediates": [n]}

Every frame must be one that the specification allows at that place: addresses, ports, lengths, pad, opcode order,
RETH, ICRC by scapy and by zlib. Anything else is an error that ends the test.
"""
from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

import icrc
import roce_server

PSNS = 1 << 24
FIRST, MIDDLE, LAST, LAST_IMM, ONLY, ONLY_IMM = range(6)
READ, CAS, FAA = 12, 19, 20
READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY, ACKNOWLEDGE, ATOMIC_ACK = range(13, 19)
WRITE = 6                                   # opcode of WRITE FIRST; its row is in the order of SEND's
RETH, IMM, ATOMIC_ETH = 16, 4, 28
ACK, RNR, NAK = 0x1f, 0x20, 0x60            # syndromes: no credit limit; with a timer; with a code
SEQUENCE, ACCESS, OPERATIONAL = 0, 2, 3
RESERVED = 0x40


class Wrong(Exception):
    pass


def need(ok, what):
    if not ok:
        raise Wrong(what)


class Responder:
    def __init__(self, q):
        self.q = q
        self.memory = bytearray(q["size"])
        self.psn = q["psn"]
        self.msn = 0
        self.message = None                 # (is it a WRITE, address, bytes to come, bytes so far)
        self.sends, self.immediates = [], []
        self.plan, self.spoil = {}, {}
        self.reads = []                     # (PSN, packets, address, bytes) of those executed
        self.results = {}                   # of atomics, by PSN
        self.executed = {}                  # how often, by PSN
        self.nak_sent = False
        self.waits = False                  # after an RNR NAK: what is not the packet due is none of our business
        self.dead = False

    def reply(self, psn, syndrome, opcode=ACKNOWLEDGE, data=b""):
        q = self.q
        p = Ether(dst=q["peer_mac"], src=q["mac"])
        p /= IP(src=q["ip"], dst=q["peer_ip"], ttl=64, flags="DF")
        p /= UDP(sport=49152, dport=4791, chksum=0)
        pad = -len(data) % 4
        p /= BTH(opcode=opcode, dqpn=q["peer_qpn"], psn=psn % PSNS, migreq=1, padcount=pad)
        if opcode != READ_MIDDLE:
            p /= AETH(syndrome=syndrome, msn=self.msn % PSNS)
        return bytes(p / Raw(data + bytes(pad)) if data else p).hex()

    def respond(self, psn, opcode, data):
        """One packet of a response, or what is to come in its place."""
        step = self.spoil.get(psn % PSNS)
        if self.dead:
            return []
        if not step or step["times"] == 0:
            return [self.reply(psn, ACK, opcode, data)]
        step["times"] -= 1
        do = step["do"]
        if do == "lose":
            return []
        if do == "double":
            return [self.reply(psn, ACK, opcode, data)] * 2
        if do == "nak":
            self.dead = True
            return [self.reply(psn, NAK | OPERATIONAL)]
        if do == "short":
            return [self.reply(psn, ACK, opcode, data[:-4])]
        if do == "kind":
            other = (READ_ONLY, data) if opcode == ATOMIC_ACK else (ATOMIC_ACK, bytes(8))
            return [self.reply(psn, ACK, *other)]
        if do == "place":
            other = {READ_FIRST: READ_LAST, READ_MIDDLE: READ_FIRST, READ_LAST: READ_MIDDLE, READ_ONLY: READ_FIRST}
            return [self.reply(psn, ACK, other[opcode], data)]
        if do == "syndrome":
            return [self.reply(psn, RESERVED, opcode, data)]
        raise ValueError(do)

    def read(self, f):
        """The response to a READ; its first packet has the request's PSN."""
        where, size, pmtu = f["va"] - self.q["va"], f["dma_length"], self.q["pmtu"]
        if size:
            need(f["rkey"] == self.q["rkey"], f"rkey {f['rkey']:#x}, not {self.q['rkey']:#x}")
            need(0 <= where and where + size <= len(self.memory), f"READ at {f['va']:#x} is outside")
        data = bytes(self.memory[where:where + size])
        pieces = [data[i:i + pmtu] for i in range(0, size, pmtu)] or [b""]
        out = []
        for i, piece in enumerate(pieces):
            first, last = i == 0, i == len(pieces) - 1
            opcode = READ_ONLY if first and last else READ_FIRST if first else READ_LAST if last else READ_MIDDLE
            out += self.respond(f["psn"] + i, opcode, piece)
        return out, len(pieces)

    def repetition(self, f):
        """A READ asked for again asks for the rest of one that was executed, from this PSN on."""
        for psn, packets, va, size in self.reads:
            k = (f["psn"] - psn) % PSNS
            if k < packets:
                skip = k * self.q["pmtu"]
                need((f["va"], f["dma_length"]) == (va + skip, size - skip),
                     f"packet {k} of a READ asked for again at {f['va']:#x}, {f['dma_length']} bytes")
                return
        need(False, "a READ that is no repetition")

    def atomic(self, f):
        psn = f["psn"]
        if psn not in self.results:
            where = f["va"] - self.q["va"]
            need(f["rkey"] == self.q["rkey"], f"rkey {f['rkey']:#x}, not {self.q['rkey']:#x}")
            need(0 <= where and where + 8 <= len(self.memory), f"atomic at {f['va']:#x} is outside")
            old = int.from_bytes(self.memory[where:where + 8], "little")
            if f["opcode"] == FAA:
                new = (old + f["swap_add"]) % (1 << 64)
            else:
                new = f["swap_add"] if old == f["compare"] else old
            self.memory[where:where + 8] = new.to_bytes(8, "little")
            self.results[psn] = old
            self.executed[psn] = self.executed.get(psn, 0) + 1
        return self.respond(psn, ATOMIC_ACK, self.results[psn].to_bytes(8, "big"))

    def check(self, frame):
        q = self.q
        c = roce_server.check(frame)
        need(c["good"], "scapy computes another ICRC")
        need(icrc.icrc(frame).hex() == c["icrc"], "zlib computes another ICRC than scapy")
        f = c["fields"]
        for name, want in (("dmac", q["mac"]), ("smac", q["peer_mac"]), ("sip", q["peer_ip"]), ("dip", q["ip"]),
                           ("dport", 4791), ("dqpn", q["qpn"]), ("version", 0), ("pkey", 0xffff), ("ttl", 64),
                           ("fecn", 0), ("becn", 0)):
            need(f[name] == want, f"{name} is {f[name]}, not {want}")
        need(f["ip_checksum_good"], "IP checksum is wrong")
        need(f["udp_length"] == f["ip_length"] - 20, "UDP and IP lengths disagree")
        need(14 + f["ip_length"] <= len(frame) <= max(60, 14 + f["ip_length"]), "frame and IP lengths disagree")
        known = f["opcode"] < 12 or f["opcode"] in (READ, CAS, FAA)
        need(known, f"opcode {f['opcode']} is no SEND, WRITE, READ or atomic")
        rest = bytes.fromhex(f.pop("rest"))
        if f["opcode"] >= READ:
            atomic = f["opcode"] != READ
            need(len(rest) == (ATOMIC_ETH if atomic else RETH), f"{len(rest)} bytes behind the BTH")
            need(f["padcount"] == 0, "pad without payload")
            f["va"] = int.from_bytes(rest[:8], "big")
            f["rkey"] = int.from_bytes(rest[8:12], "big")
            f["length"] = 0
            if atomic:
                f["swap_add"] = int.from_bytes(rest[12:20], "big")
                f["compare"] = int.from_bytes(rest[20:28], "big")
            else:
                f["dma_length"] = int.from_bytes(rest[12:16], "big")
            return f, b""
        f["write"], f["place"] = divmod(f["opcode"], WRITE)
        if f["write"] and f["place"] in (FIRST, ONLY, ONLY_IMM):
            f["va"] = int.from_bytes(rest[:8], "big")
            f["rkey"] = int.from_bytes(rest[8:12], "big")
            f["dma_length"] = int.from_bytes(rest[12:16], "big")
            rest = rest[RETH:]
        if f["place"] in (LAST_IMM, ONLY_IMM):
            f["immediate"] = int.from_bytes(rest[:4], "big")
            rest = rest[IMM:]
        pad = f["padcount"]
        need(len(rest) % 4 == 0 and len(rest) >= pad, "payload with pad is no multiple of 4")
        need(rest[len(rest) - pad:] == bytes(pad), "pad bytes are not 0")
        data = rest[:len(rest) - pad]
        f["length"] = len(data)
        if f["place"] in (FIRST, MIDDLE):
            need(len(data) == q["pmtu"], f"{len(data)} bytes in a packet that is not the last, PMTU is {q['pmtu']}")
        else:
            low = 0 if f["place"] in (ONLY, ONLY_IMM) else 1
            need(low <= len(data) <= q["pmtu"], f"{len(data)} bytes in a last packet, PMTU is {q['pmtu']}")
        return f, data

    def execute(self, f, data):
        begins = f["place"] in (FIRST, ONLY, ONLY_IMM)
        need(begins == (self.message is None), "a message begins inside another, or goes on without a beginning")
        if begins:
            where = f.get("va", 0) - self.q["va"]
            if f["write"]:
                size = f["dma_length"]
                need((f["place"] == FIRST) == (size > self.q["pmtu"]), f"place {f['place']} for {size} bytes")
                if size:
                    need(f["rkey"] == self.q["rkey"], f"rkey {f['rkey']:#x}, not {self.q['rkey']:#x}")
                    need(0 <= where and where + size <= len(self.memory), f"va {f['va']:#x} is outside")
                self.message = [1, where, size, b""]
            else:
                self.message = [0, 0, None, b""]
        m = self.message
        need(m[0] == f["write"], "SEND and WRITE packets mixed")
        if m[0]:
            need(len(data) <= m[2], "more bytes than the RETH said")
            self.memory[m[1]:m[1] + len(data)] = data
            m[1] += len(data)
            m[2] -= len(data)
        else:
            m[3] += data
        if f["place"] not in (FIRST, MIDDLE):
            need(not m[2], f"{m[2]} bytes of the WRITE never came")
            if not m[0]:
                self.sends.append(m[3].hex())
            if "immediate" in f:
                self.immediates.append(f["immediate"])
            self.message = None
            self.msn += 1

    def planned(self, psn):
        step = self.plan.get(psn)
        if not step or step["times"] == 0:
            return None
        step["times"] -= 1
        return step

    def frame(self, frame):
        f, data = self.check(frame)
        ahead = (f["psn"] - self.psn) % PSNS
        if self.dead:
            return [], f, "dead"
        wants = f["opcode"] >= READ
        if ahead >= PSNS // 2 and wants:
            if f["opcode"] == READ:
                self.repetition(f)
                return self.read(f)[0], f, "again"
            need(f["psn"] in self.results, "an atomic that is no repetition")
            return self.atomic(f), f, "again"
        if ahead >= PSNS // 2:
            return [self.reply(self.psn - 1, ACK)], f, "duplicate"
        if ahead:
            if self.nak_sent or self.waits:
                return [], f, "ignored"
            self.nak_sent = True
            return [self.reply(self.psn, NAK | SEQUENCE)], f, "gap"
        step = self.planned(f["psn"])
        do = step["do"] if step else "execute"
        if do == "drop":
            return [], f, do
        if do == "sequence":
            self.nak_sent = True
            return [self.reply(self.psn, NAK | SEQUENCE)], f, do
        if do == "rnr":
            self.waits = True
            return [self.reply(self.psn, RNR | step["timer"])], f, do
        if do == "access":
            self.dead = True
            return [self.reply(self.psn, NAK | ACCESS)], f, do
        if do == "deaf":
            self.dead = True
            return [], f, do
        self.nak_sent = self.waits = False
        if wants:
            need(self.message is None, "a READ or atomic inside a message")
            self.msn += 1
            if f["opcode"] == READ:
                out, packets = self.read(f)
                self.reads.append((f["psn"], packets, f["va"], f["dma_length"]))
            else:
                out, packets = self.atomic(f), 1
            self.psn = (self.psn + packets) % PSNS
            return out, f, "answered"
        self.execute(f, data)
        self.psn = (self.psn + 1) % PSNS
        if f["ackreq"] and do != "mute":
            return [self.reply(f["psn"], ACK)], f, "acknowledged"
        return [], f, "executed"


responder = None


def answer(q):
    global responder
    if q["op"] == "setup":
        responder = Responder(q)
        return {}
    if q["op"] == "plan":
        responder.plan[q["psn"]] = q
        return {}
    if q["op"] == "spoil":
        responder.spoil[q["psn"]] = q
        return {}
    if q["op"] == "fill":
        responder.memory[:] = bytes.fromhex(q["bytes"])
        return {}
    if q["op"] == "frame":
        frame = bytes.fromhex(q["frame"])
        replies, fields, did = responder.frame(frame)
        return {"replies": replies, "fields": fields, "did": did}
    if q["op"] == "memory":
        return {"bytes": responder.memory.hex()}
    if q["op"] == "messages":
        return {"sends": responder.sends, "immediates": responder.immediates}
    raise ValueError(f"unknown op {q['op']}")


if __name__ == "__main__":
    roce_server.serve(answer)
