"""Hosts for an elastic job: namespaces with a network, an sshd and a host name each, made by tests/support/netlab.h."""

import subprocess


class Unavailable(RuntimeError):
    """This machine cannot have such hosts; the text says why."""


class Lab:
    """Two hosts, node1 and node2. hvdrun runs on the first. Has the methods of job.Room."""

    def __init__(self, program):
        """program: the lab's, of a build."""
        try:
            self._process = subprocess.Popen([str(program), "2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        except OSError as error:
            raise Unavailable(f"{program}: {error.strerror}; scripts/demo builds it") from None
        self._on = [self._process.stdout.readline().split() for _ in range(2)]
        if not all(self._on):
            raise Unavailable(self._process.communicate()[1].strip())

    def tell(self, order):
        """Gives an order, and returns the answer."""
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def command(self, folder, words):
        """The command that runs these words on node1, in a folder."""
        return [*self._on[0], "env", "-C", str(folder), *words]

    def left(self):
        """What still runs on the hosts."""
        return [f"{name} on node{host + 1}" for host in range(2) for name in self.tell(f"processes {host}").split()]

    def close(self):
        """Ends the hosts."""
        self._process.communicate()
