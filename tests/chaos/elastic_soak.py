"""Resets one elastic job again and again, and checks that no process of it grows.

    scripts/soak --elastic                           200 resets of 4 workers, a worker killed at each 40th
    scripts/soak --elastic --resets 2000 --json FILE

Descriptors, threads and Pss of the workers that live all along, of hvdrun and of its agent, at the same point of plans with
all workers: the second fifth of these plans beside the last. Descriptors and threads must not have grown at
all, Pss by no more than --pss KiB. Handles of operations that a reset has left in flight must end with errors. Exit code 1:
something grew, or the job failed."""

import argparse
import json
import os
import pathlib
import signal
import sys

import job
import soak

ROOT = pathlib.Path(__file__).parents[2]


def measured(pid):
    """Descriptors, threads, and Pss in KiB of another process."""
    proc = pathlib.Path(f"/proc/{pid}")
    rows = (proc / "smaps_rollup").read_text().splitlines()
    pss = next(int(row.split()[1]) for row in rows if row.startswith("Pss:"))
    return {"descriptors": len(os.listdir(proc / "fd")), "threads": len(os.listdir(proc / "task")), "pss": pss}


def plan_of(one, number):
    """The lines of the last plan after so many resets if all its workers have told theirs; else none."""
    lines = [line for line in one.told("plan") if line["resets"] == number]
    last = max((line["plan"] for line in lines), default=0)
    lines = [line for line in lines if line["plan"] == last]
    return lines if lines and len(lines) == lines[0]["size"] else []


def follow(one, options):
    """Kills now and then, measures hvdrun and its agent, and returns the rows: name -> list of measurements."""
    rows, kills = {"hvdrun": [], "agent": []}, 0
    for number in range(1, options.resets + 2):
        one.until(lambda number=number: plan_of(one, number) or any(line["resets"] > number for line in one.told("plan")), f"reset {number}")
        if len(plan_of(one, number)) == options.ranks:
            agent, _ = one.agent_of(0)
            rows["hvdrun"].append(measured(one.process.pid))
            rows["agent"].append(measured(agent))
        if number % options.kill_every == 0 and number < options.resets - options.kill_every // 2:
            told = one.told("plan")  # once: more may be told meanwhile
            newest = max(line["plan"] for line in told)
            one.kill(max(line["worker"] for line in told if line["plan"] == newest), signal.SIGKILL)
            kills += 1
    return rows, kills


def parse(words):
    """The options."""
    parser = argparse.ArgumentParser("scripts/soak --elastic", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resets", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--kill-every", type=int, default=40, metavar="N")
    parser.add_argument("--pss", type=int, default=1024, metavar="KIB", help="growth that is allowed")
    parser.add_argument("--bin", type=lambda folder: pathlib.Path(folder).resolve(), metavar="DIR", default=ROOT / "build" / "release" / "bin")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args(words)


def main(words):
    """Runs the job and returns the exit code."""
    options = parse(words)
    room = job.Room()
    try:
        hosts = {"localhost": options.ranks}
        one = job.Job(room, hosts, job.command_of(str(options.bin / "hvdrun"), hosts, 2, program=("soak_worker.py", str(options.resets))))
        try:
            rows, kills = follow(one, options)
            code = one.wait()
        finally:
            one.abandon()
        left = one.leftovers()
        one.remove()
    finally:
        room.close()
    ends = {line["worker"] for line in one.told("plan") if line["resets"] > options.resets}
    begins = {line["worker"] for line in one.told("plan") if line["plan"] == 1}
    for worker in sorted(begins & ends):
        rows[f"worker {worker}"] = [line for line in one.told("plan") if line["worker"] == worker and line["size"] == options.ranks]
    table, complaints = soak.growth(rows, options.pss)
    complaints += [f"hvdrun ended with {code}: {one.report[-6:]}"] * (code != 0) + [f"left behind: {left}"] * bool(left)
    complaints += ["no worker has lived all along"] * (not begins & ends)
    print(f"{options.resets} resets, {kills} workers killed; the second fifth of the plans with all workers -> the last")
    soak.show(table)
    for complaint in complaints:
        print(complaint)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"resets": options.resets, "kills": kills, "table": table, "wrong": complaints}, indent=1))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
