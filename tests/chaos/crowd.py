"""Strangers at every listening port of a job: noise, HTTP, half a hello, silence, and floods. Usage: crowd.py MARK SEED

It finds the job's processes by their mark, and their ports in /proc. After `ENOUGH` visits at each port it prints a line, and
goes on until its input ends. Then it prints how many visits there were.
"""

import collections
import contextlib
import os
import pathlib
import random
import select
import socket
import ssl
import struct
import sys

from marks import marked

ENOUGH = 40  # visits at each port
OPEN_AT_ONCE = 300  # strangers that stay
FLOOD = 60  # connections at once
FAMILIES = {"tcp": socket.AF_INET, "tcp6": socket.AF_INET6}
_LISTENS = "0A"


def sockets_of(pid):
    """The numbers of a process's sockets."""
    found = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                link = os.readlink(f"/proc/{pid}/fd/{name}")
                found |= {link[8:-1]} if link.startswith("socket:[") else set()
    return found


def ports(mark):
    """The addresses at which the job's processes listen, as (family, address, port)."""
    own = set().union(*(sockets_of(pid) for pid in marked(mark)))
    found = []
    for table, family in FAMILIES.items():
        for row in map(str.split, pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]):
            if row[3] == _LISTENS and row[9] in own:
                address, port = row[1].split(":")
                words = struct.pack(f"={len(address) // 8}I", *(int(address[at : at + 8], 16) for at in range(0, len(address), 8)))
                any_address = {"tcp": "127.0.0.1", "tcp6": "::1"}[table]
                found.append((family, socket.inet_ntop(family, words) if any(words) else any_address, int(port, 16)))
    return found


def client_hello():
    """What a TLS client says first that knows no key."""
    said = ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname = False
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), said).do_handshake()
    return said.read()


class Crowd:
    """Strangers that come, and those of them that stay."""

    def __init__(self, seed):
        self.chance, self.stay, self.hello, self.visits = random.Random(seed), collections.deque(), client_hello(), collections.Counter()

    def connect(self, port):
        """A connection, or None if it is refused or the queue is full."""
        family, address, number = port
        try:
            stranger = socket.socket(family)
            stranger.settimeout(0.5)
            stranger.connect((address, number))
            stranger.setblocking(False)  # from here on: who does not listen holds up nobody
        except OSError:
            return None
        self.visits[port] += 1
        return stranger

    def say(self, stranger, words):
        """Says something, and stays."""
        with contextlib.suppress(OSError):
            stranger.send(words)
        self.stay.append(stranger)
        while len(self.stay) > OPEN_AT_ONCE:
            self.stay.popleft().close()

    def flood(self, port):
        """Comes many times at once, and leaves with resets."""
        for stranger in [self.connect(port) for _ in range(FLOOD)]:
            if stranger:
                stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                stranger.close()

    def visit(self, port):
        """A stranger of some kind."""
        kind = self.chance.randrange(9)
        if kind == 0:
            return self.flood(port)
        stranger = self.connect(port)
        if stranger is None:
            return None
        words = [b"GET /metrics HTTP/1.1\r\nHost: rueda\r\n\r\n", self.chance.randbytes(self.chance.randint(1, 2000)), self.hello,
                 b"C" + self.hello[: len(self.hello) // 2], b"DRDH1" + bytes(30), self.chance.randbytes(1 << 20), b""]  # fmt: skip
        return stranger.close() if kind == 1 else self.say(stranger, words[kind - 2])

    def add_a_byte(self):
        """Has those that stay say one byte more: some of them have said none before."""
        for stranger in self.stay:
            with contextlib.suppress(OSError):
                stranger.send(b"D")


def main():
    mark, crowd, told = sys.argv[1], Crowd(sys.argv[2]), False
    while not select.select([sys.stdin], [], [], 0)[0]:
        found = ports(mark)
        for _ in range(20):
            for port in found:
                crowd.visit(port)
        crowd.add_a_byte()
        if found and not told and all(crowd.visits[port] >= ENOUGH for port in found):
            told = True
            print(f"enough at {len(found)} ports", flush=True)
    print(sum(crowd.visits.values()), flush=True)


main()
