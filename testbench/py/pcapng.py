"""Reads the packets of a pcapng file; nothing but the standard library."""
import struct

SECTION, INTERFACE, SIMPLE, ENHANCED = 0x0a0d0d0a, 1, 3, 6
ETHERNET = 1
MAGIC = 0x1a2b3c4d


def frames(path):
    """Frames in the order of the file. An unfinished file or one of another link type is a ValueError."""
    for _, frame in timed(path):
        yield frame


def timed(path):
    """The same with the time stamp of each, in the units of the interface."""
    with open(path, "rb") as file:
        data = file.read()
    at, order, links = 0, "<", []
    while at < len(data):
        if len(data) - at < 12:
            raise ValueError(f"{path}: ends inside a block, at byte {at}")
        kind = struct.unpack_from(order + "I", data, at)[0]
        if kind == SECTION:
            order = "<" if struct.unpack_from("<I", data, at + 8)[0] == MAGIC else ">"
            links = []
        elif at == 0:
            raise ValueError(f"{path} is no pcapng file")
        size = struct.unpack_from(order + "I", data, at + 4)[0]
        if size < 12 or size % 4 or at + size > len(data):
            raise ValueError(f"{path}: block of {size} bytes at byte {at}")
        body = data[at + 8:at + size - 4]
        if kind == INTERFACE:
            links.append(struct.unpack_from(order + "H", body)[0])
        elif kind == ENHANCED:
            interface, high, low, captured, original = struct.unpack_from(order + "5I", body)
            if interface >= len(links) or links[interface] != ETHERNET:
                raise ValueError(f"{path}: frame at byte {at} is not from an Ethernet interface")
            if captured != original or 20 + captured > len(body):
                raise ValueError(f"{path}: frame at byte {at} is cut to {captured} of {original} bytes")
            yield high << 32 | low, body[20:20 + captured]
        elif kind == SIMPLE:
            raise ValueError(f"{path}: simple packet blocks are not read")
        at += size
