"""What chaos does to a job, one function for each scenario. Each strikes at a moment of the seed's, waits until the job is
well again, and returns an Outcome.
"""

import contextlib
import os
import signal
import threading
import time

import numpy
import training
from notices import announce, grow_by_list, join, join_large, join_told, leave, preempt
from storm import storm, storm_over_hosts
from striking import FIRST, SECOND, Outcome, Scenario, milliseconds, recovered, started

REJOIN_TIMEOUT = 2  # seconds
PAUSE = 1.5  # seconds; agents give a stopped worker up after 3
HANG_FLAGS = ("--rejoin-timeout", str(REJOIN_TIMEOUT))


def kill(job, chance, number=signal.SIGKILL, cause="killed by signal 9", rank=None):
    """Kills a worker that is not rank 0."""
    plan = started(job, chance)
    members = job.members(plan)
    victim = members[chance.randrange(1, len(members)) if rank is None else rank]
    return recovered(job, plan, job.kill(victim, number), {victim: cause})


def kill_large(job, chance):
    """Kills any worker; the time of a usual step is not counted."""
    outcome = kill(job, chance, rank=chance.randrange(4))
    outcome.recovered -= max(line["usual"] for line in job.told("left", 1)) / 1e6
    return outcome


def kill_rank_0(job, chance):
    return kill(job, chance, rank=0)


def kill_any(job, chance):
    return kill(job, chance, rank=chance.randrange(4))


def leave_by_code(job, chance):
    return kill(job, chance, signal.SIGUSR2, "exited with code 3")


def stop(job, chance):
    """Stops a worker; it may be rank 0. Its agent sees that, and kills it."""
    outcome = kill(job, chance, signal.SIGSTOP, "stopped", chance.randrange(4))
    for worker in outcome.dead:
        wake(job, job.pid(worker))
    return outcome


def pause(job, chance):
    """Stops a worker, which may be rank 0, and lets it go on before anybody may take it for lost. That ends no plan."""
    plan = started(job, chance)
    paused = chance.choice(job.members(plan))
    job.kill(paused, signal.SIGSTOP)
    threading.Event().wait(PAUSE)
    moment = job.kill(paused, signal.SIGCONT)
    job.end()
    if job.told("left") or len(job.told("done")) != len(job.members(plan)):
        job.complaints.append(f"a pause of worker {paused} for {PAUSE} s has ended plan {plan}: {job.told('left')} {job.report[-4:]}")
    return Outcome(None, milliseconds(moment, max(line["at"] for line in job.told("done"))), {}, plan)


def wake(job, worker, *others):
    """Lets the process of a worker go on for which the job no longer waits, and others with it. It must end within two seconds."""
    moment = time.monotonic_ns()
    for pid in (*others, worker):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    job.poll(lambda: worker not in job.processes(), "the end of the worker that goes on")
    if milliseconds(moment, time.monotonic_ns()) > 2000:
        job.complaints.append(f"process {worker} ran for {milliseconds(moment, time.monotonic_ns()):.0f} ms after SIGCONT")


def freeze(job, chance):
    """Stops a worker together with its agent and guard, so that nothing can end it; the others find out. Once they have gone on,
    it wakes up in a plan that is over."""
    plan = started(job, chance)
    victim = next(worker for worker in job.members(plan) if job.host(worker) == SECOND)
    frozen = [job.pid(victim), *job.agent_of(victim)]
    moment = time.monotonic_ns()
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    outcome = recovered(job, plan, moment, {victim: ""})
    wake(job, *frozen)
    return outcome


def kill_two(job, chance):
    """Kills two workers at once."""
    plan = started(job, chance)
    victims = chance.sample(job.members(plan), 2)
    moment = job.kill(victims[0])
    job.kill(victims[1])
    return recovered(job, plan, moment, dict.fromkeys(victims, "killed by signal 9"))


def kill_while_joining(job, chance):
    """Kills a second worker, which may be rank 0, once a first survivor has left the plan of the first."""
    plan = started(job, chance)
    first, second = chance.sample(job.members(plan), 2)
    job.kill(first)
    job.until(lambda: any(line["worker"] != first for line in job.told("left")), "the first error")
    threading.Event().wait(chance.uniform(0, 0.03))  # somewhere on the way into the next plan
    moment = job.kill(second)
    return recovered(job, plan, moment, dict.fromkeys((first, second), "killed by signal 9"))


def kill_host(job, chance):
    """Kills the agent of a host, and so all its workers."""
    plan = started(job, chance)
    victim = chance.choice(job.members(plan))
    agent, _ = job.agent_of(victim)
    lost = [worker for worker in job.members(plan) if job.agent_of(worker)[0] == agent]
    moment = time.monotonic_ns()
    os.kill(agent, signal.SIGKILL)
    return recovered(job, plan, moment, dict.fromkeys(lost, "lost with its host"))


def lose_node2(job, chance, order):
    """Has the lab strike node2, which has the last two ranks."""
    plan = started(job, chance)
    lost = job.members(plan)[2:]
    moment = time.monotonic_ns()
    job.room.tell(f"{order} 1")
    outcome = recovered(job, plan, moment, dict.fromkeys(lost, "lost with its host"))
    job.poll(lambda: not job.room.tell("processes 1"), "the end of node2's processes")
    return outcome


def cut_host(job, chance):
    """Takes down the network of a host. Nobody is told, and its processes live on."""
    return lose_node2(job, chance, "cut")


def end_host(job, chance):
    """Ends all processes of a host at once."""
    return lose_node2(job, chance, "kill")


def hang(job, chance, pick=min):
    """Kills a worker, and lets another one hang before it joins the next plan, in which it would be rank 0."""
    plan = started(job, chance)
    killed = chance.choice(job.members(plan))
    hangs = pick(set(job.members(plan)) - {killed})
    os.kill(job.pid(hangs), signal.SIGUSR1)
    moment = job.kill(killed)
    return recovered(job, plan, moment, {killed: "killed by signal 9", hangs: "did not join plan"})


def hang_last(job, chance):
    """Does the same with the last rank."""
    return hang(job, chance, max)


def grow_again(job, chance):
    """Kills two of four. Three are needed, so the others wait for a new worker."""
    outcome = kill_two(job, chance)
    newcomers = set(job.members(outcome.plan)) - {line["worker"] for line in job.told("left")} - set(outcome.dead)
    came = min(line["at"] for line in job.told("ready") if line["worker"] in newcomers)
    outcome.recovered = milliseconds(came, max(line["at"] for line in job.told("step", outcome.plan)))
    return outcome


def kill_hvdrun(job, chance):
    """Kills hvdrun. Nothing may be left of its job, and a new one goes on from the commits on disk."""
    started(job, chance)
    commits = job.folder / "commits"
    job.poll(lambda: any(commits.glob("*.checkpoint")), "a commit on disk")
    moment = time.monotonic_ns()
    os.kill(job.process.pid, signal.SIGKILL)
    job.poll(lambda: not job.processes(), "the end of all processes")
    gone = milliseconds(moment, time.monotonic_ns())
    if gone > 5000:
        job.complaints.append(f"processes of the job were left for {gone:.0f} ms after hvdrun's death")
    job.wait()
    newest = max(commits.glob("*.checkpoint")).name
    job.start()
    job.until(job.complete, "the first plan of the new job")
    plan = job.complete()
    if {line["step"] for line in job.told("plan", plan)} != {int(newest[7:19])}:
        job.complaints.append(f"the new job begins with step {job.told('plan', plan)[0]['step']}, the newest commit is {newest}")
    return Outcome(gone, milliseconds(job.started, max(line["at"] for line in job.told("step", plan))), {}, plan)


SLOW = ("kill-large", "join-large", "cut-host", "end-host", "storm-over-hosts")
LARGE = 776_000  # elements of each of 161 tensors, which with their momentum have 1 GB
NOTICE = {"goal": "no step lost, removed workers end within 1 s", "end": 1000, "hosts": {FIRST: 2, SECOND: 2},
          "noticed": "at the last commit before", "recovered": "others stopped"}  # fmt: skip
STEP_MODE = {"program": ("step_worker.py",)}
STORM = {"goal": "every state is right, no wait over 10 s", "p95": 10000, "least": 1, "recovered": "the end of the training", "lingers": 5}

ALL = {
    "kill": Scenario(kill, "step 0.15 s p50, 0.3 s p95", 150, 300),
    "kill-rank-0": Scenario(kill_rank_0, "step 0.15 s p50, 0.3 s p95", 150, 300),
    "kill-large": Scenario(kill_large, "beyond a step 0.5 s p95", p95=500, program=("large_worker.py",),
                           replay=lambda: training.Replay(161 * 159, numpy.float32), recovered="the next step, without a usual one's time"),
    "exit": Scenario(leave_by_code, "step 0.15 s p50, 0.3 s p95", 150, 300),
    "kill-two": Scenario(kill_two, "step 0.15 s p50, 0.3 s p95", 150, 300),
    "kill-while-joining": Scenario(kill_while_joining, "next round 0.3 s", p95=300),
    "stop": Scenario(stop, "evicted after 6 s", p95=6500),
    "pause": Scenario(pause, f"{PAUSE} s end no plan", noticed="nobody notices", recovered="the last step, and the end of the training"),
    "freeze": Scenario(freeze, "evicted after 6 s", p95=6500, hosts={FIRST: 3, SECOND: 1}),
    "kill-host": Scenario(kill_host, "step 6.5 s", p95=6500, hosts={FIRST: 2, SECOND: 2}),
    "cut-host": Scenario(cut_host, "step 6.5 s", p95=6500, hosts={"node1": 2, "node2": 2}, lab=2),
    "end-host": Scenario(end_host, "step 6.5 s", p95=6500, hosts={"node1": 2, "node2": 2}, lab=2),
    "hang": Scenario(hang, f"ended after --rejoin-timeout, {REJOIN_TIMEOUT} s here", p95=1000 * REJOIN_TIMEOUT + 500, flags=HANG_FLAGS),
    "hang-last": Scenario(hang_last, f"ended after --rejoin-timeout, {REJOIN_TIMEOUT} s here", p95=1000 * REJOIN_TIMEOUT + 500, flags=HANG_FLAGS),
    "join": Scenario(join, "others stopped one step + 0.1 s", p95=100, hosts={FIRST: 2, SECOND: 1}, noticed="the new worker's process begins",
                     recovered="others stopped"),
    "join-large": Scenario(join_large, "beyond a step 0.1 s and 0.5 s, which a broadcast of 1 GB takes", p95=600, hosts={FIRST: 2, SECOND: 1},
                           program=("large_worker.py", str(LARGE)), replay=lambda: training.Replay(161 * LARGE // 1000, numpy.float32),
                           noticed="others stopped, without the new worker's first step", recovered="others stopped, without a usual step's time"),
    "join-told": Scenario(join_told, "noticed within 50 ms, others stopped one step + 0.1 s", p95=100, notice=50, hosts={FIRST: 2, SECOND: 1},
                          flags=("--discovery-interval", "100000"), noticed="the new worker's process begins", recovered="others stopped"),
    "leave": Scenario(leave, **NOTICE),
    "preempt": Scenario(preempt, **NOTICE),
    "announce": Scenario(announce, **NOTICE),
    "grow-again": Scenario(grow_again, "step 1 s after a new worker is ready", p95=1000, least=3, recovered="step after it is ready"),
    "grow-by-list": Scenario(grow_by_list, "step 1 s after the list has the host again", p95=1000, least=3, hosts={FIRST: 2, SECOND: 2},
                             noticed="the new workers are ready: the next look at the list, their start and imports",
                             recovered="the next step, all of that included"),
    "storm": Scenario(storm, hosts={FIRST: 2, SECOND: 2}, **STORM),
    "storm-over-hosts": Scenario(storm_over_hosts, hosts={"node1": 2, "node2": 2, "node3": 2}, lab=3, **STORM),
    "step-mode": Scenario(kill_any, "step 0.15 s p50, 0.3 s p95", 150, 300, **STEP_MODE),
    "step-mode-joining": Scenario(kill_while_joining, "next round 0.3 s", p95=300, **STEP_MODE),
    "step-mode-storm": Scenario(storm, hosts={FIRST: 2, SECOND: 2}, **STORM, **STEP_MODE),
    "kill-hvdrun": Scenario(kill_hvdrun, "nothing left after 5 s, resumed within 10 s", p95=10000, noticed="nothing is left",
                            recovered="the new job's first step", program=("worker.py", "commits")),
}  # fmt: skip
