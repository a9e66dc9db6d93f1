"""Warm-up callbacks with TensorFlow: a new worker traces its step and takes one of its own while it waits outside, and nothing is left
of them once it has joined."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from elastic_jobs import PARTS, flags, require_trained, require_warmed_up  # noqa: E402

# The gradient of the kernel is the input, so a step of two ranks takes 2 from it, and one of a rank alone 1.
JOB = """
import rueda.tensorflow as hvd

hvd.init()
traced = []
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
optimizer = tf.keras.optimizers.SGD(1.0, momentum=0.0)
state = hvd.elastic.TensorFlowKerasState(model, optimizer, steps=[0, 0])

@tf.function
def step(inputs):
    traced.append(hvd.size())
    with hvd.DistributedGradientTape(tf.GradientTape(), op=hvd.Sum) as tape:
        loss = tf.reduce_sum(model(inputs))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))

def warm_up():
    step.get_concrete_function(tf.TensorSpec((1, 3)))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(tf.fill((1, 3), 7.0)))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    state.steps[0] += 1000
    tell("warmed up", kernel=model.get_weights()[0].ravel().tolist())
    attempt(dict(step=lambda: step(tf.ones((1, 3)))))

state.register_warm_up_callbacks([warm_up])

@hvd.elastic.run
def train(state):
    while sum(state.steps) < 6:
        step(tf.ones((1, 3)))
        state.steps[hvd.size() - 1] += 1
        if hvd.size() == 1 and sum(state.steps) == 2:
            list_slots(2)
            await_change(state)
        state.commit()
    tell("trained", steps=state.steps, kernel=model.get_weights()[0].ravel().tolist(), iterations=int(optimizer.iterations), traced=len(traced))

train(state)
"""


@pytest.mark.short
def test_a_new_worker_traces_its_step_outside_and_takes_the_others_state(run_script):
    done = run_script(PARTS + JOB, *flags(1), ranks=1)
    require_warmed_up(done, kernel=[-7.0] * 3)
    require_trained(done, steps=[2, 4], kernel=[-10.0] * 3, iterations=6, traced=1)
