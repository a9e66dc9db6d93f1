"""Scenarios in which the members of a job leave their plan by a notice: workers come, or leave with their host."""

import os
import signal
import statistics
import subprocess
import threading
import time

from striking import FIRST, SECOND, Outcome, milliseconds, started


def ask(job, flag, *words):
    """Has another hvdrun tell the job's, which it finds by its process."""
    command = [job.command[0], flag, str(job.process.pid), *words]
    done = subprocess.run(job.room.command(job.folder, command), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"hvdrun {flag} ended with {done.returncode}: {done.stderr}")


def stopped_time(job, plan, new):
    """How long the members of both plans took no step."""
    left = {line["worker"]: line["at"] for line in job.told("left", plan)}
    steps = {line["worker"]: line["at"] for line in job.told("step", new)}
    return milliseconds(0, max(steps[worker] - left[worker] for worker in left if worker in steps))


def join(job, chance, told=False):
    """Lists one slot more. told: whether hvdrun is told, too."""
    plan = started(job, chance)
    moment = time.monotonic_ns()
    job.list_hosts({FIRST: 2, SECOND: 2})
    if told:
        ask(job, "--signal-hosts")
    job.until(lambda: job.complete(plan), "the plan with the new worker")
    new = job.complete(plan)
    (newcomer,) = set(job.members(new)) - set(job.members(plan))
    return Outcome(milliseconds(moment, job.began(newcomer)), stopped_time(job, plan, new), {}, new)


def join_told(job, chance):
    """Does the same, and tells hvdrun."""
    return join(job, chance, told=True)


def join_large(job, chance):
    """Lists one slot more of a job whose state is large. How long the others stopped counts without the time of a usual step of the
    larger job: four workers on two cores take longer over one than three. It is told without the new worker's own first step, too,
    whose gradients lie in memory that the process has not used. The checks of this test count in neither. The steps before tell how
    much longer than usual a step takes here if nobody joins."""
    outcome = join(job, chance)
    for line in job.told("left")[:1]:
        behind_first = line["took"][1:]
        outcome.usual = [(each - statistics.median(behind_first)) / 1e6 for each in behind_first]
    members = set(job.members(outcome.plan))
    job.until(lambda: members <= {line["worker"] for line in job.told("usual", outcome.plan)}, "the later steps of the new plan")
    steps = job.told("usual", outcome.plan)
    new = next(line for line in steps if line["worker"] == max(members))
    stopped = outcome.recovered - new["checked"] / 1e6
    outcome.noticed = stopped - new["first"] / 1e6
    outcome.recovered = stopped - max(line["usual"] for line in steps) / 1e6
    return outcome


def grow_by_list(job, chance):
    """Takes a host out of the list, and kills its workers. The others are too few, and wait until the list has it again."""
    plan = started(job, chance)
    gone = [worker for worker in job.members(plan) if job.host(worker) == SECOND]
    job.list_hosts({FIRST: 2})
    job.await_looks()
    for worker in gone:
        job.kill(worker)
    stay = set(job.members(plan)) - set(gone)
    job.until(lambda: stay <= {line["worker"] for line in job.told("left", plan)}, "the errors of the others")
    threading.Event().wait(chance.uniform(0, 1))  # somewhere between two looks at the list
    moment = time.monotonic_ns()
    job.list_hosts({FIRST: 2, SECOND: 2})
    job.until(lambda: job.complete(plan, gone), "the plan with new workers")
    new = job.complete(plan, gone)
    ready = max(line["at"] for line in job.told("ready") if line["worker"] in set(job.members(new)) - stay)
    step = max(line["at"] for line in job.told("step", new))
    return Outcome(milliseconds(moment, ready), milliseconds(moment, step), dict.fromkeys(gone, "killed by signal 9"), new)


def left_by_notice(job, plan, moment, ends):
    """Waits for the next plan, which all members must reach by a notice, and for the ends of those that are not in it."""
    job.until(lambda: job.complete(plan), "the plan without the host")
    new, left = job.complete(plan), job.told("left", plan)
    job.complaints += [f"worker {line['worker']} left plan {plan} by an error: {line['why']}" for line in left if not line["planned"]]
    removed = set(job.members(plan)) - set(job.members(new))
    job.poll(lambda: removed <= set(ends), "the end of the removed workers")
    ended = max(milliseconds(line["at"], ends[line["worker"]]) for line in left if line["worker"] in removed)
    return Outcome(milliseconds(moment, max(line["at"] for line in left)), stopped_time(job, plan, new), {}, new, ended=ended, removed=removed)


def leave(job, chance):
    """Leaves a host out of the list."""
    plan = started(job, chance)
    ends = job.watch_ends(job.members(plan))
    moment = time.monotonic_ns()
    job.list_hosts({FIRST: 2})
    return left_by_notice(job, plan, moment, ends)


def preempt(job, chance):
    """SIGTERM to the agent of a host says that the host is about to go."""
    plan = started(job, chance)
    agent, _ = job.agent_of(chance.choice(job.members(plan)))
    ends = job.watch_ends(job.members(plan))
    moment = time.monotonic_ns()
    os.kill(agent, signal.SIGTERM)
    outcome = left_by_notice(job, plan, moment, ends)
    if any(job.agent_of(worker)[0] == agent for worker in job.members(outcome.plan)):
        job.complaints.append(f"plan {outcome.plan} has workers of the host that is about to go")
    return outcome


def announce(job, chance):
    """Has `hvdrun --signal-removal` say that a host is about to go."""
    plan = started(job, chance)
    ends = job.watch_ends(job.members(plan))
    moment = time.monotonic_ns()
    ask(job, "--signal-removal", SECOND)
    outcome = left_by_notice(job, plan, moment, ends)
    if any(job.host(worker) == SECOND for worker in job.members(outcome.plan)):
        job.complaints.append(f"plan {outcome.plan} has workers of the host that is about to go")
    return outcome
