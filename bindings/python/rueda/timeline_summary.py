#!/usr/bin/env python3
"""rueda-timeline: summarises a timeline in words. Needs only Python 3.

rueda-timeline summary FILE...   where each rank spent its time, and how often each rank was late. Give several files
                                 if the ranks of a job wrote one file each, or one for each plan of an elastic job.

Times in a file are in microseconds.
"""

import argparse
import collections
import json
import sys

PHASES = ("pack", "reduce", "wait", "transfer", "unpack", "device pack", "device exchange", "device unpack")
MOST_NAMES = 5


def union(spans):
    """The time during which at least one of these (begin, end) spans was running."""
    total, end = 0.0, float("-inf")
    for begin, stop in sorted(spans):
        total += max(0.0, stop - max(begin, end))
        end = max(end, stop)
    return total


def duration(microseconds):
    """A time for people to read, such as "12.3 ms"."""
    for unit, factor in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= factor:
            return f"{microseconds / factor:.3g} {unit}"
    return f"{microseconds:.3g} us"


def printable(name):
    """A tensor's name on one line, with escapes for characters that cannot be printed."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


class Rank:
    """The records of one rank."""

    def __init__(self):
        self.negotiated = []  # (begin, end)
        self.queued = []
        self.batches = []
        self.algorithms = collections.Counter()  # time, by algorithm
        self.busy = collections.Counter()  # time, by phase
        self.tensors = self.bytes = self.lost = 0

    def spans(self):
        """All spans, of negotiations, queues and batches."""
        return self.negotiated + self.queued + self.batches


class Timeline:
    """The events of a job.

    A rank is a pair of its plan and its number there, since another plan of an elastic job gives that to another worker.
    The plan is 0 in other jobs.
    """

    def __init__(self):
        self.ranks = collections.defaultdict(Rank)
        self.workers = {}  # numbers of workers, by rank; empty if the job is not elastic
        self.submitted = collections.defaultdict(dict)  # (plan, set, batch, name, occurrence of that name): time, by rank
        self._plans = {}  # by number of a rank in the current file
        self._open = {}
        self._tensors = {}  # (set, name), by (rank, thread) of the current file
        self._seen = collections.Counter()

    def read(self, path):
        """Adds the events of a file. Raises ValueError, KeyError, TypeError or IndexError if it is not a timeline of
        Rueda."""
        with open(path, encoding="utf-8") as file:
            events = json.load(file)
        if not isinstance(events, list):
            raise ValueError("the file is not a list of events")
        if not all(isinstance(event, dict) for event in events):
            raise ValueError("one of its entries is not an event")
        self._tensors.clear()
        self._plans.clear()
        for event in events:
            self._take_worker(event)
        for event in events:
            self._take(event)

    def _take_worker(self, event):
        facts = event.get("args", {}) if event.get("name") == "process_name" else {}
        if "worker" in facts:
            self._plans[event["pid"]] = facts["plan"]
            self.workers[facts["plan"], event["pid"]] = facts["worker"]

    def _rank_of(self, event):
        return self._plans.get(event["pid"], 0), event["pid"]

    def _take(self, event):
        phase, rank = event["ph"], self._rank_of(event)
        if phase in "be":
            self._take_async(event, self.ranks[rank])
        elif phase == "X" and (rank, event["tid"]) in self._tensors:
            span = (event["ts"], event["ts"] + event["dur"])
            self._take_negotiation(rank, *self._tensors[rank, event["tid"]], event["args"]["batch"], span)
        elif phase == "X":
            self._take_span(event, self.ranks[rank])
        elif phase == "M" and event["name"] == "thread_name" and "set" in event["args"]:
            self._tensors[rank, event["tid"]] = (event["args"]["set"], event["args"]["name"])
        elif phase == "i" and event["name"].endswith("for the memory set aside"):
            self.ranks[rank].lost += int(event["name"].split()[0])

    def _take_async(self, event, rank):
        number = self._rank_of(event)
        key = (number, event["cat"], event["id"])
        if event["ph"] == "b":
            self._open.setdefault(key, []).append(event)
            return
        begun = self._open[key].pop(0)
        span = (begun["ts"], event["ts"])
        if event["cat"] == "queue":
            rank.queued.append(span)
            return
        facts = begun["args"]
        self._take_negotiation(number, facts["set"], event["name"], facts["batch"], span)

    def _take_negotiation(self, number, process_set, name, batch, span):
        rank = self.ranks[number]
        rank.negotiated.append(span)
        rank.tensors += 1
        tensor = (number[0], process_set, batch, name)
        nth = self._seen[number, tensor]
        self._seen[number, tensor] += 1
        self.submitted[tensor + (nth,)][number] = span[0]

    @staticmethod
    def _take_span(event, rank):
        if event["name"] in PHASES and "busy_us" in event["args"]:
            rank.busy[event["name"]] += event["args"]["busy_us"]
            return
        rank.batches.append((event["ts"], event["ts"] + event["dur"]))
        rank.algorithms[event["name"]] += event["dur"]
        rank.bytes += event["args"]["bytes"]

    def lines(self):
        """The lines of the summary."""
        ranks = {number: rank for number, rank in sorted(self.ranks.items()) if rank.spans()}
        if not ranks:
            return ["There is no operation in this timeline."]
        begin = min(span[0] for rank in ranks.values() for span in rank.spans())
        end = max(span[1] for rank in ranks.values() for span in rank.spans())
        plans = len({plan for plan, _ in ranks})
        who = f"{len(ranks)} rank{'s' * (len(ranks) > 1)}" + f" of {plans} plans" * (plans > 1)
        lines = [f"{who}, {duration(end - begin)} from the first operation to the last end."]
        for number, rank in ranks.items():
            lines += self._lines_of(self._name(number), rank, end - begin)
        return lines + self._late_lines(ranks)

    def _name(self, number):
        plan, rank = number
        return f"worker {self.workers[number]} (rank {rank} of plan {plan})" if number in self.workers else f"rank {rank}"

    @staticmethod
    def _lines_of(name, rank, whole):
        share = lambda time: f"{duration(time)} ({100 * time / whole:.1f} %)" if whole > 0 else duration(time)  # noqa: E731
        running = union(rank.batches)
        any_of_it = union(rank.spans())
        lines = [
            f"{name.capitalize()}: {rank.tensors} tensors in {len(rank.batches)} batches, {rank.bytes / 1e6:.1f} MB.",
            f"  moved data for {share(running)}: "
            + ", ".join(f"{name} {duration(time)}" for name, time in rank.algorithms.most_common()),
            "  of that: " + ", ".join(f"{phase} {duration(rank.busy[phase])}" for phase in PHASES if rank.busy[phase])
            if rank.busy
            else "  (no phases were recorded)",
            f"  had batches that waited for the lane for {share(union(rank.queued))}",
            f"  had tensors that waited for agreement for {share(union(rank.negotiated))}",
            f"  had nothing to do here for {share(max(0.0, whole - any_of_it))}",
        ]
        if rank.lost:
            lines.append(f"  {rank.lost} records are missing: the disk was too slow")
        return lines

    def _late_lines(self, ranks):
        late, waited, most = collections.Counter(), collections.Counter(), collections.Counter()
        names = collections.Counter()
        compared = 0
        for (*_, name, _), when in self.submitted.items():
            if len(when) < 2:
                continue
            compared += 1
            last = max(when, key=when.get)
            behind = when[last] - sorted(when.values())[-2]
            late[last] += 1
            waited[last] += behind
            most[last] = max(most[last], behind)
            names[name] += max(when.values()) - min(when.values())
        if not compared:
            return ["No tensor was submitted by two of these ranks, so none was late."] if len(ranks) > 1 else []
        lines = [f"Of {compared} tensors that several ranks submitted,"]
        for rank, times in late.most_common():
            lines.append(
                f"  {self._name(rank)} was the last {times} times ({100 * times / compared:.0f} %), "
                f"by {duration(waited[rank] / times)} on average and {duration(most[rank])} at most"
            )
        slowest = ", ".join(f"{printable(name)} ({duration(time)})" for name, time in names.most_common(MOST_NAMES))
        return lines + [f"From the first rank to the last most time passed for: {slowest}"]


def main(words=None):
    """The command. words: its arguments, by default those of the process. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="rueda-timeline", description="Says in words what a timeline of Rueda holds.")
    commands = parser.add_subparsers(dest="command", required=True)
    summary = commands.add_parser("summary", help="where the time went, and which rank was late how often")
    summary.add_argument("file", nargs="+", help="as written by RUEDA_TIMELINE, hvdrun --timeline-filename or start_timeline")
    arguments = parser.parse_args(words)
    timeline = Timeline()
    for path in arguments.file:
        try:
            timeline.read(path)
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            print(f"rueda-timeline: {path} is not a timeline of Rueda: {error if isinstance(error, (OSError, ValueError)) else repr(error)}", file=sys.stderr)
            return 1
    print("\n".join(timeline.lines()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
