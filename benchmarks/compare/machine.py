"""The machine around a run: what it is, what other programs use of it, and how far apart its cores are."""

import json
import os
import pathlib
import platform
import resource
import select
import subprocess
import time

MOST_FOREIGN = 0.10  # of all cores: more, and a turn is marked
TICK = os.sysconf("SC_CLK_TCK")


def busy_seconds():
    """Processor seconds of all cores since boot that were not idle, time stolen by other machines included."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICK


def own_seconds(live=()):
    """Processor seconds of this process, of children that have ended, and of the processes `live`."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = time.process_time() + ended.ru_utime + ended.ru_stime
    for pid in live:
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        except OSError:
            continue
        spent += (int(fields[11]) + int(fields[12])) / TICK
    return spent


class Watch:
    """Says how much of the machine others used between its making and foreign_share()."""

    def __init__(self, live=()):
        self.live = tuple(live)
        self.begin = time.monotonic(), busy_seconds(), own_seconds(self.live)

    def foreign_share(self):
        """0 to 1: of all cores. Clocks of the kernel tick at 10 ms, so that short turns are never judged by one tick."""
        passed = time.monotonic() - self.begin[0]
        foreign = busy_seconds() - self.begin[1] - (own_seconds(self.live) - self.begin[2])
        return max(0.0, foreign - 2 / TICK) / (max(passed, 1e-3) * (os.cpu_count() or 1))


def let_pass(seconds):
    """Does nothing for so long, because what happens meanwhile is measured. It waits for nothing."""
    select.select([], [], [], seconds)


def foreign_now(seconds=1.0):
    """What others use while this program does nothing."""
    watch = Watch()
    let_pass(seconds)
    return watch.foreign_share()


def line_ns(binaries, folder):
    """The round trip of a cache line between two cores in nanoseconds; 0 if it cannot be measured."""
    path = os.path.join(folder, "line.json")
    command = [str(binaries / "hvdrun"), "-np", "2", "-H", "localhost:2", str(binaries / "rueda-perf"), "allreduce", "--in-place",
               "--bytes", "8", "--iters", "1", "--warmup", "1", "--json", path]  # fmt: skip
    try:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30, start_new_session=True)
        with open(path, encoding="utf-8") as file:
            return max(json.load(file)["results"][0]["line_ns"])
    except (OSError, subprocess.SubprocessError, ValueError, LookupError):
        return 0.0


def described():
    processor = platform.processor() or platform.machine()
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            processor = line.split(":", 1)[1].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"processor": processor, "cores": os.cpu_count(), "memory_GiB": round(memory, 1), "kernel": platform.release(),
            "python": platform.python_version(), "load": [round(each, 2) for each in os.getloadavg()]}  # fmt: skip
