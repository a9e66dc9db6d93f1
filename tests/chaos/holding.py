"""What chaos does to a process by way of the kernel: a cgroup's freezer, and calls that a filter refuses."""

import atexit
import contextlib
import ctypes
import errno
import functools
import os
import pathlib
import platform
import struct
import sys

PIDFD_OPEN = 434  # on every architecture
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def refuse_pidfds():
    """Has the kernel answer pidfd_open with EPERM, in this process and its children, as a container's profile does."""
    code = [(0x20, 0, 0, 4), (0x15, 0, 3, ARCHITECTURES[platform.machine()]), (0x20, 0, 0, 0), (0x15, 0, 1, PIDFD_OPEN),
            (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(text)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, program, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no seccomp filter")


class Freezer:
    """A cgroup of version 1 or 2, below this program's own, whose processes can be frozen."""

    def __init__(self):
        for line in open("/proc/mounts", encoding="utf-8"):
            _, folder, kind, options = line.split()[:4]
            if kind == "cgroup2" or (kind == "cgroup" and "freezer" in options.split(",")):
                self.word, self.on, self.off = ("cgroup.freeze", "1", "0") if kind == "cgroup2" else ("freezer.state", "FROZEN", "THAWED")
                self.home, self.folder = folder, os.path.join(folder, f"rueda-chaos-{os.getpid()}")
                with contextlib.suppress(OSError):
                    os.makedirs(self.folder, exist_ok=True)
                    self.put(self.word, self.off)
                    atexit.register(self.remove)
                    return
        sys.exit("chaos: no cgroup with a freezer can be made here; are you root?")

    def remove(self):
        """At the program's end, however it comes: a killed process keeps the cgroup busy for a moment."""
        self.put(self.word, self.off)
        while True:
            try:
                return os.rmdir(self.folder)
            except OSError as error:
                if error.errno != errno.EBUSY or pathlib.Path(self.folder, "cgroup.procs").read_text(encoding="utf-8"):
                    return
                os.sched_yield()

    def put(self, word, text):
        with open(os.path.join(self.folder, word), "w", encoding="utf-8") as file:
            file.write(text)

    def freeze(self, pid):
        self.pid = pid
        self.put("cgroup.procs", str(pid))
        self.put(self.word, self.on)

    def thaw(self):
        """Also lets what was killed meanwhile die."""
        self.put(self.word, self.off)
        with contextlib.suppress(OSError):  # it has ended
            with open(os.path.join(self.home, "cgroup.procs"), "w", encoding="utf-8") as file:
                file.write(str(self.pid))


@functools.cache
def freezer():
    """This program's freezer."""
    return Freezer()
