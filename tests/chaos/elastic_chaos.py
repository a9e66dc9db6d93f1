"""Strikes elastic jobs again and again, and checks that what is left of each goes on with the right state.

    scripts/chaos --elastic                                  every scenario twice with 4 workers, seed 1
    scripts/chaos --elastic --scenarios kill --rounds 1000   one scenario
    scripts/chaos --elastic --seed 7 --first 31 --rounds 1   round 31 of seed 7 again
    scripts/chaos --elastic --rounds 300 --json FILE         the long run: 15 minutes
    scripts/chaos --elastic --scenarios kill-large           a model as large as ResNet-50, in PyTorch
    scripts/chaos --elastic --scenarios cut-host,end-host    hosts of their own, with a network and an sshd (as root)

Each round is a real job of hvdrun's with a discovery script and hosts, which are names of this machine or namespaces. A scenario and
its moments follow from the seed and the round's number. After every reset the SHA-256 of the state must be the same on
all ranks, and that of a replay in this process; no committed step may be lost; hvdrun must report the right workers and
causes; no process, segment, socket or file may be left. Exit code 1: a round went wrong."""

import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import sys
import time

import hard_scenarios
import job
import lab
import scenarios

ROOT = pathlib.Path(__file__).parents[2]
ALL = {**scenarios.ALL, **hard_scenarios.ALL}


def states(one, replay):
    """Complaints about the states that workers have told."""
    complaints = []
    for line in one.told("plan") + one.told("done"):
        name = f"worker {line['worker']}, {line['what']} {line.get('plan', '')}"
        if line["step"] != sum(steps for _, steps in line["history"]):
            complaints.append(f"{name}: {line['step']} steps, its history has {line['history']}")
        if line["digest"] != replay.digest(line["history"]):
            complaints.append(f"{name}: the state differs from the replay of {line['history']}")
    for what in ("plan", "done"):
        for plan in {line.get("plan") for line in one.told(what)}:
            told = {(line["step"], line["digest"], line["size"]) for line in one.told(what, plan)}
            if len(told) > 1:
                complaints.append(f"{what} {plan}: states differ between ranks: {sorted(told)}")
    return complaints


def lost_steps(one):
    """Complaints about committed steps that a later plan does not have, and about clean leaves that were none."""
    complaints = []
    for line in one.told("left"):
        later = [each["step"] for each in one.told("plan") if each["plan"] > line["plan"] and each["at"] > line["at"]]
        if later and min(later) < line["committed"]:
            complaints.append(f"worker {line['worker']} had committed step {line['committed']} in plan {line['plan']}; later plans begin at {min(later)}")
    for plan in {line["plan"] for line in one.told("left")}:
        planned = {line["committed"] for line in one.told("left", plan) if line["planned"]}
        if len(planned) > 1:
            complaints.append(f"workers were interrupted at different steps of plan {plan}: {planned}")
    return complaints


def reported(one, outcome):
    """Complaints about hvdrun's report."""
    found = {}
    for line in one.report:
        match = re.match(r"hvdrun: worker (\d+) \(host (.*?)(?:, .*?)?\) failed: (.*), (?:in plan \d+|before)", line)
        if match and match[2] not in outcome.lost:
            found[int(match[1])] = match[3]
    complaints = [f"hvdrun reports worker {worker} as failed: {cause}" for worker, cause in found.items() if worker not in outcome.dead]
    complaints += [f"hvdrun says of worker {worker}: {found.get(worker)}; the cause was: {cause}" for worker, cause in outcome.dead.items()
                   if outcome.sure and cause not in found.get(worker, "nothing")]  # fmt: skip
    return complaints


def run_round(number, name, options, room):
    """Returns the outcome, or None if the job did not get that far, and the complaints."""
    scenario, chance = ALL[name], random.Random(f"{options.seed}/{number}")
    if scenario.lab and not isinstance(room, lab.Lab):
        with contextlib.closing(lab.Lab(options.bin / "netlab", scenario.lab)) as hosts:  # new ones, since a scenario may destroy them
            return run_round(number, name, options, hosts)
    hosts = scenario.hosts
    one = job.Job(room, hosts, job.command_of(str(options.bin / "hvdrun"), hosts, scenario.least, scenario.flags, scenario.program))
    try:
        outcome = scenario.strike(one, chance)
        code = one.end()
        if code != outcome.code:
            one.complaints.append(f"hvdrun ended with {code}, not {outcome.code}: {one.report[-4:]}")
        one.complaints += states(one, scenario.replay()) + lost_steps(one) + reported(one, outcome)
        one.complaints += [f"worker {line['worker']} was removed, and went on behind its training" for line in one.told("done")
                           if line["worker"] in outcome.removed]  # fmt: skip
        left = one.leftovers(scenario.lingers)
        if options.verbose:
            print(*map(json.dumps, one.lines), *one.report, *one.notes, sep="\n")
    except (RuntimeError, OSError) as error:
        outcome, left = None, []
        one.complaints.append(f"{type(error).__name__}: {error}")
    finally:
        one.abandon()
    if left:
        one.complaints.append(f"left behind: {left}")
    one.remove()
    if one.complaints and one.notes:
        one.complaints.append(f"this happened: {'; '.join(one.notes)}")
    return outcome, one.complaints


def figures(values):
    """Quantiles in milliseconds, to a tenth; empty without values."""
    values = sorted(value for value in values if value is not None)
    at = lambda share: round(values[min(len(values) - 1, int(share * len(values)))], 1)  # noqa: E731
    return {"p50_ms": at(0.5), "p95_ms": at(0.95), "max_ms": at(1.0)} if values else {}


def summary(name, outcomes, wrong):
    """A scenario's row."""
    scenario = ALL[name]
    times = {what: figures(getattr(outcome, what) for outcome in outcomes if outcome is not None) for what in ("noticed", "recovered", "ended")}
    limits = (("recovered", "p50_ms", scenario.p50), ("recovered", "p95_ms", scenario.p95), ("noticed", "p95_ms", scenario.notice),
              ("ended", "p95_ms", scenario.end))  # fmt: skip
    met = all(limit is None or not times[what] or times[what][key] <= limit for what, key, limit in limits)
    row = {"rounds": len(outcomes), "wrong": wrong, "goal": scenario.goal, "met": met and not wrong,
           "noticed": {"what": scenario.noticed, **times["noticed"]}, "recovered": {"what": scenario.recovered, **times["recovered"]}}  # fmt: skip
    usual = figures(each for outcome in outcomes if outcome is not None for each in outcome.usual)
    if usual:
        row["usual"] = {"what": "steps that nothing had struck, beyond their median", **usual}
    return {**row, "ended": {"what": "removed workers have ended", **times["ended"]}} if times["ended"] else row


def print_table(rows):
    """p50, p95 and maximum in milliseconds."""
    times = lambda one: "  ".join(f"{one.get(key, '-'):>8}" for key in ("p50_ms", "p95_ms", "max_ms"))  # noqa: E731
    print(f"{'scenario':20}{'rounds':>6}{'wrong':>6}   {'noticed: p50, p95, max in ms':>28}   {'recovered: the same':>28}   {'removed ended: the same':>28}   goal")
    for name, row in rows.items():
        print(f"{name:20}{row['rounds']:6}{row['wrong']:6}   {times(row['noticed'])}   {times(row['recovered'])}   {times(row.get('ended', {}))}   "
              f"{row['goal']}: {'met' if row['met'] else 'MISSED'}")  # fmt: skip


def parse(words):
    """The options."""
    parser = argparse.ArgumentParser("scripts/chaos --elastic", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, help="2 for each scenario, if it is not given")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="begin with round N of the seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scenarios", default=",".join(name for name in ALL if name not in scenarios.SLOW), metavar="NAME,...", help="of " + ", ".join(ALL))
    parser.add_argument("--bin", type=lambda folder: pathlib.Path(folder).resolve(), metavar="DIR", default=ROOT / "build" / "release" / "bin")
    parser.add_argument("--verbose", action="store_true", help="print what hvdrun and the workers have said of each round")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(words)
    options.scenarios = options.scenarios.split(",")
    options.rounds = options.rounds or 2 * len(options.scenarios)
    if unknown := set(options.scenarios) - set(ALL):
        parser.error(f"--scenarios: there is no {', '.join(sorted(unknown))}")
    return options


def main(words):
    """Runs the rounds and returns the exit code."""
    options = parse(words)
    print(f"seed {options.seed}", flush=True)
    outcomes, wrong = {name: [] for name in options.scenarios}, dict.fromkeys(options.scenarios, 0)
    room, began = job.Room(), time.monotonic()
    try:
        for number in range(options.first, options.first + options.rounds):
            name = options.scenarios[number % len(options.scenarios)]
            outcome, complaints = run_round(number, name, options, room)
            outcomes[name].append(outcome)
            for complaint in complaints:
                print(f"round {number}, {name}: {complaint}", flush=True)
            late = outcome is not None and ALL[name].late(outcome)
            if late:
                print(f"round {number}, {name}: {late}", flush=True)
            if complaints:
                wrong[name] += 1
            if complaints or late:
                print(f"again: scripts/chaos --elastic --scenarios {','.join(options.scenarios)} --seed {options.seed} --first {number} --rounds 1")
    finally:
        room.close()
    rows = {name: summary(name, outcomes[name], wrong[name]) for name in options.scenarios if outcomes[name]}
    print_table(rows)
    result = {"seed": options.seed, "first": options.first, "rounds": options.rounds, "seconds": round(time.monotonic() - began, 1),
              "load": os.getloadavg()[0], "scenarios": rows}  # fmt: skip
    print(json.dumps(result))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1))
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except lab.Unavailable as error:
        sys.exit(f"chaos: hosts of their own cannot be had here: {error}")
