"""The ICRC by masking bytes, with nothing but zlib's crc32."""
import struct
import zlib


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


def carried(frame):
    """The ICRC that stands in the frame."""
    end = masked(frame)[1]
    return frame[end:end + 4]
