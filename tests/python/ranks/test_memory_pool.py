"""The pool of rueda.tensor_memory, when buffers die while it is at work, as a collection of garbage may have it."""

import random
import types
import weakref

from rueda import tensor_memory


class Buffer:
    """What stands for a buffer: the end that the pool has given it is called when it dies."""

    def __init__(self, end, arguments):
        weakref.finalize(self, end, *arguments)


def test_buffers_that_die_while_the_pool_is_at_work_are_freed_once(monkeypatch):
    chance, taken, alive, here = random.Random(3), set(), [], object()

    def let_one_die():
        if alive:
            del alive[chance.randrange(len(alive))]

    def take(size):
        let_one_die()
        memory = types.SimpleNamespace(data=object())
        taken.add(memory.data)
        return memory

    def free(memory):
        taken.remove(memory)  # KeyError if it was freed before
        let_one_die()

    monkeypatch.setattr(tensor_memory, "_take", take)
    monkeypatch.setattr(tensor_memory, "_view", lambda memory, size, end, *arguments: Buffer(end, arguments))
    monkeypatch.setattr(tensor_memory, "lib", types.SimpleNamespace(rueda_memory_free=free))
    monkeypatch.setattr(tensor_memory, "current", lambda: here)
    unraisable = []
    monkeypatch.setattr("sys.unraisablehook", unraisable.append)  # an error in a finalizer
    pool = tensor_memory.Pool()
    for _ in range(3000):
        alive.append(pool.allocate(chance.choice((1, 2, 3))))
        if len(alive) > 8:
            let_one_die()
    alive.clear()
    pool.drop()
    tensor_memory._pools.remove(pool)
    assert not taken and not unraisable, unraisable[:1]
