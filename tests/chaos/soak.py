"""Repeats one thing in a job of ranks in C that lives on, and checks that no rank grows.

    scripts/soak                                     200 sessions, 10,000 operations that fail, a minute of random programs
    scripts/soak --only programs --minutes 60        an hour of them
    scripts/soak --preset asan --minutes 60          built under ASan and UBSan, or tsan; builds that first
    scripts/soak --ranks 2 --json FILE --seed 7

Random programs are operations of all kinds and random sizes, with groups, messages, a process set and joins, and every number is
checked. A rank measures its descriptors, threads and Pss fifty times: the second fifth of these beside the last.
Descriptors and threads must not have grown by more than --late, Pss by no more than --pss KiB. Under a sanitizer that limit is for
what the program has allocated, since the sanitizer's own tables are in Pss. Exit code 1: something grew, was wrong, or a job failed."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parents[2]
LINE = re.compile(r"^(?:\[(\d+)\](?:<std\w+>)?:\s*)?(soak|wrong) (.*)$")
PARTS = ("sessions", "failures", "programs")
WHAT = ("descriptors", "threads", "pss", "allocated")  # the last two in KiB, the last one only under a sanitizer
# What ASan keeps of freed memory looks like growth until it is full, and so do the stacks of allocations that both keep for
# ever: random programs come to new ones for long.
QUIET = {"ASAN_OPTIONS": "quarantine_size_mb=8:malloc_context_size=1:detect_leaks=0", "TSAN_OPTIONS": "history_size=2"}


def fifths(values):
    """The maximum of each fifth of some measurements."""
    ends = [fifth * len(values) // 5 for fifth in range(6)]
    return [max(values[begin : max(end, begin + 1)]) for begin, end in zip(ends, ends[1:])]


def growth(rows, kib, late=0):
    """The table's rows and the complaints, for name -> measurements: the second fifth beside the last, since the first one warms up.
    kib, late: how much memory, and how many of the rest, a process may have gained."""
    table, complaints = [], []
    for name, values in rows.items():
        row = {"process": name, "measurements": len(values)}
        allowed = {"descriptors": late, "threads": late, "allocated" if "allocated" in values[0] else "pss": kib}
        for what in (what for what in WHAT if what in values[0]):
            course = fifths([value[what] for value in values])
            before, after = course[1], course[-1]
            row[what] = [before, after]
            if what in ("pss", "allocated"):
                row[f"{what}_of_fifths"] = course
            if what in allowed and after > before + allowed[what]:
                complaints.append(f"{name}: {what} grew from {before} to {after}")
        table.append(row)
    return table, complaints


def show(table):
    """Prints the rows."""
    for row in table:
        told = [f"{what} {row[what][0]:6} ->{row[what][1]:6}" for what in WHAT if what in row]
        print(f"{row['process']:12}{row['measurements']:5} times   {'   '.join(told)}   pss of fifths {row['pss_of_fifths']}")


def run(part, much, options):
    """Runs one job and returns its table, its complaints, how much it did, and its seconds."""
    words = [str(options.bin / "hvdrun"), "-np", str(options.ranks), str(options.bin / "soak_rank"), part, str(much)]
    words += [str(options.seed)] * (part == "programs")
    settings = {name: ":".join(filter(None, (value, os.environ.get(name)))) for name, value in QUIET.items()}
    begin, rows, complaints, done, rest = time.monotonic(), {}, [], 0, []
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **settings}) as job:
        for line in job.stdout:
            match = LINE.match(line)
            if match is None:
                rest = [*rest[-30:], line.rstrip()]
            elif match[2] == "wrong":
                complaints.append(f"rank {match[1]}: {match[3]}")
            else:
                rows.setdefault(f"rank {match[1]}", []).append(json.loads(match[3]))
                done = rows[f"rank {match[1]}"][-1]["done"]
    if job.returncode != 0:
        complaints.append("\n".join([f"{part}: hvdrun ended with {job.returncode}", *rest]))
    if len(rows) != options.ranks and not complaints:
        complaints.append(f"{part}: {len(rows)} of {options.ranks} ranks have told anything")
    table, grown = growth(dict(sorted(rows.items())), options.pss, options.late)
    return {"part": part, "done": done, "seconds": round(time.monotonic() - begin, 1), "table": table, "wrong": complaints + grown}


def parse(words):
    """The options."""
    parser = argparse.ArgumentParser("scripts/soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, metavar="|".join(PARTS))
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--failures", type=int, default=10000)
    time_of_programs = parser.add_mutually_exclusive_group()
    time_of_programs.add_argument("--minutes", type=float, default=1)
    time_of_programs.add_argument("--seconds", type=int)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--pss", type=int, default=1024, metavar="KIB", help="growth that is allowed; of what is allocated under a sanitizer")
    parser.add_argument("--late", type=int, default=0, metavar="N", help="descriptors or threads that a short run sees begin")
    parser.add_argument("--preset", default="release", choices=("release", "debug", "asan", "tsan"))
    parser.add_argument("--bin", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(words)
    options.seconds = options.seconds or max(1, round(options.minutes * 60))
    return options


def main(words):
    """Runs the parts and returns the exit code."""
    options = parse(words)
    if options.bin is None:
        targets = ["--target", "hvdrun", "soak_rank"]
        subprocess.run(["cmake", "--preset", options.preset], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--build", "--preset", options.preset, *targets], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        options.bin = ROOT / "build" / options.preset / "bin"
    much = {"sessions": options.sessions, "failures": options.failures, "programs": options.seconds}
    for program in ("hvdrun", "soak_rank"):
        if not os.access(options.bin / program, os.X_OK):
            sys.exit(f"soak: there is no {program} in {options.bin}")
    results = []
    for part in [options.only] if options.only else PARTS:
        results.append(run(part, much[part], options))
        print(f"{part}: {results[-1]['done']:,} in {results[-1]['seconds']} s; the second fifth of the measurements -> the last")
        show(results[-1]["table"])
        for complaint in results[-1]["wrong"]:
            print(complaint)
        sys.stdout.flush()
    if options.json:
        told = {"preset": options.preset, "ranks": options.ranks, "seed": options.seed, "pss_allowed_kib": options.pss, "parts": results}
        pathlib.Path(options.json).write_text(json.dumps(told, indent=1) + "\n")
    return 1 if any(result["wrong"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
