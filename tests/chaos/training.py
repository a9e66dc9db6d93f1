"""The arithmetic of the training that chaos strikes, for its workers and for the replay in one process.

A rank's gradient follows from the step, the rank and the position alone, and is a small whole number, so that sums are exact
in any order. The state after some steps is therefore the same bits wherever they were taken, and follows from how many ranks
took each step. A history says that: [[ranks, steps], ...].
"""

import hashlib

import numpy

PARAMETERS = 1000

_POSITIONS = numpy.arange(PARAMETERS)


def initial():
    """The weights and the momentum before the first step, as bytes of float64."""
    return bytes(8 * PARAMETERS), bytes(8 * PARAMETERS)


def gradient(step, rank, positions=_POSITIONS):
    """What a rank adds to the sum of a step, as whole numbers."""
    return (3 * step + 7 * rank + positions) % 5 + rank


def updated(weights, momentum, total):
    """The weights and the momentum after a step with this sum."""
    momentum = numpy.frombuffer(momentum) * 0.5 + total
    return (numpy.frombuffer(weights) - momentum * 0.25).tobytes(), momentum.tobytes()


def digest(weights, momentum):
    """The SHA-256 of a state."""
    return hashlib.sha256(weights + momentum).hexdigest()


def lengthened(history, ranks):
    """The history with one step of so many ranks more."""
    if history and history[-1][0] == ranks:
        return [*history[:-1], [ranks, history[-1][1] + 1]]
    return [*history, [ranks, 1]]


class Replay:
    """Takes the steps of histories in this process, and goes on from the one before if that is how the next one begins.

    dtype: in which weights and momentum are kept. Their digest is of float64 all the same.
    """

    def __init__(self, parameters=PARAMETERS, dtype=numpy.float64):
        self._positions, self._dtype = numpy.arange(parameters), dtype
        self._begin()

    def _begin(self):
        self._taken, self._weights, self._momentum = [], *numpy.zeros((2, len(self._positions)), self._dtype)

    def digest(self, history):
        """The SHA-256 of the state after these steps."""
        sizes = [ranks for ranks, steps in history for _ in range(steps)]
        if sizes[: len(self._taken)] != self._taken:
            self._begin()
        half, quarter = self._dtype(0.5), self._dtype(0.25)
        for step in range(len(self._taken), len(sizes)):
            total = sum(gradient(step, rank, self._positions) for rank in range(sizes[step]))
            self._momentum = self._momentum * half + total.astype(self._dtype)
            self._weights = self._weights - self._momentum * quarter
        self._taken = sizes
        return digest(*(each.astype(numpy.float64).tobytes() for each in (self._weights, self._momentum)))
