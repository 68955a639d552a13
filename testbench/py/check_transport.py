"""check_transport.py CAPTURE PAIRS: what one NIC did with its reliable connections, judged by the transport's rules.

CAPTURE holds what arrived at either end of the NIC's wire, with time in nanoseconds. PAIRS is a JSON list of connections:
{"name", "ip", "qpn", "psn", "peer_qpn", "peer_psn", "pmtu"}: the NIC's address, QPN and first PSN, and the peer's.
Frames may be missing: what the wire lost is in no capture. So only that is judged which holds without them:

- acknowledgements name a PSN that has arrived in order, and the number of messages that were complete with it;
- a sequence NAK or RNR NAK names the expected PSN; one for each gap, and none after an RNR NAK until that PSN comes again;
- READ responses and atomic acknowledgements answer requests that arrived;
- nothing is sent from before the last PSN that was acknowledged or refused;
- after an RNR NAK nothing is sent for as long as it asks;
- no more than the window is outstanding.

Prints what was judged.
"""
import argparse
import bisect
import collections
import json
import sys

import pcapng
import rebuild

# what the NIC may still have on its way when something arrives
PIPELINE_NS = 6_000
# a packet that comes this shortly before a refusal leaves may not have been looked at
RECEIVE_NS = 600
WINDOW = 1024
RING = 1 << 24
ACK, NAK_SEQUENCE = 0, 0x60
RNR = 1
# last or only packet of a message that has no response of its own
ENDS = {2, 3, 4, 5, 8, 9, 10, 11, 0x16, 0x17}
READ, CAS, FAA = 12, 19, 20
RESPONSES, ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE = range(13, 17), 17, 18
# IBTA 9.7.5.2.8, in units of 10 us
RNR_TIMER = [65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
             4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152]


class Wrong(Exception):
    pass


class History:
    """A number that grows or is set back, with the times of it."""

    def __init__(self, value):
        self.times, self.values = [-1], [value]

    def set(self, at, value):
        self.times.append(at)
        self.values.append(value)

    def now(self):
        return self.values[-1]

    def at(self, time):
        return self.values[bisect.bisect_right(self.times, max(time, -1)) - 1]

    def since(self, time):
        """Values it had from that time on."""
        return set(self.values[bisect.bisect_right(self.times, max(time, -1)) - 1:])


class Pair:
    def __init__(self, p):
        self.name, self.pmtu = p["name"], p["pmtu"]
        # as responder: expected PSN, messages complete behind each PSN
        self.expected = History(p["peer_psn"])
        self.messages = {p["peer_psn"] - 1: 0}
        self.acknowledged = p["peer_psn"] - 1
        self.requests = {}
        # when each PSN came last; the PSN that was asked for and has not come since; when it was found not ready
        self.came, self.asked, self.not_ready = {}, None, {}
        # as requester
        self.una = History(p["psn"])
        self.next = p["psn"]
        # READs and atomics that are not answered: PSN behind the response, next PSN of it
        self.reads = []
        self.hold = (0, 0)

    @staticmethod
    def near(psn, reference):
        return reference + (psn - reference + RING // 2) % RING - RING // 2

    def request_in(self, at, opcode, psn, rest):
        psn = self.near(psn, self.expected.now())
        self.came[psn] = at
        if self.asked == psn:
            self.asked = None
        if opcode in (READ, CAS, FAA):
            packets = max(1, -(-int.from_bytes(rest[12:16], "big") // self.pmtu)) if opcode == READ else 1
            self.requests[psn] = packets
        if psn != self.expected.now():
            return
        packets = self.requests.get(psn, 1) if opcode in (READ, CAS, FAA) else 1
        done = self.messages.get(psn - 1, 0) + (opcode in ENDS or opcode in (READ, CAS, FAA))
        for i in range(packets):
            self.messages[psn + i] = done
        self.expected.set(at, psn + packets)

    def acknowledge_out(self, at, psn, syndrome, msn):
        psn = self.near(psn, self.expected.now())
        kind, recent = syndrome >> 5, self.expected.since(at - PIPELINE_NS)
        if kind == ACK:
            if psn >= max(recent):
                raise Wrong(f"ACK of PSN {psn % RING:#x}, which has not arrived in order")
            if psn < self.acknowledged:
                raise Wrong(f"ACK of PSN {psn % RING:#x} after that of {self.acknowledged % RING:#x}")
            self.acknowledged = psn
            if self.messages.get(psn, 0) % RING != msn:
                raise Wrong(f"ACK of PSN {psn % RING:#x} with MSN {msn}, {self.messages.get(psn)} messages are complete")
            return
        if syndrome != NAK_SEQUENCE and kind != RNR:
            raise Wrong(f"NAK {syndrome:#x} of PSN {psn % RING:#x}")
        if kind == RNR:
            if psn not in self.came or self.came[psn] < self.not_ready.get(psn, 0) - RECEIVE_NS:
                raise Wrong(f"RNR NAK of PSN {psn % RING:#x}, which has not come since the last")
            self.not_ready[psn] = at
            # the model did not know that there is no receive
            self.expected.set(at, psn)
        elif psn not in recent:
            raise Wrong(f"NAK of PSN {psn % RING:#x}, expected is {self.expected.now() % RING:#x}")
        elif self.asked == psn:
            raise Wrong(f"NAK of PSN {psn % RING:#x}, which was asked for and has not come since")
        self.asked = psn

    def response_out(self, at, psn):
        psn = self.near(psn, self.expected.now())
        if not any(first <= psn < first + n for first, n in self.requests.items()):
            raise Wrong(f"response of PSN {psn % RING:#x}, which answers nothing")

    def request_out(self, at, opcode, psn, rest):
        psn = self.near(psn, self.next)
        una = self.una.at(at - PIPELINE_NS)
        if psn < una:
            raise Wrong(f"PSN {psn % RING:#x} sent again, though all before {una % RING:#x} is acknowledged")
        if psn - self.una.now() >= WINDOW:
            raise Wrong(f"PSN {psn % RING:#x} sent, oldest not acknowledged is {self.una.now() % RING:#x}")
        since, until = self.hold
        if since + PIPELINE_NS < at < until:
            raise Wrong(f"PSN {psn % RING:#x} sent {at - since} ns after an RNR NAK that asks for {until - since}")
        packets = max(1, -(-int.from_bytes(rest[12:16], "big") // self.pmtu)) if opcode == READ else 1
        if opcode in (READ, CAS, FAA) and psn >= self.next:
            self.reads.append([psn + packets, psn])
        self.next = max(self.next, psn + packets)

    def response_in(self, at, psn):
        """Counts when it is the next one due; it acknowledges all before it."""
        psn = self.near(psn, self.una.now())
        if self.reads and self.reads[0][1] == psn:
            self.reads[0][1] += 1
            if self.reads[0][1] == self.reads[0][0]:
                del self.reads[0]
            self.una.set(at, max(self.una.now(), psn + 1))

    def acknowledge_in(self, at, psn, syndrome):
        psn = self.near(psn, self.una.now())
        if psn >= self.next:
            return                          # of something the wire lost on its way out
        kind = syndrome >> 5
        upto = psn + 1 if kind == ACK else psn
        if self.reads:
            upto = min(upto, self.reads[0][1])      # it acknowledges no READ
        if upto > self.una.now():
            self.una.set(at, upto)
        if kind == RNR and psn == self.una.now():
            self.hold = (at, at + RNR_TIMER[syndrome & 31] * 10_000)


def check(capture, pairs):
    ours = {(bytes(map(int, p["ip"].split("."))), p["qpn"]): Pair(p) for p in pairs}
    theirs = {(bytes(map(int, p["ip"].split("."))), p["peer_qpn"]): k for p, k in zip(pairs, ours.values())}
    judged = collections.Counter()
    for number, (at, frame) in enumerate(pcapng.timed(capture), 1):
        p = rebuild.packet(frame)
        if p is None:
            continue
        (source, destination, qpn), opcode, psn, rest = p
        qpn = int.from_bytes(qpn, "big")
        response = opcode in RESPONSES or opcode in (ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE)
        try:
            if (destination, qpn) in ours:
                pair = ours[destination, qpn]
                if not response:
                    pair.request_in(at, opcode, psn, rest)
                elif opcode != ACKNOWLEDGE:
                    pair.response_in(at, psn)
                else:
                    pair.acknowledge_in(at, psn, rest[0])
            elif (source, qpn) in theirs:
                pair = theirs[source, qpn]
                if not response:
                    pair.request_out(at, opcode, psn, rest)
                elif opcode == ACKNOWLEDGE:
                    pair.acknowledge_out(at, psn, rest[0], int.from_bytes(rest[1:4], "big"))
                else:
                    pair.response_out(at, psn)
            else:
                raise Wrong(f"QP {qpn:#x} is in no pair")
        except Wrong as e:
            where = pair.name if (destination, qpn) in ours or (source, qpn) in theirs else "?"
            raise Wrong(f"{capture}: frame {number}, {where}: {e}") from None
        kind = rest[0] >> 5 if opcode == ACKNOWLEDGE else None
        what = {None: "requests", 0: "ACKs", 1: "RNR NAKs", 3: "NAKs"}.get(kind, "?") if not response or kind is not None else "responses"
        judged[("to " if (destination, qpn) in ours else "from ") + what] += 1
    return dict(sorted(judged.items()))


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("capture")
    a.add_argument("pairs")
    a = a.parse_args()
    try:
        with open(a.pairs) as file:
            print(json.dumps(check(a.capture, json.load(file))))
    except (Wrong, ValueError, OSError) as e:
        sys.exit(f"check_transport: {e}")


if __name__ == "__main__":
    main()
