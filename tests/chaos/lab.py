"""Hosts for a job: namespaces with a network, an sshd and a host name each, made by tests/support/netlab.h."""

import subprocess


class Unavailable(RuntimeError):
    """This machine cannot have such hosts; the text says why."""


class Lab:
    """Hosts, node1, node2 and so on. hvdrun runs on the first. Has the methods of job.Room."""

    def __init__(self, program, hosts=2, room=None):
        """program: the lab's, of a build. hosts: how many. room: whose /dev/shm they have, if not the machine's."""
        self._room, words = room, [str(program), str(hosts)]
        try:
            self._process = subprocess.Popen(room.command("/", words) if room else words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        except OSError as error:
            raise Unavailable(f"{program}: {error.strerror}; scripts/demo builds it") from None
        self._on = [self._process.stdout.readline().split() for _ in range(hosts)]
        if not all(self._on):
            raise Unavailable(self._process.communicate()[1].strip())

    def tell(self, order):
        """Gives an order, and returns the answer."""
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def command(self, folder, words):
        """The command that runs these words on node1, in a folder."""
        return self.on(0, ["env", "-C", str(folder), *words])

    def on(self, host, words):
        """The command that runs these words on a host, counted from 0."""
        return [*self._on[host], *words]

    def index(self, name):
        """The number of a host with this name."""
        return int(name.removeprefix("node")) - 1

    def send(self, host, pid, number):
        """Sends a signal to a process of a host. Raises ProcessLookupError if it has ended."""
        if subprocess.run(self.on(self.index(host), ["kill", f"-{int(number)}", str(pid)]), capture_output=True).returncode:
            raise ProcessLookupError

    def parent(self, host, pid):
        """The parent of a process of a host. Raises OSError if it has ended."""
        told = subprocess.run(self.on(self.index(host), ["cut", "-d", " ", "-f", "4", f"/proc/{pid}/stat"]), capture_output=True, text=True)
        if told.returncode:
            raise ProcessLookupError
        return int(told.stdout)

    def has(self, host, pid, _mark):
        """Whether there is such a process on a host; nothing but the job runs there."""
        return subprocess.run(self.on(self.index(host), ["test", "-e", f"/proc/{pid}"])).returncode == 0

    def left(self):
        """What still runs on the hosts, and what is in their /dev/shm if they have a room's."""
        found = [f"{name} on node{host + 1}" for host in range(len(self._on)) for name in self.tell(f"processes {host}").split()]
        return found + (self._room.left() if self._room else [])

    def close(self):
        """Ends the hosts."""
        self._process.communicate()
