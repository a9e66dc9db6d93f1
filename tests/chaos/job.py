"""One elastic job under chaos: its processes, what its workers tell, and what it leaves behind."""

import contextlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).parent
MARK = "CHAOS_MARK"
PATIENCE = 120  # seconds; a job that needs them is broken
_LISTENS, _CONNECTED = "0A", "01"  # states in /proc/net/tcp


class Room:
    """Namespaces of this machine's own for the jobs: an empty /dev/shm, and sockets that nobody else has. So what jobs
    leave there is theirs. Without root the jobs run outside, and only their processes and files are looked for."""

    def __init__(self):
        self.holder = None
        script = "mount -t tmpfs none /dev/shm && ip link set lo up && echo ready && exec cat"
        if os.geteuid() == 0 and shutil.which("unshare") and shutil.which("nsenter"):
            self.holder = subprocess.Popen(["unshare", "-m", "-n", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            if self.holder.stdout.readline() != "ready\n":
                self.close()

    def close(self):
        """Ends the namespaces."""
        if self.holder is not None:
            self.holder.stdin.close()
            self.holder.stdout.close()
            self.holder.wait()
            self.holder = None

    def command(self, folder, words):
        """The command that runs these words inside, in a folder."""
        return [*(["nsenter", "-t", str(self.holder.pid), "-m", "-n"] if self.holder else []), "env", "-C", str(folder), *words]

    def send(self, _host, pid, number):
        """Sends a signal to a process of a host. Raises ProcessLookupError if it has ended."""
        os.kill(pid, number)

    def parent(self, _host, pid):
        """The parent of a process of a host. Raises OSError if it has ended."""
        return parent_of(pid)

    def has(self, _host, pid, mark):
        """Whether a process has this variable, and not its number alone. Raises OSError if it has ended."""
        return mark in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")

    def left(self):
        """What is in /dev/shm, and the sockets that listen or are connected."""
        if self.holder is None:
            return []
        proc = pathlib.Path(f"/proc/{self.holder.pid}")
        found = [f"/dev/shm/{name}" for name in os.listdir(proc / "root/dev/shm")]
        found += [f"socket {line.split()[-1]}" for line in (proc / "net/unix").read_text().splitlines()[1:]]
        for table in ("tcp", "tcp6"):
            rows = [line.split() for line in (proc / "net" / table).read_text().splitlines()[1:]]
            found += [f"{table} socket {row[1]}" for row in rows if row[3] in (_LISTENS, _CONNECTED)]
        return found


def command_of(hvdrun, hosts, least, flags=(), program=("worker.py",)):
    """The command of a job that gets its hosts from its folder, and whose workers run a program of this folder."""
    return [hvdrun, "-np", str(sum(hosts.values())), "--min-np", str(least), "--host-discovery-script", "echo >>looks; cat hosts", "--blacklist-after", "1000",
            *flags, sys.executable, str(HERE / program[0]), *program[1:]]  # fmt: skip


class Job:
    """A job of hvdrun, from its start. lines: what workers have told, in the order of arrival.

    hosts: {name: slots} of names of this machine, which the folder's file `hosts` lists. command: that starts hvdrun; it
    runs in the folder. environment: more variables. Other threads read the job's output; one thread uses the methods.
    """

    def __init__(self, room, hosts, command, environment=()):
        self.room, self.command, self.environment, self.complaints = room, command, dict(environment), []
        self.notes = []  # what has happened to it, for the reader of a complaint
        self.changed = threading.Condition()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rueda-chaos-"))
        self.temporary = self.folder / "temporary"
        self.temporary.mkdir()
        self.list_hosts(hosts)
        self.start()

    def start(self):
        """Starts hvdrun, for the first time or after it has ended. What was told before is forgotten."""
        self.lines, self.report, self.open_streams = [], [], 2
        self.mark = f"{self.folder.name}-{time.monotonic_ns()}"
        environment = {**os.environ, "TMPDIR": str(self.temporary), "OMP_NUM_THREADS": "1", "RUEDA_TIMEOUT_SECONDS": str(PATIENCE),
                       "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "of-pytorch"), **self.environment, MARK: self.mark}  # fmt: skip
        self.started = time.monotonic_ns()
        self.process = subprocess.Popen(self.room.command(self.folder, self.command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=environment)  # fmt: skip
        self.readers = [threading.Thread(target=self._read, args=(stream,)) for stream in (self.process.stdout, self.process.stderr)]
        for reader in self.readers:
            reader.start()

    def list_hosts(self, hosts):
        """Has the discovery script print these hosts from now on; never half of them."""
        self.hosts = dict(hosts)
        (self.folder / "next").write_text("".join(f"{name}:{slots}\n" for name, slots in hosts.items()))
        os.rename(self.folder / "next", self.folder / "hosts")

    def await_looks(self):
        """Waits until hvdrun has dealt with the hosts that are listed now."""
        looks = self.folder / "looks"
        begun = looks.stat().st_size
        # The next run of the script prints this list, and the run after that begins once hvdrun has dealt with it.
        self.poll(lambda: looks.stat().st_size >= begun + 2, "two runs of the script")

    def _read(self, stream):
        for line in stream:
            found = re.match(r"\[\d+\]<stdout>:(\{.*)", line)
            with self.changed:
                if found:
                    self.lines.append(json.loads(found[1]))
                else:
                    self.report.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.open_streams -= 1
            self.changed.notify_all()

    def until(self, ready, what):
        """Waits until ready() is true, which is asked whenever a line has come. Raises RuntimeError if the job ends before, or
        that takes too long."""
        with self.changed:
            self.changed.wait_for(lambda: ready() or self.open_streams == 0, PATIENCE)
            if not ready():
                how = "before the job ended" if self.open_streams == 0 else f"within {PATIENCE} s"
                raise RuntimeError(f"{what} did not come {how}; hvdrun: {self.report[-4:]}; workers: {self.lines[-4:]}")

    def poll(self, ready, what):
        """As until(), for what comes without a line."""
        ends = time.monotonic() + PATIENCE
        while not ready():
            if time.monotonic() > ends:
                raise RuntimeError(f"{what} did not come within {PATIENCE} s")
            threading.Event().wait(0.01)

    def told(self, what, plan=None):
        """The lines of one kind, of one plan if that is given."""
        return [line for line in self.lines if line["what"] == what and plan in (None, line.get("plan"))]

    def complete(self, after=0, without=()):
        """The first plan after a number in which every rank has taken a step, and that has none of some workers; else 0."""
        for plan in sorted({line["plan"] for line in self.told("plan") if line["plan"] > after}):
            members = {line["worker"]: line["size"] for line in self.told("plan", plan)}
            steps = {line["worker"] for line in self.told("step", plan)}
            if len(members) == next(iter(members.values())) and set(members) == steps and not steps & set(without):
                return plan
        return 0

    def members(self, plan):
        """The workers of a plan by rank."""
        return [line["worker"] for line in sorted(self.told("plan", plan), key=lambda line: line["rank"])]

    def line(self, worker):
        """The first line of a worker that has begun."""
        return next(line for line in self.lines if line["worker"] == worker)

    def pid(self, worker):
        """The process of a worker that has begun."""
        return self.line(worker)["pid"]

    def began(self, worker):
        """When the process of a worker that lives began, in nanoseconds of CLOCK_MONOTONIC, to a hundredth of a second."""
        ticks = int(pathlib.Path(f"/proc/{self.pid(worker)}/stat").read_text().rpartition(")")[2].split()[19])
        since_boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()  # which is 0 if the machine has never slept
        return ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK") - since_boot

    def host(self, worker):
        """The host of a worker, as hvdrun lists it."""
        return self.line(worker)["host"]

    def note(self, text):
        """Remembers what happens, with the seconds since the job's start."""
        self.notes.append(f"{(time.monotonic_ns() - self.started) / 1e9:.2f} s: {text}")

    def has(self, host, pid):
        """Whether a process, on a host, is the job's still."""
        with contextlib.suppress(OSError):
            return self.room.has(host, pid, f"{MARK}={self.mark}".encode())
        return False

    def send(self, host, pid, number):
        """Sends a signal to a process of the job, on a host. Raises ProcessLookupError if it has ended."""
        if not self.has(host, pid):
            raise ProcessLookupError
        self.room.send(host, pid, number)

    def kill(self, worker, number=signal.SIGKILL):
        """Sends a signal to a worker, and returns when."""
        moment = time.monotonic_ns()
        os.kill(self.pid(worker), number)
        return moment

    def watch_ends(self, workers):
        """Returns {worker: when its process has ended}, which fills as they end."""
        ends = {}

        def wait(worker, descriptor):
            select.select([descriptor], [], [])
            ends[worker] = time.monotonic_ns()
            os.close(descriptor)

        for worker in workers:
            threading.Thread(target=wait, args=(worker, os.pidfd_open(self.pid(worker)))).start()
        return ends

    def agent_of(self, worker):
        """The agent that has started a worker, and that agent's guard."""
        agent = parent_of(self.pid(worker))
        return agent, parent_of(agent)

    def processes(self):
        """The processes of the job that are left, hvdrun included."""
        wanted, found = f"{MARK}={self.mark}".encode(), []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if wanted in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    found.append(int(pid))
            except OSError:
                continue  # gone, or of another user
        return found

    def end(self):
        """Lets the training end, waits for hvdrun, and returns its code. Then nothing may be left."""
        (self.folder / "stop").touch()
        return self.wait()

    def wait(self):
        """Waits for hvdrun and returns its code."""
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.complaints.append(f"hvdrun did not end within {PATIENCE} s: {self.report[-4:]}")
            self.process.kill()
            code = self.process.wait()
        for reader in self.readers:
            reader.join()
        return code

    def abandon(self):
        """Ends whatever is left of the job."""
        while left := self.processes():
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        self.wait()

    def leftovers(self, seconds=0.0):
        """What the job has left behind, as sentences, once it has had some seconds for it."""
        ends = time.monotonic() + seconds
        while (left := self._left()) and time.monotonic() < ends:
            threading.Event().wait(0.05)
        return left

    def _left(self):
        left = [f"process {pid}" for pid in self.processes()] + self.room.left()
        return left + [f"file {path}" for path in self.temporary.rglob("*")]

    def remove(self):
        """Removes the job's folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def parent_of(pid):
    """The parent of a process."""
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
