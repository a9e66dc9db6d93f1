"""Holds Rueda's own choice of a way against each other way, batch by batch in one job.

    python3 benchmarks/choices.py                             # np 2, 4 and 8, 16 KiB to 64 MiB: three to ten minutes
    python3 benchmarks/choices.py --np 2 --max 1M --seconds 10 --keep trials.csv
    python3 benchmarks/choices.py --read trials.csv           # a log of any program that ran with hvdrun --autotune-check

With --autotune-check a job goes on after each choice: two to five batches in what is chosen, as many in another way, and so on
through all ways. The last ones are timed. Both of such a pair meet the machine in the same state, so other work on it disturbs the ratio of their times little.
Of the pairs of two ways the quarter counts that took least time: the others met that work.
A line is a class of batches: how many times as long the choice takes as the best other way, by the median of their pairs, with
its range of 95 % confidence, and the same for the choice beside itself, which shows what chance does. MISSED: the whole range
is above 1.03; then the exit code is 1, and after an error it is 2. A class of fewer than 16 pairs is not judged. If other ways have challenged a choice and won, the
choice that stood for most of the time is judged, by its own pairs.

Batches next to each other share caches and the cores' time, so a way may look better in pairs than it is in a job of its own. A
class that pairs have missed is judged once more by whole jobs, if this can start them again: all-reduces of f32 on this host. Jobs
that choose, from a tune file that an earlier job has left, run in turns with jobs in the other way only. Their range counts: MISSED
if all of it is above 1.03, undecided if only a part is.
"""

import argparse
import collections
import csv
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

BINARIES = pathlib.Path(__file__).resolve().parent.parent / "build" / "release" / "bin"
MOST_BEHIND = 1.03
FEWEST_PAIRS = 16
FEWEST_COUNTED = 8
CLASS = ("set", "operation", "type", "codec", "ranks", "hosts", "distance", "class_bytes", "short_tensors")
OWN, OTHER = "2", "3"  # of the column `chosen`
TURNS = 9  # of whole jobs
MOST_APART = 2  # times: if the cores' round trips of two jobs differ by more, the machine has moved the cores


def way(row):
    slots = "" if row["lane_slots"] == "auto" else f", {row['lane_slots']} slots"
    sockets = "" if row["sockets"] == "auto" else f", {row['sockets']} sockets"
    return f"{row['algorithm']}, {int(row['chunk_bytes']) >> 10} KiB, {row['stores']}, {row['waits']}{slots}{sockets}"


def pairs_of(rows):
    """By class and way: the choice's time, that of the way in the next line, and the way that was chosen."""
    found, last = collections.defaultdict(lambda: collections.defaultdict(list)), {}
    for row in rows:
        group = tuple(row[name] for name in CLASS)
        own = last.pop(group, None)
        if row["chosen"] == OWN:
            last[group] = row
        elif row["chosen"] == OTHER and own is not None and own["bytes"] == row["bytes"] and float(row["microseconds"]) > 0:
            found[group][way(row)].append((float(own["microseconds"]), float(row["microseconds"]), way(own)))
    return found


def ratios_of(pairs):
    """Of the quarter that took least time, both batches of a pair together: so neither of the two is favoured."""
    counted = max(FEWEST_COUNTED, len(pairs) // 4)
    return [own / other for own, other, _ in sorted(pairs, key=lambda pair: pair[0] + pair[1])[:counted]]


def median_of(ratios):
    """The median, and the range that has it with 95 % confidence: of the order of the values alone."""
    values, middle = sorted(ratios), len(ratios) / 2
    reach = 0.98 * math.sqrt(len(values))
    low, high = max(0, math.floor(middle - reach)), min(len(values) - 1, math.ceil(middle + reach) - 1)
    return statistics.median(values), values[low], values[high]


def verdicts(found):
    """For each class: (class, its choice, the best other way, median, low, high, pairs, median beside itself)."""
    lines = []
    for group, ways in found.items():
        chosen = collections.Counter(own for pairs in ways.values() for *_, own in pairs).most_common(1)[0][0]
        beside = ratios_of([pair for name, pairs in ways.items() for pair in pairs if pair[2] == name])
        others = {name: [pair for pair in pairs if pair[2] == chosen] for name, pairs in ways.items() if name != chosen}
        others = {name: ratios_of(pairs) for name, pairs in others.items() if len(pairs) >= FEWEST_PAIRS}
        if not others:
            continue
        best = max(others, key=lambda name: statistics.median(others[name]))
        lines.append((group, chosen, best, *median_of(others[best]), len(others[best]), statistics.median(beside) if beside else math.nan))
    return lines


def size_text(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def settings_of(text):
    """hvdrun's settings for a way on one host, as `way` tells it."""
    algorithm, chunk, stores, waits, *slots = text.split(", ")
    settings = ["--no-autotune", "--allreduce-algorithm", algorithm, "--chunk-bytes", chunk.replace(" KiB", "K"), "--stores", stores, "--waits", waits]
    return settings + [part for each in slots for part in ("--lane-slots", each.split(" ")[0])]


def can_start(group):
    about = dict(zip(CLASS, group))
    same = {"set": "0", "operation": "allreduce", "type": "f32", "codec": "none", "hosts": "1", "short_tensors": "0"}
    return all(about[name] == value for name, value in same.items())


def run(ranks, settings, *sizes):
    """A job on this host: hvdrun's settings, and rueda-perf's sizes and seconds."""
    hosts = ["-np", str(ranks), "-H", f"localhost:{ranks}"]
    perf = [str(BINARIES / "rueda-perf"), "allreduce", "--in-place", *sizes]
    subprocess.run([str(BINARIES / "hvdrun"), *hosts, *settings, *perf], check=True, stdout=subprocess.DEVNULL)


def job(ranks, size, seconds, settings, folder):
    """The time of a step and the cores' round trip, of a job with these settings."""
    path = os.path.join(folder, "job.json")
    run(ranks, settings, "--bytes", str(size), "--seconds", f"{seconds:g}", "--json", path)
    with open(path, encoding="utf-8") as file:
        (result,) = json.load(file)["results"]
    return result["p50_us"], max(result["line_ns"])


def whole_jobs(group, other, seconds):
    """Median and range of jobs that choose, as multiples of the times of jobs in the other way; None if too few are alike."""
    about, ratios = dict(zip(CLASS, group)), []
    with tempfile.TemporaryDirectory(prefix="rueda-choices-") as folder:
        ways = {"own": ["--tune-file", os.path.join(folder, "choices.json")], "other": settings_of(other)}
        job(about["ranks"], about["class_bytes"], seconds, ways["own"], folder)
        for turn in range(TURNS):
            order = ["own", "other"] if turn % 2 == 0 else ["other", "own"]
            jobs = {name: job(about["ranks"], about["class_bytes"], seconds / 3, ways[name], folder) for name in order}
            lines = [line for _, line in jobs.values()]
            if max(lines) <= MOST_APART * min(lines):
                ratios.append(jobs["own"][0] / jobs["other"][0])
    return median_of(ratios) if len(ratios) > TURNS // 2 else None


def judged(lines, seconds):
    """The lines, each with what whole jobs say if its pairs have missed and they can be started; else with None."""
    for line in lines:
        yield *line, whole_jobs(line[0], line[2], seconds) if seconds and line[4] > MOST_BEHIND and can_start(line[0]) else None


def missed(line):
    return (line[-1] or line[3:6])[1] > MOST_BEHIND


def verdict(line):
    if missed(line):
        return " **MISSED**"
    return " undecided" if line[-1] and line[-1][2] > MOST_BEHIND else ""


def table(lines):
    text = ["| np | from | cores | chosen | best other way | choice / that, median (95 %) | of pairs | beside itself | in whole jobs |",
            "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for line in lines:
        group, chosen, best, median, low, high, pairs, beside, jobs = line
        about = dict(zip(CLASS, group))
        whole = "{:.3f} ({:.3f} to {:.3f})".format(*jobs) if jobs else ""
        text.append(f"| {about['ranks']} | {size_text(int(about['class_bytes']))} | {about['distance']} | {chosen} | {best} | "
                    f"{median:.3f} ({low:.3f} to {high:.3f}) | {pairs} | {beside:.3f} | {whole}{verdict(line)} |")  # fmt: skip
    return text


def numbers(text):
    found = [int(each) if each.isdecimal() else 0 for each in text.split(",")]
    if min(found) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of positive numbers with commas between them, like 2,4,8")
    return found


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="choices", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--np", default="2,4,8", type=numbers, help="numbers of ranks (2,4,8)")
    parser.add_argument("--min", default="16K", help="bytes of the smallest tensor (16K)")
    parser.add_argument("--max", default="64M", help="bytes of the largest; four times as many from one to the next (64M)")
    parser.add_argument("--seconds", default=6, type=float, help="of a size (6)")
    parser.add_argument("--keep", type=pathlib.Path, help="file for the log of all jobs")
    parser.add_argument("--read", type=pathlib.Path, help="starts nothing and reads this log")
    options = parser.parse_args(arguments)
    if options.keep and not options.keep.absolute().parent.is_dir():
        parser.error(f"--keep {options.keep}: there is no folder {options.keep.absolute().parent}")
    if options.keep and options.keep.is_dir():
        parser.error(f"--keep {options.keep}: it is a folder, and a file is needed")
    return options


def no_result(what):
    print(f"choices: {what}", file=sys.stderr)
    return 2


def measured(options):
    if options.read:
        with open(options.read, encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    rows = []
    with tempfile.TemporaryDirectory(prefix="rueda-choices-") as folder:
        for ranks in options.np:
            path = os.path.join(folder, f"{ranks}.csv")
            run(ranks, ["--autotune-check", "--autotune-log-file", path], "--min", options.min, "--max", options.max, "--step-factor", "4",
                "--seconds", f"{options.seconds:g}")  # fmt: skip
            with open(path, encoding="utf-8", newline="") as file:
                rows += csv.DictReader(file)
    if options.keep and rows:
        with open(options.keep, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return rows


def report(options):
    """Prints the table. Returns 1 if a class is missed, and 2 if none can be judged."""
    try:
        lines = list(judged(verdicts(pairs_of(measured(options))), 0 if options.read else options.seconds))
        text = table(lines)
    except KeyError as error:
        return no_result(f"the log has no column {error}; give one of --autotune-log-file")
    except (ValueError, TypeError, csv.Error) as error:
        return no_result(f"the log cannot be read: {error}; give one of --autotune-log-file")
    if not lines:
        return no_result(f"no class has {FEWEST_PAIRS} pairs; run for more --seconds, or give a log of a job with --autotune-check")
    print("\n".join(text), flush=True)
    return 1 if any(map(missed, lines)) else 0


def main(arguments=None):
    try:
        return report(parse(arguments))
    except OSError as error:
        missing = "; scripts/demo makes a release build, with hvdrun and rueda-perf" if str(error.filename).startswith(str(BINARIES)) else ""
        return no_result(f"{error.filename or 'output'}: {error.strerror}{missing}")
    except subprocess.CalledProcessError as error:
        return no_result(f"hvdrun ended with {error.returncode}")


if __name__ == "__main__":
    sys.exit(main())
