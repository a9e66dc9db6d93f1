"""A worker that comes into a running job: the collectives of TensorFlow before its training are refused, eager ones by their names,
and do not count."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from elastic_jobs import PARTS, flags, require_refused, require_trained  # noqa: E402

JOB = """
import numpy as np
import rueda.tensorflow as hvd
import rueda.tensorflow.keras as of_keras

hvd.init()
one, variable = tf.ones(1), tf.Variable([1.0])
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
model.compile(optimizer=of_keras.DistributedOptimizer(tf.keras.optimizers.SGD(0.01)), loss="mse")

def gradient():
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = variable * variable
    tape.gradient(loss, [variable])

@tf.function
def compiled():
    return hvd.allreduce(one, op=hvd.Sum, name="compiled")

@tf.function
def compiled_rows():
    return hvd.allgather(one, name="rows"), hvd.broadcast(one, 0, name="of root")

def fit(*callbacks):
    model.fit(np.ones((4, 4)), np.ones(4), verbose=0, callbacks=callbacks)

if rueda.elastic.worker_id() == 1:
    attempt(dict(
        allreduce=lambda: hvd.allreduce(one), grouped_allreduce=lambda: hvd.grouped_allreduce([one, one]), allgather=lambda: hvd.allgather(one),
        grouped_allgather=lambda: hvd.grouped_allgather([one]), broadcast=lambda: hvd.broadcast(one, 0), alltoall=lambda: hvd.alltoall(tf.ones(2)),
        reducescatter=lambda: hvd.reducescatter(tf.ones(2)), broadcast_variables=lambda: hvd.broadcast_variables([variable], 0),
        broadcast_object=lambda: hvd.broadcast_object(1), allgather_object=lambda: hvd.allgather_object(1), barrier=hvd.barrier, join=hvd.join,
        add_process_set=lambda: hvd.add_process_set([0]), gradient=gradient,
        fit=fit, compiled=compiled, compiled_rows=compiled_rows,
    ))
state = hvd.elastic.TensorFlowKerasState(model, epoch=0)

@hvd.elastic.run
def train(state):
    grow(state)
    fit(of_keras.callbacks.BroadcastGlobalVariablesCallback(0))
    hvd.broadcast_variables([variable], 0)
    tell("trained", sizes=hvd.allgather_object(hvd.broadcast_object(int(hvd.allreduce(one, op=hvd.Sum)[0]))), sum=compiled().numpy().tolist())

train(state)
"""
EAGER = """allreduce grouped_allreduce allgather grouped_allgather broadcast alltoall reducescatter broadcast_variables broadcast_object
allgather_object barrier join add_process_set gradient""".split()


def test_collectives_of_a_new_worker_before_its_training_are_refused_and_do_not_count(run_script):
    done = run_script(PARTS + JOB, *flags(1), ranks=1)
    compiled = dict.fromkeys(("fit", "compiled", "compiled_rows"), "a compiled operation")
    require_refused(done, {**{name: f"{name}()" for name in EAGER}, **compiled})
    require_trained(done, sizes=[2, 2], sum=[2.0])
