"""The faults that chaos strikes jobs of ranks with. Each strikes at a moment of the seed's and returns a Blow."""

import dataclasses
import os
import signal
import threading
import time

from hardships import LIMIT_WORDS, Crowd, let_in_few
from holding import freezer
from rank_job import PATIENCE

PAUSE = 1.5  # seconds
LOST = "lost with its host"
GOES = 5.0  # seconds within which nothing may be left once nobody is there to wait for it
GOODBYE = signal.SIGRTMIN + 1  # has a rank of C leave early by exit(0), which says goodbye to the others
EXITS = {signal.SIGRTMIN: 0, signal.SIGUSR2: 3}  # these have a rank leave early without one, with a code
FINISH = signal.SIGUSR1  # what has a job of chaos_rank end well


@dataclasses.dataclass
class Blow:
    """What has been done to a job, and what must follow.

    at: when, in nanoseconds of CLOCK_MONOTONIC; None if nothing need be detected. victims: the ranks that were struck. The
    others must raise a sentence that names one of them, with host and process if `exact`, or if `follows` a rank that has raised
    before, and one of the causes; only if they get the time to, unless `all_raise`. code: hvdrun's, None if any but 0 will do.
    first: what its report must have, after the name of a victim. lingers: for how many seconds something may be left after hvdrun's end. undo: what lets the victim end.
    """

    at: object
    victims: list
    causes: tuple = ()
    code: object = 0
    first: str = ""
    all_raise: bool = True
    exact: bool = True
    follows: bool = False
    lingers: float = 0
    undo: object = None


def started(job, chance, most=0.05):
    """Waits for the start, and then a moment of the seed's. Returns whether the job has started."""
    ready = job.until_started()
    threading.Event().wait(chance.uniform(0, most))
    return ready


def death(job, victim, number, cause, code):
    """Sends a rank what ends it."""
    at = time.monotonic_ns()
    os.kill(job.pids[victim], number)
    # By hand, the end of a stream may be seen before that of the process.
    return Blow(at, [victim], ("",) if job.options.by_hand else (cause,), code, cause)


def signalled(number):
    """A fault that ends a rank by a signal."""

    def strike(job, chance):
        victim = chance.randrange(job.options.ranks)
        if started(job, chance):
            return death(job, victim, number, f"killed by signal {int(number)}", 128 + number)
        return None

    return strike


def leave(job, chance):
    """Has a rank exit in the middle of its program: with 0, with another code, or as if no other rank needed it."""
    victim, number = chance.randrange(job.options.ranks), chance.choice([*EXITS, *([GOODBYE] if job.options.program == "c" else [])])
    if not started(job, chance):
        return None
    code = EXITS.get(number, 0)
    blow = death(job, victim, number, f"exited with code {code}", code or 1)
    if number == GOODBYE:
        # Nobody died: hvdrun's first to fail is one of those that needed it. These leave in the same way once they have raised,
        # and a rank that was in a message or a set with one of them names that one.
        blow.causes, blow.exact, blow.follows, blow.first = ("has shut down",), False, True, ""
    return blow


def stop(job, chance):
    """Stops a rank for ever. A rank looks for stopped ones once a second: strike at any moment of that second."""
    victim = chance.randrange(job.options.ranks)
    if not started(job, chance, 1):
        return None
    blind = job.options.by_hand and job.options.without_pidfd
    blow = death(job, victim, signal.SIGSTOP, "stopped", 1)
    blow.causes = ("no sign of life",) if blind else ("stopped",)
    return blow


def freeze(job, chance):
    """Freezes a rank with its cgroup."""
    victim = chance.randrange(job.options.ranks)
    if not started(job, chance, 1):
        return None
    at = time.monotonic_ns()
    freezer().freeze(job.pids[victim])
    return Blow(at, [victim], ("no sign of life",), 1, "no sign of life", undo=freezer().thaw)


def pause(job, chance):
    """Stops a rank for a while, which must not end the job, and then kills it."""
    victim = chance.randrange(job.options.ranks)
    if not started(job, chance, 1):
        return None
    os.kill(job.pids[victim], signal.SIGSTOP)
    threading.Event().wait(PAUSE)
    os.kill(job.pids[victim], signal.SIGCONT)
    threading.Event().wait(0.2)
    if job.failures:
        job.complaints.append(f"a pause of {PAUSE} s ended the job: {job.failures}")
    return death(job, victim, signal.SIGKILL, "killed by signal 9", 128 + signal.SIGKILL)


def kill_hvdrun(job, chance):
    """Kills hvdrun. Its ranks need not get to say anything."""
    if not started(job, chance):
        return None
    at = time.monotonic_ns()
    os.kill(job.launcher_of(0, "hvdrun"), signal.SIGKILL)
    return Blow(at, [], ("hvdrun",), -signal.SIGKILL, all_raise=False, lingers=GOES)


def kill_of_host(name):
    """A fault that kills the guard or the agent on the host of some rank."""

    def strike(job, chance):
        host = chance.choice(sorted(set(job.hosts.values())))
        victims = [rank for rank in job.hosts if job.hosts[rank] == host]
        if not started(job, chance):
            return None
        at, lost = time.monotonic_ns(), f"{LOST}, which has lost its {name}"
        os.kill(job.launcher_of(victims[0], name), signal.SIGKILL)
        return Blow(at, victims, (lost,), 1, lost, lingers=GOES)

    return strike


def lose_host(*orders):
    """A fault of another host than hvdrun's, by orders to the lab. The others must all name that host."""

    def strike(job, chance):
        host = chance.choice(sorted(set(job.hosts.values()) - {job.hosts[0]}))
        victims = [rank for rank in job.hosts if job.hosts[rank] == host]
        if not started(job, chance, 1):
            return None
        at = time.monotonic_ns()
        for order in orders:
            job.room.tell(f"{order} {job.room.index(host)}")
        return Blow(at, victims, (LOST,), 1, LOST, lingers=GOES)

    return strike


def finish_or_kill(job, chance):
    """Lets a job that has survived something end well, or kills a rank, which must be noticed as ever."""
    victim = chance.randrange(job.options.ranks)
    if job.options.program != "c" or chance.random() < 0.5:
        return death(job, victim, signal.SIGKILL, "killed by signal 9", 128 + signal.SIGKILL)
    os.kill(job.pids[victim], FINISH)
    if job.until(lambda: len(job.done) == job.options.ranks or job.failures, "the good end of all ranks") and job.failures:
        job.complaints.append(f"the job did not end well: {job.failures}")
    return Blow(None, [])


def garbage(job, chance):
    """Sends strangers to every port of the job. They are still there when it ends."""
    if not job.until_started():
        return None
    with Crowd(job.room, job.mark, chance.random()) as crowd:
        if not crowd.until_enough():
            job.complaints.append("the strangers found no port, or were not let in")
        if job.failures or job.over():
            job.complaints.append(f"strangers ended the job: {job.failures}")
            return None
        blow = finish_or_kill(job, chance)
        if blow.at:
            job.until(lambda: len(job.failures) + 1 >= job.options.ranks, "the survivors' errors")
    job.visits = crowd.visits
    return blow


def few_descriptors(job, chance):
    """Lowers how many descriptors a rank may open, before, during or after its start. Then the job works, or it ends with a
    sentence about that limit."""
    victim, moment = chance.randrange(job.options.ranks), chance.choice([0, chance.uniform(0, 0.2), None])
    if moment is None:
        job.until_started()
    ends = time.monotonic() + PATIENCE
    while (pid := job.process_of(victim)) is None and time.monotonic() < ends:
        threading.Event().wait(0.001)
    if pid is None:
        return None
    threading.Event().wait(moment or 0)
    at, limit = time.monotonic_ns(), let_in_few(pid, chance)
    job.note = f"rank {victim} may open {limit} files"
    job.until(lambda: len(job.pids) == job.options.ranks or job.failures or job.over(), "the start or an error")
    if len(job.pids) == job.options.ranks:
        threading.Event().wait(chance.uniform(0, 0.3))  # while it works
        if not job.failures:
            return finish_or_kill(job, chance)
    job.pids.setdefault(victim, pid)
    job.until(lambda: victim in job.failures or job.over(), "the error of the rank with few descriptors")
    said = job.failures.get(victim, (0, " ".join(job.report)))[1]
    if not any(word in said for word in LIMIT_WORDS):
        job.complaints.append(f'rank {victim} may open {limit} files and said "{said}"')
    # Any rank may be the first to exit: they all learn the error, which names the limited one.
    return Blow(at, [victim], ("",), None, all_raise=False, exact=False)


@dataclasses.dataclass
class Fault:
    """strike: the function. two_hosts: whether the job is on two hosts, by names of this machine. lab: how many hosts it has that
    are namespaces with an sshd each, if it is not on this machine. by_hand: whether there is such a thing without hvdrun."""

    strike: object
    two_hosts: bool = False
    by_hand: bool = True
    lab: int = 0

    def hosts(self, ranks):
        """The names of a job's hosts."""
        return [f"node{host + 1}" for host in range(self.lab)] or ["localhost", "127.0.0.1"][: 2 if self.two_hosts and ranks > 1 else 1]


ALL = {
    "kill": Fault(signalled(signal.SIGKILL)),
    "abort": Fault(signalled(signal.SIGABRT)),
    "exit": Fault(leave),
    "stop": Fault(stop),
    "freeze": Fault(freeze),
    "pause": Fault(pause),
    "hvdrun": Fault(kill_hvdrun, two_hosts=True, by_hand=False),
    "guard": Fault(kill_of_host("guard"), two_hosts=True, by_hand=False),
    "agent": Fault(kill_of_host("agent"), two_hosts=True, by_hand=False),
    "garbage": Fault(garbage, two_hosts=True),
    "descriptors": Fault(few_descriptors),
    "lose-host": Fault(lose_host("cut", "kill"), by_hand=False, lab=3),
    "end-host": Fault(lose_host("kill"), by_hand=False, lab=3),
    "cut-host": Fault(lose_host("cut"), by_hand=False, lab=3),
    "mute-host": Fault(lose_host("mute"), by_hand=False, lab=3),
    "deaf-host": Fault(lose_host("deafen"), by_hand=False, lab=3),
    "split": Fault(lose_host("unplug"), by_hand=False, lab=3),
}
