"""What the scenarios of chaos have in common: what one is, what it has done, and how a job goes on after it."""

import dataclasses
import threading

import training

FIRST, SECOND = "localhost", "127.0.0.1"  # two hosts of hvdrun's, and one machine


@dataclasses.dataclass
class Outcome:
    """What a scenario has done. Times in milliseconds; None if there is nothing to measure."""

    noticed: object  # until the last of the others knew
    recovered: object  # until all ranks of the next plan had taken a step
    dead: dict  # worker: a part of the cause that hvdrun must report
    plan: int  # that next plan
    code: int = 0  # that hvdrun must end with
    sure: bool = True  # whether each of the dead counts as failed; not if some of them may have been removed before
    lost: set = dataclasses.field(default_factory=set)  # hosts, any of whose workers may have failed beside the dead
    removed: set = dataclasses.field(default_factory=set)  # workers that have left in order
    ended: object = None  # from when the last of these had left its plan until its process had ended
    usual: list = dataclasses.field(default_factory=list)  # how much longer than their median steps took that nothing had struck


@dataclasses.dataclass
class Scenario:
    """strike: the function. hosts, least: of the job. goal: the limit as text. p50, p95: the same for `recovered` in
    milliseconds, None if that is not what the limit is about. notice, end: the same for `noticed` and `ended`, of 95 of 100.
    noticed, recovered: what the two times are, if not the usual."""

    strike: object
    goal: str
    p50: object = None
    p95: object = None
    notice: object = None
    end: object = None
    hosts: dict = dataclasses.field(default_factory=lambda: {FIRST: 4})
    least: int = 2
    flags: tuple = ()
    program: tuple = ("worker.py",)
    replay: object = training.Replay
    noticed: str = "the others raise"
    recovered: str = "the next step"
    lab: int = 0  # how many hosts it needs that are namespaces with an sshd each; 0: its hosts are names of this machine
    lingers: float = 0  # for how many seconds something may be left after the job: what hvdrun has lost ends by itself

    def late(self, outcome):
        """Its times over what is allowed for almost all, as text."""
        times = (("recovered", outcome.recovered, self.p95), ("noticed", outcome.noticed, self.notice), ("ended", outcome.ended, self.end))
        return ", ".join(f"{what} after {took:.0f} ms" for what, took, limit in times if None not in (took, limit) and took > limit)


def milliseconds(since, until):
    return (until - since) / 1e6


def started(job, chance):
    """Waits for a plan in which all ranks take steps, and then a moment of the seed's. Returns the plan."""
    job.until(job.complete, "the first plan")
    threading.Event().wait(chance.uniform(0, 0.05))  # in the middle of a step, a commit or an agreement
    return job.complete()


def recovered(job, plan, moment, dead):
    """Waits until a later plan without the dead works. dead: {worker: cause}."""
    job.until(lambda: job.complete(plan, dead), "the plan after the fault")
    new = job.complete(plan, dead)
    stay = set(job.members(plan)) - set(dead)
    stayed = {line["worker"]: line["at"] for line in reversed(job.told("left")) if line["worker"] in stay and line["at"] > moment}
    steps = [line["at"] for line in job.told("step", new)]
    noticed = milliseconds(moment, max(stayed.values())) if stayed else None
    return Outcome(noticed, milliseconds(moment, max(steps)), dead, new)
