"""check_resends.py CAPTURE ADDRESS [--delay NS]: what a requester sends again, as tshark reads the capture.

CAPTURE holds what arrived at either end of a wire of DELAY nanoseconds; ADDRESS is the requester's. For every sequence NAK
that arrives there, what is sent later has the NAKed PSN or a later one: nothing from before it. Steps back in the order of
PSNs are counted, and how many of them begin exactly at the oldest PSN that was asked for (others begin behind a packet
that was lost again, or after a timeout). Prints the counts.
"""
import argparse
import bisect
import collections
import json
import sys

import shark
from shark import Wrong

FIELDS = ["frame.time_epoch", "ip.src", "infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn",
          "infiniband.aeth.syndrome"]
RING = 1 << 24
ACKNOWLEDGE, NAK_SEQUENCE = 17, 0x60
# what the requester may still have on its way when a NAK arrives
PIPELINE_NS = 6_000


def read(path):
    for row in shark.fields(path, FIELDS):
        time, source, *numbers = row.values()
        seconds, _, rest = time.partition(".")
        at = int(seconds) * 10**9 + int(rest.ljust(9, "0")[:9])
        yield at, source, [shark.number(n) if n else None for n in numbers]


def check(path, address, delay):
    # by queue pair of the responder; an answer goes to the requester's, of which the capture has one for each
    sent, naks = collections.defaultdict(list), collections.defaultdict(list)
    answered = set()
    for at, source, (opcode, qpn, psn, syndrome) in read(path):
        if source == address and opcode is not None and opcode < 13:
            sent[qpn].append((at, psn))
        elif source != address and opcode == ACKNOWLEDGE:
            answered.add(qpn)
            if syndrome == NAK_SEQUENCE:
                naks[qpn].append((at, psn))
    if len(sent) != 1 or len(answered) != 1:
        raise Wrong(f"{path}: one connection is expected, there are {len(sent)}")
    packets, refused = next(iter(sent.values())), sum(naks.values(), [])
    times = [at for at, _ in packets]
    begins, exact = 0, 0
    asked = [n for _, n in refused]
    before = packets[0][1]
    for at, psn in packets:
        ahead = (psn - before) % RING
        if ahead >= RING // 2:
            begins += 1
            exact += psn in asked
        before = psn
    for at, psn in refused:
        first = bisect.bisect_right(times, at + delay + PIPELINE_NS)
        for when, later in packets[first:]:
            if (later - psn) % RING >= RING // 2:
                raise Wrong(f"{path}: PSN {later:#x} sent {when - delay - at} ns after the NAK of PSN {psn:#x} arrived")
    unique = len({p for _, p in packets})
    return {"packets": len(packets), "again": len(packets) - unique, "naks": len(refused), "steps_back": begins,
            "from_the_naked_psn": exact}


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("capture")
    a.add_argument("address")
    a.add_argument("--delay", type=int, default=1000)
    a = a.parse_args()
    try:
        print(json.dumps(check(a.capture, a.address, a.delay)))
    except (Wrong, ValueError, OSError) as e:
        sys.exit(f"check_resends: {e}")


if __name__ == "__main__":
    main()
