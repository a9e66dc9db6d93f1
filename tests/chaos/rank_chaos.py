"""Strikes jobs of ranks again and again, and checks how the other ranks, hvdrun and the machine are afterwards. The program of
scripts/chaos, which says more."""

import argparse
import contextlib
import json
import os
import random
import resource
import subprocess
import sys

import faults
import job
import lab
import rank_job


def reported(one, blow, code):
    """Complaints about hvdrun's code and report."""
    complaints = []
    if code != blow.code if blow.code is not None else code <= 0:
        complaints.append(f"hvdrun ended with {code}, not {blow.code}: {one.report[-4:]}")
    firsts = [f"the first to fail: rank {rank} " for rank in blow.victims]
    if blow.first and not any(first in line and blow.first in line for first in firsts for line in one.report):
        complaints.append(f"hvdrun's report does not have {firsts} {blow.first}: {one.report[-5:]}")
    return complaints


def run_round(number, fault, options, room):
    """Returns the job, after how many milliseconds each survivor raised, and after how many nothing was left."""
    kind, chance = faults.ALL[fault], random.Random(f"{options.seed}/{number}")
    if kind.lab and not isinstance(room, lab.Lab):
        with contextlib.closing(lab.Lab(os.path.join(options.bin, "netlab"), kind.lab, room)) as hosts:  # new ones, since a fault destroys them
            return run_round(number, fault, options, hosts)
    one = rank_job.RankJob(number, options, room, kind.hosts(options.ranks))
    blow = kind.strike(one, chance)
    raised = one.until_raised(blow) if blow and blow.at else []
    if blow and blow.undo:
        blow.undo()  # what is frozen cannot end
    code = one.end(blow)
    gone = one.until_nothing_left(blow.lingers if blow else faults.GOES)
    if blow and not options.by_hand:
        one.complaints += reported(one, blow, code)
    if blow is None and not one.complaints:
        one.complaints.append("the job did not start")
    began = blow.at if blow else None
    return one, raised, (one.ended - began) / 1e6 if began else None, (gone - began) / 1e6 if began else None


def figures(values):
    """Quantiles in milliseconds, to a tenth."""
    values = sorted(value for value in values if value is not None)
    at = lambda share: round(values[min(len(values) - 1, int(share * len(values)))], 1) if values else None  # noqa: E731
    return {"n": len(values), "p50_ms": at(0.5), "p95_ms": at(0.95), "p99_ms": at(0.99), "p999_ms": at(0.999), "max_ms": at(1.0)}


class Row:
    """The rounds of one fault."""

    def __init__(self):
        self.rounds, self.wrong, self.visits = 0, 0, 0
        self.raised, self.ended, self.gone, self.waits = [], [], [], []

    def add(self, one, raised, ended, gone):
        self.rounds += 1
        self.wrong += bool(one.complaints)
        self.visits += one.visits
        self.raised += raised
        self.ended.append(ended)
        self.gone.append(gone)
        self.waits += one.waits

    def result(self, options):
        """As JSON has it."""
        row = {"rounds": self.rounds, "wrong": self.wrong, "raised_after": figures(self.raised), "verdict_after_evidence": figures(self.waits)}
        if self.visits:
            row["strangers"] = self.visits
        if not options.by_hand:
            row["hvdrun_ended_after"] = figures(self.ended)
        return {**row, "nothing_left_after": figures(self.gone)}


def print_table(rows):
    """p50, p99 and maximum in milliseconds."""
    times = lambda one: "".join(f"{'-' if one[key] is None else one[key]:>10}" for key in ("p50_ms", "p99_ms", "max_ms"))  # noqa: E731
    print(f"{'fault':13}{'rounds':>6}{'wrong':>6}   survivors raise: p50, p99, max ms   nothing is left: p50, p99, max ms")
    for fault, row in rows.items():
        print(f"{fault:13}{row['rounds']:6}{row['wrong']:6}   {times(row['raised_after'])}      {times(row['nothing_left_after'])}", flush=True)


def parse(words):
    """The options."""
    with open(os.path.join(rank_job.ROOT, "scripts", "chaos"), encoding="utf-8") as script:
        about = script.read().split('"""')[1]
    parser = argparse.ArgumentParser("scripts/chaos", description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, metavar="N", help="begin with round N of the seed")
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--program", choices=["c", *rank_job.ENVIRONMENTS], default="c", help="what the ranks run: operations in C, or a training")
    parser.add_argument("--fault", default="kill", metavar="NAME,...", help="in turn, of " + ", ".join(faults.ALL))
    parser.add_argument("--by-hand", action="store_true", help="start the ranks without hvdrun: rank 0 judges")
    parser.add_argument("--without-pidfd", action="store_true", help="have a seccomp filter refuse pidfds")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="run N programs beside the job that want a core each")
    parser.add_argument("--bin", metavar="DIR", type=os.path.abspath, default=os.path.join(rank_job.ROOT, "build", "release", "bin"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(words)
    options.faults = options.fault.split(",")
    if unknown := set(options.faults) - set(faults.ALL):
        parser.error(f"--fault: there is no {', '.join(sorted(unknown))}")
    if options.by_hand and options.program != "c":
        parser.error("--by-hand starts ranks in C; leave out --program")
    if options.by_hand and (others := [fault for fault in options.faults if not faults.ALL[fault].by_hand]):
        parser.error(f"--by-hand has no hvdrun for {', '.join(others)} to strike")
    if fewer := [f"{fault} ({faults.ALL[fault].lab})" for fault in options.faults if faults.ALL[fault].lab > options.ranks]:
        parser.error(f"--ranks {options.ranks} are fewer than the hosts that these faults need: {', '.join(fewer)}")
    if not os.access(os.path.join(options.bin, "chaos_rank"), os.X_OK):
        sys.exit(f"chaos: no chaos_rank in {options.bin}; scripts/demo makes a release build")
    return options


def run_all(options, words):
    """Runs the rounds and returns a row for each fault."""
    rows, room = {fault: Row() for fault in options.faults}, job.Room()
    try:
        for number in range(options.first, options.first + options.rounds):
            fault = options.faults[number % len(options.faults)]
            one, *times = run_round(number, fault, options, room)
            rows[fault].add(one, *times)
            for complaint in one.complaints:
                print(f"round {number}, {fault}{', ' + one.note if one.note else ''}: {complaint}", flush=True)
            if one.complaints:
                print(f"again: scripts/chaos {' '.join(words)} --seed {options.seed} --first {number} --rounds 1", flush=True)
    finally:
        room.close()
    return {fault: row.result(options) for fault, row in rows.items() if row.rounds}


def main(words):
    """Runs the rounds and returns the exit code."""
    options = parse(words)
    print(f"seed {options.seed}", flush=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # for those that abort
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.busy)]
    try:
        rows = run_all(options, words)
    finally:
        for program in busy:
            program.kill()
            program.wait()
    print_table(rows)
    names = ("program", "fault", "rounds", "ranks", "by_hand", "without_pidfd", "busy", "seed", "first")
    result = {**{name: getattr(options, name) for name in names}, "load": os.getloadavg()[0]}
    result.update(next(iter(rows.values())) if len(rows) == 1 else {"faults": rows})
    print(json.dumps(result))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    return 1 if any(row["wrong"] for row in rows.values()) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except lab.Unavailable as error:
        sys.exit(f"chaos: hosts of their own cannot be had here: {error}")
