"""Runs the fuzz targets of parsers_fuzz over their committed inputs, and on from there.

    corpora.py PROGRAM --runs N             each parser takes its inputs, then N new ones
    corpora.py PROGRAM --seconds S          each parser for S seconds; prints a table
    corpora.py PROGRAM --seconds S --jobs N                 so many parsers at a time
    corpora.py PROGRAM --seconds S --keep   also adds what reached new code to the committed inputs
    corpora.py PROGRAM --seconds S --also agreement_fuzz    a program that is one target, after the parsers
    corpora.py PROGRAM --seconds S --json FILE              adds the counts to those of earlier searches in the file

The program that is one target prints inputs of its own if it is called with --record: frames of a job that it runs.
A corpus is one file, corpora/PARSER.hex, with an input a line in hexadecimal: thousands of small files would hide the
rest of the tree. Options after -- go to libFuzzer. Exits with 1 if a parser failed; the input that did it stays in
the folder that is printed.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

_CORPORA = pathlib.Path(__file__).resolve().parent / "corpora"
_LONGEST_KEPT = 512  # bytes; longer inputs rarely reach what short ones do not
_MOST_BYTES = 4096  # of an input


def _unpack(arguments, parser, folder):
    """Writes the committed inputs of a parser as files, and those that its program records."""
    file = _CORPORA / f"{parser}.hex"
    lines = file.read_text(encoding="ascii").split() if file.exists() else []
    if parser == arguments.also.name:
        lines += subprocess.run([str(arguments.also), "--record"], capture_output=True, text=True, check=True).stdout.split()
    for number, line in enumerate(lines):
        (folder / f"{number:05}").write_bytes(bytes.fromhex(line))


def _pack(parser, folder):
    """Replaces the committed inputs by the files of a folder, shortest first."""
    inputs = {path.read_bytes() for path in folder.iterdir()}
    kept = sorted((one for one in inputs if 0 < len(one) <= _LONGEST_KEPT), key=lambda one: (len(one), one))
    _CORPORA.mkdir(exist_ok=True)
    (_CORPORA / f"{parser}.hex").write_text("".join(one.hex() + "\n" for one in kept), encoding="ascii")


def _target(arguments, parser):
    """Returns the words that start a parser's program."""
    return [str(arguments.also)] if parser == arguments.also.name else [arguments.program, f"--parser={parser}"]


def _run(arguments, parser, folder):
    """Runs one parser. Returns how many inputs it took, and libFuzzer's output if it failed."""
    limit = f"-runs={arguments.runs}" if arguments.seconds is None else f"-max_total_time={arguments.seconds}"
    command = [*_target(arguments, parser), limit, f"-seed={arguments.seed}", f"-max_len={_MOST_BYTES}", "-verbosity=0",
               "-rss_limit_mb=2000", "-malloc_limit_mb=256", "-print_final_stats=1", "-print_funcs=0",
               f"-artifact_prefix={arguments.failed}/{parser}-", *arguments.options, str(folder)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    taken = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    return int(taken.group(1)) if taken else 0, done.stderr if done.returncode else ""


def _keep(arguments, parser, folder):
    """Keeps the smallest set of inputs that reaches what all of them reach."""
    with tempfile.TemporaryDirectory() as small:
        subprocess.run([*_target(arguments, parser), "-merge=1", f"-max_len={_LONGEST_KEPT}", small, str(folder)],
                       capture_output=True, check=True)  # fmt: skip
        _pack(parser, pathlib.Path(small))


def _search(arguments, parser):
    """Runs one parser from its committed inputs on. Returns its name and what `_run` returns."""
    with tempfile.TemporaryDirectory() as folder:
        _unpack(arguments, parser, pathlib.Path(folder))
        taken, output = _run(arguments, parser, pathlib.Path(folder))
        if arguments.keep and not output:
            _keep(arguments, parser, pathlib.Path(folder))
        return parser, taken, output


def _add_to(file, search, counts):
    """Adds a search and the inputs that each parser took in it to the searches of a file."""
    total = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"executions": 0, "searches": [], "parsers": {}}
    total["executions"] += sum(counts.values())
    total["searches"].append({**search, "executions": sum(counts.values())})
    for parser, taken in counts.items():
        total["parsers"][parser] = total["parsers"].get(parser, 0) + taken
    file.write_text(json.dumps(total, indent=1) + "\n", encoding="utf-8")


def _read_arguments():
    reader = argparse.ArgumentParser()
    reader.add_argument("program")
    reader.add_argument("--runs", type=int, default=0)
    reader.add_argument("--seconds", type=int)
    reader.add_argument("--jobs", type=int, default=1, help="parsers at a time")
    reader.add_argument("--keep", action="store_true")
    reader.add_argument("--seed", type=int, default=1, help="another seed searches elsewhere")
    reader.add_argument("--also", type=pathlib.Path, default=pathlib.Path(), metavar="PROGRAM")
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


def main():
    """Runs all parsers, or those that are named. Returns the exit code."""
    arguments = _read_arguments()
    names = subprocess.run([arguments.program, "--parsers"], capture_output=True, text=True, check=True).stdout.split()
    targets = (arguments.parsers or names) + [arguments.also.name] * bool(arguments.also.name)
    failed, counts = [], {}
    print(f"{'parser':<18}{'inputs':>12}")
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for parser, taken, output in pool.map(lambda one: _search(arguments, one), targets):
            counts[parser] = taken
            print(f"{parser:<18}{taken:>12}{'  FAILED' if output else ''}", flush=True)
            if output:
                failed.append(parser)
                print(output)
    if not failed and not os.listdir(arguments.failed):
        os.rmdir(arguments.failed)
    if arguments.json:
        _add_to(arguments.json, {"seed": arguments.seed, "seconds_each": arguments.seconds, "failed": failed}, counts)
    print(f"{sum(counts.values())} inputs; {len(failed)} of {len(targets)} parsers failed" + (f"; inputs in {arguments.failed}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
