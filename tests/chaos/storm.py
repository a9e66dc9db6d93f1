"""A storm: events in a row, drawn from the seed, that do not wait for each other. A job under it must end with success, and
each of its states must be right.

    kill, exit    a worker ends; it may be rank 0, or a new one that has not joined yet
    stop          a worker is stopped for ever
    pause         a worker is stopped, and goes on later: before it counts as dead, or after that
    list          hosts and slots come and go
    preempt       SIGTERM to the agent of a host, or to its guard: the host is about to go
    lose          the agent of a host is killed
    freeze        all processes of a host are stopped, and go on later
    cut, end      a host of its own loses its network, or all its processes

One worker, drawn from the seed, is never struck, nor is its host or its slot: somebody has to have the state.
"""

import collections
import contextlib
import signal
import threading
import time

from striking import Outcome, milliseconds, started

EVENTS = 12
PATIENCE = 4  # seconds for a new worker to come, if there is nobody to strike
HERE = {"kill": 3, "exit": 1, "stop": 1, "pause": 2, "list": 2, "preempt": 1, "lose": 1, "freeze": 1}  # kinds and their weights
OF_HOSTS = ("preempt", "lose", "freeze")  # of one that has workers
IN_LAB = {**HERE, "cut": 1, "end": 1}

# shares: as many numbers from 0 to 1 as an event needs. lasts, gap: in seconds.
Event = collections.namedtuple("Event", "kind shares lasts gap")


def drawn(chance, weights):
    """The events of a storm. They follow from the seed alone, however fast the job is."""
    kinds = chance.choices(list(weights), list(weights.values()), k=EVENTS)
    return [Event(kind, [chance.random() for _ in range(8)], chance.uniform(0.1, 7), chance.uniform(0, 0.9)) for kind in kinds]


class Storm:
    """What has been struck of a job, and how. The job's hosts are the names that it began with."""

    def __init__(self, job, keeper):
        self.job, self.names, self.keeper = job, list(job.hosts), job.line(keeper)
        self.struck = set()  # workers
        self.asleep = []  # (until when, host, processes)
        self.gone = set()  # hosts of the lab
        self.lost = set()  # hosts, for a while or for ever; a worker that has not said anything yet is lost with it

    def strike(self, event):
        """Lets an event happen, and notes what it was. If there is nobody to strike, all hosts are listed, and somebody may
        come."""
        what = getattr(self, event.kind)(event)
        if not what:
            self.job.list_hosts(dict.fromkeys(self.names, 3))
            self.job.note(f"{event.kind}: there is nobody; list {self.job.hosts}")
            with self.job.changed:
                self.job.changed.wait_for(self.hosts if event.kind in OF_HOSTS else self.workers, PATIENCE)
            what = getattr(self, event.kind)(event)
        self.job.note(f"{event.kind} {what or 'nobody'}")

    def wait(self, seconds):
        """Waits, and wakes those whose time has come. None: until all are awake."""
        until = time.monotonic() + (seconds or 0)
        while self.asleep and (seconds is None or self.asleep[0][0] <= until):
            when, host, processes = self.asleep.pop(0)
            threading.Event().wait(max(0, when - time.monotonic()))
            self.send(host, processes, signal.SIGCONT)
            self.job.note(f"processes {processes} of {host} go on")
        threading.Event().wait(max(0, until - time.monotonic()))

    def send(self, host, processes, number):
        """Returns whether any of them was there to get it."""
        got = False
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                self.job.send(host, pid, number)
                got = True
        return got

    def workers(self, host=None):
        """The first line of each worker that lives, as far as is known, and may be struck: all, or those of a host."""
        known = [self.job.line(worker) for worker in sorted({line["worker"] for line in self.job.lines})]
        return [line for line in known if line["worker"] not in self.struck | {self.keeper["worker"]}
                and line["host"] not in self.gone and host in (None, line["host"]) and self.job.has(line["host"], line["pid"])]  # fmt: skip

    def one(self, event, number):
        """Sends a signal to a worker that lives. Returns its line; None if there is none."""
        known = self.workers()
        first = int(event.shares[0] * len(known))
        for line in known[first:] + known[:first]:
            self.struck.add(line["worker"])  # or it has ended, for instance because it was removed
            if self.send(line["host"], [line["pid"]], number):
                return line
        return None

    def kill(self, event, number=signal.SIGKILL):
        line = self.one(event, number)
        return line and f"worker {line['worker']} of {line['host']}"

    def exit(self, event):
        return self.kill(event, signal.SIGUSR2)

    def stop(self, event):
        return self.kill(event, signal.SIGSTOP)

    def sleep(self, event, host, processes):
        self.asleep.append((time.monotonic() + event.lasts, host, processes))
        self.asleep.sort()

    def pause(self, event):
        line = self.one(event, signal.SIGSTOP)
        if line:
            self.sleep(event, line["host"], [line["pid"]])
        return line and f"worker {line['worker']} of {line['host']} for {event.lasts:.1f} s"

    def list(self, event):
        hosts = {}
        for name, there, slots in zip(self.names, event.shares, event.shares[4:]):
            if name == self.keeper["host"]:
                hosts[name] = max(1 + self.keeper["slot"], 1 + int(3 * slots))
            elif there < 0.8:
                hosts[name] = 1 + int(3 * slots)
        self.job.list_hosts(hosts)
        return hosts

    def hosts(self):
        """Hosts with workers that may be struck."""
        return sorted({line["host"] for line in self.workers()} - {self.keeper["host"]})

    def host(self, event):
        """A host that may be struck, its workers that live, their agent and its guard; None if there is none."""
        hosts = self.hosts()
        first = int(event.shares[0] * len(hosts))
        for name in hosts[first:] + hosts[:first]:
            for line in reversed(self.workers(name)):
                with contextlib.suppress(OSError):
                    agent = self.job.room.parent(name, line["pid"])
                    return name, [line["pid"] for line in self.workers(name)], agent, self.job.room.parent(name, agent)
        return None

    def preempt(self, event):
        found = self.host(event)
        if found:
            name, _, *agent_and_guard = found
            self.send(name, [agent_and_guard[event.shares[1] < 0.5]], signal.SIGTERM)
        return found and found[0]

    def lose(self, event):
        found = self.host(event)
        if found:
            self.send(found[0], [found[2]], signal.SIGKILL)
            self.lost.add(found[0])
        return found and found[0]

    def freeze(self, event):
        found = self.host(event)
        if found:
            name, workers, agent, guard = found
            frozen = [guard, agent, *workers]
            self.send(name, frozen, signal.SIGSTOP)
            self.lost.add(name)
            self.sleep(event, name, frozen)
        return found and f"{found[0]} for {event.lasts:.1f} s"

    def cut(self, event, order="cut"):
        names = [name for name in self.names if name not in self.gone | {self.keeper["host"]}]
        name = names[int(event.shares[0] * len(names))] if names else None
        if name:
            self.job.room.tell(f"{order} {self.job.room.index(name)}")
            self.gone.add(name)
            self.lost.add(name)
        return name

    def end(self, event):
        return self.cut(event, "kill")


def strike(job, chance, weights):
    """Lets a storm pass over a job, and then the training end."""
    plan = started(job, chance)
    # hvdrun runs on the first host of the lab.
    keepers = [worker for worker in job.members(plan) if weights is HERE or job.line(worker)["host"] == next(iter(job.hosts))]
    storm = Storm(job, chance.choice(keepers))
    job.note(f"worker {storm.keeper['worker']} is spared")
    for event in drawn(chance, weights):
        storm.strike(event)
        storm.wait(event.gap)
    storm.wait(None)
    moment = time.monotonic_ns()
    (job.folder / "stop").touch()
    keeper = storm.keeper["worker"]
    job.until(lambda: any(line["worker"] == keeper for line in job.told("done")), "the end of the training")
    done = next(line for line in job.told("done") if line["worker"] == keeper)
    # Workers of a host that is lost may have failed before, by a signal or without one.
    last = max(line["plan"] for line in job.told("plan"))
    return Outcome(None, milliseconds(moment, done["at"]), dict.fromkeys(storm.struck, ""), last, sure=False, lost=storm.lost)


def storm(job, chance):
    """Over hosts that are names of this machine."""
    return strike(job, chance, HERE)


def storm_over_hosts(job, chance):
    """Over hosts of their own."""
    return strike(job, chance, IN_LAB)
