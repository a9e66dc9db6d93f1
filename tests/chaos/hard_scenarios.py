"""Scenarios of the other ends that a worker may come to, and those in which a job has more to bear than that."""

import os
import signal
import threading
import time

from hardships import LIMIT_WORDS, Crowd, let_in_few
from scenarios import kill
from striking import FIRST, SECOND, Scenario, recovered, started


def abort(job, chance):
    return kill(job, chance, signal.SIGABRT, "killed by signal 6", rank=chance.randrange(4))


def leave_with_0(job, chance):
    """Has a worker exit as if it had ended well, without a shutdown."""
    return kill(job, chance, signal.SIGRTMIN, "exited with code 0 without shutdown", rank=chance.randrange(4))


def garbage(job, chance):
    """Kills a worker while strangers are at every port of the job, also while the others join again."""
    started(job, chance)
    with Crowd(job.room, job.mark, chance.random()) as crowd:
        if not crowd.until_enough():
            job.complaints.append("the strangers found no port, or were not let in")
        plan = job.complete()
        if plan != 1:
            job.complaints.append(f"strangers ended plan 1: {job.report[-4:]}")
        members = job.members(plan)
        victim = chance.choice(members)
        return recovered(job, plan, job.kill(victim), {victim: "killed by signal 9"})


def few_descriptors(job, chance):
    """Kills a worker after another one may open few files. That one joins the others again, or names the limit and ends."""
    plan = started(job, chance)
    limited, victim = chance.sample(job.members(plan), 2)
    limit = let_in_few(job.pid(limited), chance)
    job.note(f"worker {limited} may open {limit} files")
    threading.Event().wait(chance.uniform(0, 0.1))
    outcome = recovered(job, plan, job.kill(victim), {victim: "killed by signal 9"})
    if limited not in job.members(outcome.plan) and not any(word in line for line in job.report for word in LIMIT_WORDS):
        job.complaints.append(f"worker {limited} may open {limit} files, is gone, and nobody has said why: {job.report[-4:]}")
    outcome.dead[limited] = ""  # which it may be
    return outcome


def kill_guard(job, chance):
    """Kills the guard of a host's agent, and so all its workers."""
    plan = started(job, chance)
    agent, guard = job.agent_of(chance.choice(job.members(plan)))
    lost = [worker for worker in job.members(plan) if job.agent_of(worker)[0] == agent]
    moment = time.monotonic_ns()
    os.kill(guard, signal.SIGKILL)
    return recovered(job, plan, moment, dict.fromkeys(lost, "lost with its host, which has lost its guard"))


ALL = {
    "exit-0": Scenario(leave_with_0, "step 0.15 s p50, 0.3 s p95", 150, 300),
    "abort": Scenario(abort, "step 0.15 s p50, 0.3 s p95", 150, 300),
    "kill-guard": Scenario(kill_guard, "step 6.5 s", p95=6500, hosts={FIRST: 2, SECOND: 2}),
    "garbage": Scenario(garbage, "strangers end no plan; step 1 s p95", p95=1000, hosts={FIRST: 2, SECOND: 2}, lingers=2),
    "descriptors": Scenario(few_descriptors, "joins, or names the limit"),
}
