"""One job of ranks under chaos, whose number is fixed: its processes, what they tell, and what they leave behind."""

import contextlib
import os
import pathlib
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import job
from holding import refuse_pidfds
from marks import marked

ROOT = str(pathlib.Path(__file__).parents[2])
PATIENCE = 240  # seconds; a job that needs them is broken
OVER = re.compile(r"the epoch is over, (?:([\d.]+) ms after the first evidence|before any evidence)")
TOLD = re.compile(r"(?:\[(\d+)\]<stdout>:)?(pid|failed|wrong|done) (\w+) ?(.*)")
# The environments of Python in which rank.py finds a framework, of scripts/setup; the first that is there.
ENVIRONMENTS = {"torch": [".venv"], "ddp": [".venv"], "tensorflow": ["build/frameworks/tf-newest", "build/frameworks/tf-2.15"],
                "jax": ["build/frameworks/jax-newest"]}  # fmt: skip


def program_of(options, number):
    """The words that start a rank of a round."""
    seed = str(1000003 * options.seed + number)
    if options.program == "c":
        return [os.path.join(options.bin, "chaos_rank"), seed]
    pythons = [os.path.join(ROOT, folder, "bin", "python") for folder in ENVIRONMENTS[options.program]]
    python = next((path for path in pythons if os.access(path, os.X_OK)), None)
    if python is None:
        sys.exit(f"chaos: --program {options.program} needs {pythons[0]}; scripts/setup and scripts/setup --frameworks make it")
    return [python, "-B", os.path.join(ROOT, "tests", "chaos", "rank.py"), options.program, seed]


class RankJob:
    """A job, its output lines with their times, and the complaints about it.

    room: where it runs. names: its hosts. The first one has rank 0 and all but the last ranks, one for each other host.
    Other threads read the job's output; one thread uses the methods.
    """

    def __init__(self, number, options, room, names):
        self.room, self.options, self.program = room, options, program_of(options, number)
        self.pids, self.failures, self.done, self.report, self.complaints, self.waits = {}, {}, {}, [], [], []
        self.changed, self.readers, self.open_streams, self.note, self.visits = threading.Condition(), [], 0, "", 0
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rueda-chaos-"))
        self.temporary = self.folder / "temporary"
        self.temporary.mkdir()
        self.mark = self.folder.name
        of_first = options.ranks - len(names) + 1
        self.hosts = dict(enumerate([names[0]] * of_first + names[1:]))
        self.listed = ",".join([f"{names[0]}:{of_first}", *(f"{name}:1" for name in names[1:])])
        environment = dict(os.environ, RUEDA_LOG_LEVEL="info", OMP_NUM_THREADS="1", TF_CPP_MIN_LOG_LEVEL="2", TMPDIR=str(self.temporary),
                           TORCHINDUCTOR_CACHE_DIR=str(self.folder / "of-pytorch"),
                           PYTHONPATH=os.path.join(os.path.dirname(os.path.abspath(options.bin)), "python"), **{job.MARK: self.mark})  # fmt: skip
        self.jobs = self._start_by_hand(environment) if options.by_hand else [self._start_hvdrun(environment)]

    def _start_hvdrun(self, environment):
        # Interpreters may take their time to start beside other work.
        flags = ["--start-timeout", str(PATIENCE - 40), "-np", str(self.options.ranks), "-H", self.listed]
        words = [os.path.join(self.options.bin, "hvdrun"), *flags, *self.program]
        return self._start(words, environment, None)

    def _start_by_hand(self, environment):
        # While this socket is open no other program gets the port. The ranks' store, which reuses addresses, may listen there.
        self.reserved = socket.socket()
        self.reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.reserved.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{self.reserved.getsockname()[1]}"
        key = self.folder / "key"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(32))
        common = dict(environment, RUEDA_SIZE=str(self.options.ranks), RUEDA_STORE_ADDR=address, RUEDA_JOB_KEY_FILE=str(key))
        return [self._start(self.program, dict(common, RUEDA_RANK=str(rank), RUEDA_HOSTNAME=self.hosts[rank]), rank) for rank in self.hosts]

    def _start(self, words, environment, rank):
        before = refuse_pidfds if self.options.without_pidfd else None
        process = subprocess.Popen(self.room.command(self.folder, words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=environment, preexec_fn=before)  # fmt: skip
        for stream in (process.stdout, process.stderr):
            self.open_streams += 1
            self.readers.append(threading.Thread(target=self._read, args=(stream, rank)))
            self.readers[-1].start()
        return process

    def _read(self, stream, of_rank):
        for line in stream:
            found, over = TOLD.match(line), OVER.search(line)
            rank = int((found and found[1]) or of_rank or 0)
            with self.changed:
                if over and not line.startswith("hvdrun: "):  # which repeats last lines
                    self.waits.append(float(over[1] or 0))
                elif not found:
                    self.report.append(line.rstrip("\n"))
                elif found[2] == "wrong":
                    self.complaints.append(f"rank {rank}: wrong {found[3]} {found[4]}")
                elif found[2] == "pid":
                    self.pids[rank] = int(found[3])
                elif found[2] == "done":
                    self.done[rank] = int(found[3])
                else:
                    self.failures[rank] = (int(found[3]), found[4])
                self.changed.notify_all()
        with self.changed:
            self.open_streams -= 1
            self.changed.notify_all()

    def over(self):
        """Whether nobody is left who could say something."""
        return self.open_streams == 0

    def until(self, ready, what):
        """Waits until ready() is true, which is asked whenever a line has come. Returns whether it is."""
        with self.changed:
            if self.changed.wait_for(ready, PATIENCE):
                return True
            self.complaints.append(f"{what} did not come within {PATIENCE} s: {self.report[-3:]}")
            return False

    def until_started(self):
        """Waits until every rank has run some operations."""
        started = lambda: len(self.pids) == self.options.ranks  # noqa: E731
        self.until(lambda: started() or self.over(), "the start of all ranks")
        if self.over() and not started():
            self.complaints.append(f"the ranks ended before all had started: {self.report[-3:]}")
        return started()

    def until_raised(self, blow):
        """Waits until the ranks that were not struck have raised, as far as they come to it. Returns after how many
        milliseconds each has, and complains about those that have not, or that blame somebody else."""
        others = [rank for rank in self.hosts if rank not in blow.victims]
        self.until(lambda: all(rank in self.failures for rank in others) or self.over(), "the survivors' errors")
        names = [self.name_of(rank) if blow.exact else f"rank {rank}" for rank in blow.victims] or [""]
        if self.options.by_hand and 0 in blow.victims and not blow.exact:
            names.append("store at ")  # rank 0 has it, and one that lets nobody in can tell nobody
        for rank in others:
            moment, sentence = self.failures.get(rank, (0, "nothing"))
            earlier = [f"rank {other} " for other in others if blow.follows and self.failures.get(other, (moment,))[0] < moment]
            right = any(name in sentence for name in names + earlier) and any(cause in sentence for cause in blow.causes)
            if not right and (blow.all_raise or rank in self.failures):
                self.complaints.append(f'rank {rank} said "{sentence}", not {" or ".join(names + earlier)} and {" or ".join(blow.causes)}')
        return [(self.failures[rank][0] - blow.at) / 1e6 for rank in others if rank in self.failures]

    def process_of(self, rank):
        """The process of a rank, which may not have told anything yet, or None."""
        if self.options.by_hand:
            return self.jobs[rank].pid
        for pid in marked(self.mark):
            with contextlib.suppress(OSError):
                if f"RUEDA_RANK={rank}".encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    return pid
        return None

    def launcher_of(self, rank, name):
        """hvdrun, or the guard or the agent on the host of a rank that has told its number."""
        agent = job.parent_of(self.pids[rank])
        return {"hvdrun": self.jobs[0].pid, "agent": agent, "guard": job.parent_of(agent)}[name]

    def name_of(self, rank):
        """As sentences name a rank."""
        return f"rank {rank} (host {self.hosts[rank]}, pid {self.pids[rank]})"

    def end(self, blow):
        """Waits for hvdrun, or for the ranks, and returns hvdrun's exit code."""
        if blow is None and not self.over():
            self.jobs[0].terminate()  # a round that went wrong: what is left of it is killed later
        for rank in blow.victims if blow and self.options.by_hand else ():
            self.jobs[rank].kill()  # a stopped one
        code = None
        for process in self.jobs:
            try:
                code = process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.complaints.append(f"process {process.pid} did not end within {PATIENCE} s")
                process.kill()
                code = process.wait()
        self.ended = time.monotonic_ns()
        return code

    def left(self):
        """What the job has left behind, as sentences."""
        left = [f"process {pid}" for pid in marked(self.mark)] + self.room.left()
        # Frameworks that are killed leave files of their own.
        return left + [f"file {path}" for path in self.temporary.rglob("*") if self.options.program == "c" or "rueda" in path.name]

    def until_nothing_left(self, seconds):
        """Gives the job's rest some seconds to end. Returns when there was nothing left, or complains and ends it."""
        ends = time.monotonic() + seconds
        while (left := self.left()) and time.monotonic() < ends:
            threading.Event().wait(0.01)
        when = time.monotonic_ns()
        if left:
            self.complaints.append(f"left behind: {left}")
        while found := marked(self.mark):
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for reader in self.readers:
            reader.join()
        if self.options.by_hand:
            self.reserved.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        return when
