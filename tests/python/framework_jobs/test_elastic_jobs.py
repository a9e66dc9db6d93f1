"""Elastic jobs with model.fit(): a worker is killed inside of it, and the others train to the end with equal models."""

import json
import os
import subprocess
import sys

WORKERS = os.environ.get("ELASTIC_WORKERS", "")  # tests/support/elastic_workers.cc

FIT = """
import json, os, signal
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(1)
import numpy as np
import rueda.elastic
import rueda.tensorflow.keras as hvd

hvd.init()
me = rueda.elastic.worker_id()
class Die(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if me == 1 and state.epoch == 2 and batch == 1:
            os.kill(os.getpid(), signal.SIGKILL)
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(2), tf.keras.layers.Dense(1)])
model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.01)), loss="mse")
state = hvd.elastic.KerasState(model, epoch=0, batch=0, sizes=[])
class Note(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        state.sizes.append(hvd.size())
x = np.random.RandomState(0).rand(32, 4).astype("float32")

@hvd.elastic.run
def train(state):
    callbacks = [Die(), Note(), hvd.elastic.UpdateBatchStateCallback(state), hvd.elastic.UpdateEpochStateCallback(state),
                 hvd.elastic.CommitStateCallback(state, 2)]
    model.fit(x, x.sum(1), batch_size=8, epochs=5 - state.epoch, verbose=0, callbacks=callbacks)

train(state)
weights = [np.array(each) for each in state.read()]
same = all(np.array_equal(hvd.broadcast_object(each), each) for each in weights)
text = json.dumps([me, state.epoch, state.sizes, same, all(bool(np.isfinite(each).all()) for each in weights)])
os.write(1, text.encode() + b"\\n")  # in one piece
"""


def test_a_worker_killed_in_model_fit_is_survived(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(FIT)
    command = [WORKERS, "3", "2", sys.executable, str(script)]
    job = subprocess.run(command, capture_output=True, text=True, timeout=1500, env={**os.environ, "RUEDA_TIMEOUT_SECONDS": "120"}, cwd=tmp_path)
    assert job.returncode == 0, job.stdout + job.stderr
    told = sorted(json.loads(line) for line in job.stdout.splitlines() if line.startswith("["))
    assert told == [[worker, 5, [3, 3, 2, 2, 2], True, True] for worker in (0, 2)], job.stdout + job.stderr
    assert "killed by signal 9" in job.stderr
