"""A slow wire in user space, for kernels without netem: forwards frames between two devices after a delay."""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import selectors
import socket
import struct
import time
from collections import deque

_SIOCETHTOOL = 0x8946
_SWITCHES = (0x17, 0x1F, 0x24, 0x2C)
"""Of ethtool (transmit checksums, TSO, GSO, GRO): each lets a frame leave without its checksum, or too long."""
_LONGEST_FRAME = 65536


def make_whole(device: str) -> None:
    """Have frames leave a device with their checksums and not longer than the wire takes."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for switch in _SWITCHES:
            value = ctypes.create_string_buffer(struct.pack("II", switch, 0))
            request = struct.pack("16sP", device.encode(), ctypes.addressof(value))
            fcntl.ioctl(sock, _SIOCETHTOOL, request)


def relay(first: str, second: str, delay_s: float) -> None:
    """Forward frames until one of the devices is gone."""
    selector, queue = selectors.DefaultSelector(), deque[tuple[float, socket.socket, bytes]]()
    ends = []
    for device in (first, second):
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
        end.bind((device, 0))
        end.setblocking(False)
        ends.append(end)
    others = dict(zip(ends, reversed(ends), strict=True))
    for end in ends:
        selector.register(end, selectors.EVENT_READ)
    while True:
        wait_s = max(0.0, queue[0][0] - time.monotonic()) if queue else None
        for key, _ in selector.select(wait_s):
            assert isinstance(key.fileobj, socket.socket)
            frame, (_, _, kind, *_) = key.fileobj.recvfrom(_LONGEST_FRAME)
            if kind != socket.PACKET_OUTGOING:  # what this relay sent itself
                queue.append((time.monotonic() + delay_s, others[key.fileobj], frame))
        while queue and queue[0][0] <= time.monotonic():
            _, end, frame = queue.popleft()
            end.send(frame)


def main() -> None:
    """Do one of the two on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("whole").add_argument("device")
    slow = commands.add_parser("delay")
    slow.add_argument("first")
    slow.add_argument("second")
    slow.add_argument("seconds", type=float)
    arguments = parser.parse_args()
    if arguments.command == "whole":
        make_whole(arguments.device)
    else:
        relay(arguments.first, arguments.second, arguments.seconds)


if __name__ == "__main__":
    main()
