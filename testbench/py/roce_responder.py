"""A reliable-connection responder that is not ours: scapy dissects what a NIC sends and builds what it gets back.

JSON lines as in roce_server.py:
{"op": "setup", "qpn", "peer_qpn", "psn", "pmtu", "rkey", "va", "size", "mac", "ip", "peer_mac", "peer_ip"}
{"op": "plan", "psn": P, "do": "drop" | "sequence" | "rnr" | "access" | "mute" | "deaf", "times": N, "timer": T}
    what to do instead of executing the packet with PSN P the next N times it is due:
    drop: nothing; sequence: NAK as if it were a gap; rnr: RNR NAK with timer code T; access: remote access NAK and no
    execution ever after; mute: execute it but say nothing; deaf: nothing, now and for all that follows
{"op": "frame", "frame": hex}   -> {"replies": [hex], "fields": {...}, "did": text}
{"op": "memory"}                -> {"bytes": hex}
{"op": "messages"}              -> {"sends": [hex], "immediates": [n]}

Every frame must be one that the specification allows at that place: addresses, ports, lengths, pad, opcode order,
RETH, ICRC by scapy and by zlib. Anything else is an error that ends the test.
"""
from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

import icrc
import roce_server

PSNS = 1 << 24
FIRST, MIDDLE, LAST, LAST_IMM, ONLY, ONLY_IMM = range(6)
WRITE = 6                                   # opcode of WRITE FIRST; its row is in the order of SEND's
RETH, IMM = 16, 4
ACK, RNR, NAK = 0x1f, 0x20, 0x60            # syndromes: no credit limit; with a timer; with a code
SEQUENCE, ACCESS = 0, 2


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
        self.plan = {}
        self.nak_sent = False
        self.waits = False                  # after an RNR NAK: what is not the packet due is none of our business
        self.dead = False

    def reply(self, psn, syndrome):
        q = self.q
        p = Ether(dst=q["peer_mac"], src=q["mac"])
        p /= IP(src=q["ip"], dst=q["peer_ip"], ttl=64, flags="DF")
        p /= UDP(sport=49152, dport=4791, chksum=0)
        p /= BTH(opcode=17, dqpn=q["peer_qpn"], psn=psn % PSNS, migreq=1)
        p /= AETH(syndrome=syndrome, msn=self.msn % PSNS)
        return bytes(p).hex()

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
        need(f["opcode"] < 12, f"opcode {f['opcode']} is neither SEND nor WRITE")
        f["write"], f["place"] = divmod(f["opcode"], WRITE)
        rest = bytes.fromhex(f.pop("rest"))
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
