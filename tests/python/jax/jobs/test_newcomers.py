"""A worker that comes into a running job: the collectives of JAX before its training are refused, eager ones by their names, and
do not count."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
from elastic_jobs import PARTS, flags, require_refused, require_trained  # noqa: E402

JOB = """
import rueda.numpy

hvd.init()
one, two = jnp.ones(1), jnp.ones(2)
compiled = jax.jit(lambda x: hvd.allreduce(x, hvd.Sum, name="compiled"))
gradient = jax.jit(jax.grad(lambda x: hvd.allreduce(x, name="differentiated").sum()))
if rueda.elastic.worker_id() == 1:
    attempt(dict(
        allreduce=lambda: hvd.allreduce(one), grouped_allreduce=lambda: hvd.grouped_allreduce([one, one]), allgather=lambda: hvd.allgather(one),
        broadcast=lambda: hvd.broadcast(one, 0), alltoall=lambda: hvd.alltoall(two), reducescatter=lambda: hvd.reducescatter(two),
        broadcast_object=lambda: hvd.broadcast_object(1), allgather_object=lambda: hvd.allgather_object(1), barrier=hvd.barrier,
        join=hvd.join, add_process_set=lambda: hvd.add_process_set([0]),
        compiled=lambda: jax.block_until_ready(compiled(one)), gradient=lambda: jax.block_until_ready(gradient(one)),
    ))
state = rueda.elastic.ObjectState(hvd.broadcast_object, hvd.rank, epoch=0)

@rueda.elastic.run
def train(state):
    grow(state)
    tell("trained", sizes=hvd.allgather_object(hvd.broadcast_object(int(hvd.allreduce(one, hvd.Sum)[0]))), sum=compiled(one).tolist())

train(state)
"""
EAGER = """allreduce grouped_allreduce allgather broadcast alltoall reducescatter broadcast_object allgather_object barrier join
add_process_set""".split()


@pytest.mark.short
def test_collectives_of_a_new_worker_before_its_training_are_refused_and_do_not_count(run_jax):
    done = run_jax(PARTS + JOB, *flags(1), ranks=1)
    require_refused(done, {**{name: f"{name}()" for name in EAGER}, "compiled": "a compiled operation", "gradient": "a compiled operation"})
    require_trained(done, sizes=[2, 2], sum=[2.0])
