"""Runs the parsers of parsers_fuzz, or of a program for each room, over their committed inputs, and on from there.

    corpora.py PROGRAM... --runs N             each parser takes its inputs, then N new ones
    corpora.py PROGRAM... --seconds S          each parser for S seconds; prints a table
    corpora.py PROGRAM... --seconds S --jobs N                 so many parsers at a time
    corpora.py PROGRAM... --seconds S --keep   also adds what reached new code to the committed inputs
    corpora.py PROGRAM... --seconds S --also agreement_fuzz    a program that is one target, after the parsers
    corpora.py PROGRAM... --seconds S --json FILE              adds the counts to those of earlier searches in the file

The program that is one target prints inputs of its own if it is called with --record: frames of a job that it runs.
A corpus is one file, corpora/PARSER.hex, with an input a line in hexadecimal: thousands of small files would hide the
rest of the tree. More than half a minute for each parser is searched in rounds of half a minute, so that a search that
ends early (SIGTERM, Ctrl-C) has been fair to all; FILE is up to date after each of them. Options after -- go to
libFuzzer. Exits with 1 if a parser failed; the input that did it stays in the folder that is printed, and the parser
sits out the rounds that are left.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading

_CORPORA = pathlib.Path(__file__).resolve().parent / "corpora"
_LONGEST_KEPT = 512  # bytes; longer inputs rarely reach what short ones do not
_MOST_BYTES = 4096  # of an input
_ROUND = 30  # seconds
_INTERRUPTED = 72  # libFuzzer's exit code after SIGTERM or SIGINT
# Memory that was freed a few MiB ago is out of the caches, and the stack of each allocation is a tenth of the time. A
# failed input is repeated without these options, and then shows the stacks.
_ASAN = "quarantine_size_mb=4:malloc_context_size=0"
_NOTHING = {"executions": 0, "core_seconds": 0.0, "corpus": 0, "failures": 0}


def _pack(parser, folder):
    """Replaces the committed inputs by the files of a folder, shortest first."""
    inputs = {path.read_bytes() for path in folder.iterdir()}
    kept = sorted((one for one in inputs if 0 < len(one) <= _LONGEST_KEPT), key=lambda one: (len(one), one))
    _CORPORA.mkdir(exist_ok=True)
    (_CORPORA / f"{parser}.hex").write_text("".join(one.hex() + "\n" for one in kept), encoding="ascii")


class _Target:
    """A parser, the words that start its program, its inputs so far and what came of them."""

    def __init__(self, name, words, folder):
        self.name, self.words, self.folder, self.counts = name, words, folder / name, dict(_NOTHING)

    def unpack(self):
        """Writes the committed inputs of the parser as files, and those that its program records."""
        self.folder.mkdir()
        file = _CORPORA / f"{self.name}.hex"
        lines = file.read_text(encoding="ascii").split() if file.exists() else []
        if len(self.words) == 1:
            lines += subprocess.run([*self.words, "--record"], capture_output=True, text=True, check=True).stdout.split()
        for number, line in enumerate(lines):
            (self.folder / f"{number:05}").write_bytes(bytes.fromhex(line))

    def keep(self):
        """Commits the smallest set of inputs that reaches what all of them reach."""
        with tempfile.TemporaryDirectory() as small:
            subprocess.run([*self.words, "-merge=1", f"-max_len={_LONGEST_KEPT}", small, str(self.folder)],
                           capture_output=True, check=True)  # fmt: skip
            _pack(self.name, pathlib.Path(small))


class _Search:
    """The programs that run now, and an end for all of them."""

    def __init__(self, arguments):
        self.arguments, self.running, self.stopped, self.lock = arguments, set(), False, threading.RLock()

    def stop(self, *_):
        """Ends the programs that run; they still say how many inputs they took. For a signal too."""
        with self.lock:
            self.stopped = True
            for program in self.running:
                os.kill(program.pid, signal.SIGTERM)

    def run(self, target, limit, seed):
        """Runs a parser up to a limit of libFuzzer's. Returns libFuzzer's output if it failed."""
        command = [*target.words, limit, f"-seed={seed}", f"-max_len={_MOST_BYTES}", "-verbosity=0", "-rss_limit_mb=2000", "-malloc_limit_mb=256",
                   "-print_final_stats=1", "-print_funcs=0", f"-artifact_prefix={self.arguments.failed}/{target.name}-",
                   *self.arguments.options, str(target.folder)]  # fmt: skip
        environment = {**os.environ, "ASAN_OPTIONS": f"{_ASAN}:{os.environ.get('ASAN_OPTIONS', '')}"}
        with tempfile.TemporaryFile() as errors:
            with self.lock:
                if self.stopped:
                    return ""
                program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, env=environment)
                self.running.add(program)
            os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)  # its number is not given away before it is struck off
            with self.lock:
                self.running.remove(program)
                _, status, usage = os.wait4(program.pid, 0)
                program.returncode = os.waitstatus_to_exitcode(status)
            errors.seek(0)
            output = errors.read().decode(errors="replace")
        failed = program.returncode not in (0, _INTERRUPTED)
        taken = re.search(r"number_of_executed_units: (\d+)", output)
        target.counts["executions"] += int(taken.group(1)) if taken else 0
        target.counts["core_seconds"] += round(usage.ru_utime + usage.ru_stime, 2)
        target.counts["corpus"] = sum(1 for _ in target.folder.iterdir())
        target.counts["failures"] += failed
        return output if failed else ""


class _Counts:
    """A file with the counts of this search and of earlier ones."""

    def __init__(self, arguments):
        self.file, self.search = arguments.json, {"seed": arguments.seed, "seconds_each": arguments.seconds}
        self.before = {"executions": 0, "searches": [], "parsers": {}}
        if self.file and self.file.exists():
            self.before = json.loads(self.file.read_text(encoding="utf-8"))

    def write(self, targets):
        """Replaces the file at once, so that it is whole whenever this program ends."""
        if not self.file:
            return
        executions = sum(target.counts["executions"] for target in targets)
        failed = [target.name for target in targets if target.counts["failures"]]
        search = {**self.search, "failed": failed, "executions": executions, "load": os.getloadavg()[2]}
        parsers = {name: {**_NOTHING, **counts} for name, counts in self.before["parsers"].items()}
        for target in targets:
            earlier = parsers.get(target.name, _NOTHING)
            sums = {key: earlier[key] + target.counts[key] for key in ("executions", "core_seconds", "failures")}
            parsers[target.name] = {**sums, "core_seconds": round(sums["core_seconds"], 2), "corpus": target.counts["corpus"]}
        total = {"executions": self.before["executions"] + executions, "searches": [*self.before["searches"], search], "parsers": parsers}
        new = self.file.with_name(self.file.name + ".new")
        new.write_text(json.dumps(total, indent=1) + "\n", encoding="utf-8")
        new.replace(self.file)


def _limits(arguments):
    """The limit of each round, for libFuzzer."""
    if arguments.seconds is None:
        return [f"-runs={arguments.runs}"]
    rounds = max(1, arguments.seconds // _ROUND)
    return [f"-max_total_time={arguments.seconds // rounds}"] * rounds


def _read_arguments():
    reader = argparse.ArgumentParser()
    reader.add_argument("programs", nargs="+", metavar="PROGRAM")
    reader.add_argument("--runs", type=int, default=0)
    reader.add_argument("--seconds", type=int)
    reader.add_argument("--jobs", type=int, default=1, help="parsers at a time")
    reader.add_argument("--keep", action="store_true")
    reader.add_argument("--seed", type=int, default=1, help="another seed searches elsewhere")
    reader.add_argument("--also", type=pathlib.Path, metavar="PROGRAM")
    reader.add_argument("--json", type=pathlib.Path, metavar="FILE")
    reader.add_argument("--parsers", nargs="*", default=[])
    reader.add_argument("--failed", default="", help="folder for inputs that fail")
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    arguments = reader.parse_args(words[:cut])
    arguments.options = words[cut + 1 :]
    arguments.failed = arguments.failed or tempfile.mkdtemp(prefix="rueda-fuzz-")
    pathlib.Path(arguments.failed).mkdir(parents=True, exist_ok=True)
    return arguments


def _targets(arguments, folder):
    """The targets of all programs, or those that are named."""
    words = {}
    for program in arguments.programs:
        names = subprocess.run([program, "--parsers"], capture_output=True, text=True, check=True).stdout.split()
        words.update({name: [program, f"--parser={name}"] for name in names})
    unknown = [name for name in arguments.parsers if name not in words]
    if unknown:
        sys.exit(f"corpora.py: there is no parser {' '.join(unknown)}; there are {' '.join(words)}")
    targets = [_Target(name, words[name], folder) for name in arguments.parsers or words]
    return targets + ([_Target(arguments.also.name, [str(arguments.also)], folder)] if arguments.also else [])


def _run_all(arguments, targets):
    """Runs the targets, round after round."""
    search, counts = _Search(arguments), _Counts(arguments)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, search.stop)
    print(f"{'parser':<18}{'inputs':>12}{'a second of a core':>20}{'corpus':>8}")
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for turn, limit in enumerate(_limits(arguments)):
            going = [target for target in targets if not target.counts["failures"] and not search.stopped]
            seed = arguments.seed + (turn << 16)
            for target, output in pool.map(lambda one: (one, search.run(one, limit, seed)), going):  # noqa: B023
                now = target.counts
                rate = now["executions"] / max(now["core_seconds"], 0.01)
                if output or not search.stopped:
                    print(f"{target.name:<18}{now['executions']:>12}{rate:>20.0f}{now['corpus']:>8}{'  FAILED' if output else ''}", flush=True)
                    print(output, end="", flush=True)
                counts.write(targets)
        if arguments.keep:
            list(pool.map(_Target.keep, (target for target in targets if not target.counts["failures"])))


def main():
    """Runs all parsers, or those that are named. Returns the exit code."""
    arguments = _read_arguments()
    with tempfile.TemporaryDirectory() as folder:
        targets = _targets(arguments, pathlib.Path(folder))
        for target in targets:
            target.unpack()
        _run_all(arguments, targets)
    failed = sum(target.counts["failures"] > 0 for target in targets)
    if not failed and not os.listdir(arguments.failed):
        os.rmdir(arguments.failed)
    executions = sum(target.counts["executions"] for target in targets)
    print(f"{executions} inputs; {failed} of {len(targets)} parsers failed" + (f"; inputs in {arguments.failed}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
