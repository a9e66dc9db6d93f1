"""Warm-up callbacks with JAX: a new worker compiles its step while it waits outside, and nothing is left of the values that it has
computed there."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
from elastic_jobs import PARTS, flags, require_trained, require_warmed_up  # noqa: E402

JOB = """
import rueda.numpy

hvd.init()
traced = []

def one_step(weights, inputs):
    traced.append(hvd.size())
    return weights - hvd.allreduce(jax.grad(lambda given: (given * inputs).sum())(weights), hvd.Sum, name="gradient")

step, ones = jax.jit(one_step), jnp.ones(3)
state = rueda.elastic.ObjectState(hvd.broadcast_object, hvd.rank, weights=jnp.zeros(3), steps=[0, 0])

def warm_up():
    global step
    step = jax.jit(one_step).lower(state.weights, ones).compile()
    state.weights = state.weights - 7
    state.steps[0] += 1000
    tell("warmed up", weights=state.weights.tolist())
    attempt(dict(step=lambda: jax.block_until_ready(step(state.weights, ones))))

state.register_warm_up_callbacks([warm_up])

@rueda.elastic.run
def train(state):
    while sum(state.steps) < 6:
        state.weights = step(state.weights, ones)
        state.steps[hvd.size() - 1] += 1
        if hvd.size() == 1 and sum(state.steps) == 2:
            list_slots(2)
            await_change(state)
        state.commit()
    tell("trained", steps=state.steps, weights=state.weights.tolist(), traced=len(traced))

train(state)
"""


@pytest.mark.short
def test_a_new_worker_compiles_its_step_outside_and_takes_the_others_state(run_jax):
    done = run_jax(PARTS + JOB, *flags(1), ranks=1)
    require_warmed_up(done, weights=[-7.0] * 3)
    require_trained(done, steps=[2, 4], weights=[-10.0] * 3, traced=1)
