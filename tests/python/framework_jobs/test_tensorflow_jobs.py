"""Whole scripts for TensorFlow: through the alias, with ranks that die, in forked workers, and without a TensorFlow."""

import json
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import HVDRUN


def test_a_training_loop_written_for_horovod_runs_unedited(run_script):
    job = run_script("""
import numpy as np
import horovod.tensorflow as hvd

hvd.init()
numbers = np.random.RandomState(0)
images = numbers.rand(64, 32, 32, 3).astype("float32")
labels = numbers.randint(0, 10, (64, 1))
# In batches of 4 the last layers normalize over 4 numbers, and untrained gradients pass fp16's 65,504; in 16 they stay below 300.
data = tf.data.Dataset.from_tensor_slices((images, labels)).shard(hvd.size(), hvd.rank()).repeat().shuffle(64, seed=hvd.rank()).batch(16)
model = tf.keras.applications.ResNet50(weights=None, include_top=True, input_shape=(32, 32, 3), classes=10)
optimizer = tf.keras.optimizers.SGD(0.001 * hvd.size(), momentum=0.9)
loss_of = tf.keras.losses.SparseCategoricalCrossentropy()

@tf.function
def training_step(images, labels, first_batch):
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(images, training=True))
    tape = hvd.DistributedGradientTape(tape, compression=hvd.Compression.fp16)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    if first_batch:
        hvd.broadcast_variables(model.variables, root_rank=0)
        hvd.broadcast_variables(optimizer.variables, root_rank=0)
    return loss

for batch, (x, y) in enumerate(data.take(3)):
    loss = training_step(x, y, batch == 0)
    mean = hvd.allreduce(loss, average=True)
    if batch == 2:
        print("mean loss", float(mean))
weights = [variable.numpy() for variable in model.trainable_variables]
same = all(np.array_equal(hvd.broadcast(each, 0).numpy(), each) for each in weights)
print("weights are equal:", same, "and finite:", all(np.isfinite(each).all() for each in weights))
""")
    assert job.code == 0, job.err
    assert job.lines(0)[-1] == job.lines(1)[-1] == "weights are equal: True and finite: True"
    assert job.lines(0)[-2] == job.lines(1)[-2]


def test_tensorflow_keras_and_numpy_are_one_rank_in_one_process(run_script):
    job = run_script("""
import numpy as np
import horovod.keras
import rueda.numpy
import rueda.tensorflow as hvd

hvd.init()
assert hvd.rank() == horovod.keras.rank() == rueda.numpy.rank() and rueda.numpy.is_initialized()
array = rueda.numpy.allreduce_async(np.full(3, hvd.rank() + 1.0), op=rueda.numpy.Sum, name="array")
tensor = hvd.allreduce(tf.fill([2], hvd.rank() + 1.0), op=hvd.Sum, name="tensor")
print(tensor.numpy().tolist(), array.wait().tolist())
""")
    assert job.code == 0, job.err
    assert job.lines(0)[-1] == job.lines(1)[-1] == "[3.0, 3.0] [3.0, 3.0, 3.0]"


# Without a single limit nothing but the news of the death can end a wait, so that the job ends at all is the proof.
NO_LIMITS = {"RUEDA_TIMEOUT_SECONDS": "0", "RUEDA_PEER_TIMEOUT_SECONDS": "0", "RUEDA_STALL_CHECK_DISABLE": "1"}


def test_model_fit_written_for_horovod_runs_unedited_and_a_killed_rank_ends_all(run_script):
    job = run_script("""
import signal, statistics, time
import numpy as np
import horovod.tensorflow.keras as hvd

hvd.init()
ends = []
class Die(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        ends.append(time.time())
        if self.model.optimizer.iterations >= 20 and hvd.rank() == 1:
            with open("killed", "w") as file:
                file.write(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(2), tf.keras.layers.Dense(1)])
model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.001 * hvd.size())), loss="mse")
callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(),
             hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.001 * hvd.size(), warmup_epochs=1, verbose=1)]
x = np.ones((16, 4), "float32")
model.fit(x, x.sum(1), batch_size=8, epochs=1, verbose=0, callbacks=callbacks)
print("trained", flush=True)
try:
    model.fit(x, x.sum(1), batch_size=8, epochs=100000, verbose=0, callbacks=[Die()])
except tf.errors.AbortedError as error:
    after = time.time() - float(open("killed").read())
    step = statistics.median(end - begin for begin, end in zip(ends, ends[1:]))
    print(f"aborted {after:.3f} s = {after / step:.1f} steps after", str(error).replace(chr(10), " "), flush=True)
    raise
""", ranks=3, environment=NO_LIMITS)  # fmt: skip
    assert job.code != 0
    for rank in (0, 2):
        assert "trained" in job.lines(rank), job.err
        found = re.search(r"aborted (.* steps) after.*rank 1 \(host .*, pid \d+\)", job.lines(rank)[-1])
        assert found, job.lines(rank)
        print(f"rank {rank} raised {found[1]} after the kill")
    assert "rank 1" in job.err and "killed by signal 9" in job.err


OVERLAP = """
tf.config.threading.set_inter_op_parallelism_threads(2)
import rueda.tensorflow as hvd
from rueda.tensorflow.library import library
hvd.init()
COUNT = 16
def reduce(order, index):
    return hvd.allreduce(tf.fill([4], float(index)), name=f"{order}.{index}", op=hvd.Sum)
if hvd.rank() == 0 and BLOCK:
    library.rueda_tensorflow_block()
for order in ("up", "down"):
    if hvd.rank() == 0:
        # One step of all of them, in which none needs another.
        results = tf.function(lambda: [reduce(order, index) for index in range(COUNT)])()
    else:
        # One after the other: the last begins once all others have ended.
        indices = range(COUNT) if order == "up" else reversed(range(COUNT))
        results = sorted((reduce(order, index) for index in indices), key=lambda each: float(each[0]))
    assert [each.numpy().tolist() for each in results] == [[2.0 * index] * 4 for index in range(COUNT)]
print("all were in flight")
"""


def test_sixteen_operations_of_a_step_are_in_flight_on_two_threads(run_script):
    """A rank that asks for them one by one, in each direction, gets them all only if no kernel holds a thread meanwhile."""
    job = run_script(OVERLAP.replace("BLOCK", "False"))
    assert job.code == 0, job.err
    assert job.lines(0) == job.lines(1) == ["all were in flight"]


def test_kernels_that_block_would_not_pass_that(run_script):
    job = run_script(OVERLAP.replace("BLOCK", "True"), environment={"RUEDA_TIMEOUT_SECONDS": "5"})
    assert job.code != 0 and "all were in flight" not in job.out
    assert "DeadlineExceeded" in job.err, job.err


def test_kernels_that_must_block_give_the_same_results(run_script):
    job = run_script("""
import rueda.tensorflow as hvd
from rueda.tensorflow.library import library
library.rueda_tensorflow_block()
hvd.init()
@tf.function
def step(x):
    return hvd.allreduce(hvd.allreduce(x, op=hvd.Sum) + 1, op=hvd.Sum), hvd.allgather(x)
print([each.numpy().tolist() for each in step(tf.ones([2]))])
try:
    hvd.allreduce(tf.ones(2 + hvd.rank()), name="differs")
except tf.errors.FailedPreconditionError as error:
    print("differs" in str(error))
""")
    assert job.code == 0, job.err
    assert job.lines(0) == job.lines(1) == ["[[6.0, 6.0], [1.0, 1.0, 1.0, 1.0]]", "True"]


def test_operations_before_init_behind_shutdown_and_in_a_forked_worker_are_refused(run_script):
    job = run_script("""
import rueda.tensorflow as hvd
def attempt():
    try:
        hvd.allreduce(tf.ones(2))
    except tf.errors.FailedPreconditionError as error:
        print(str(error).partition("}} ")[2][:60], flush=True)
attempt()
hvd.init()
if os.fork() == 0:
    attempt()
    os._exit(0)
os.wait()
hvd.shutdown()
attempt()
hvd.init()
print(hvd.allreduce(tf.ones(1), op=hvd.Sum).numpy().tolist())
""")
    assert job.code == 0, job.err
    before, forked, behind, again = job.lines(0)
    assert before.startswith("Rueda is not initialised: call init() first")
    assert re.match(r"process \d+ was forked from process \d+", forked)
    assert "shut down" in behind and again == "[2.0]"


def test_importing_rueda_imports_no_tensorflow_and_a_missing_or_old_one_is_told():
    def run(text):
        return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)

    assert run("import rueda, sys; rueda.init; print('tensorflow' in sys.modules)").stdout == "False\n"
    missing = run("import sys; sys.modules['tensorflow'] = None; import rueda.tensorflow")
    assert "ImportError: rueda.tensorflow needs TensorFlow 2.13 or newer, which cannot be imported here" in missing.stderr
    old = run("import tensorflow; tensorflow.__version__ = '2.12.1'; import rueda.tensorflow")
    assert "ImportError: rueda.tensorflow needs TensorFlow 2.13 or newer, and 2.12.1 is installed" in old.stderr


@pytest.mark.parametrize("framework", ["tensorflow", "keras"])
def test_the_examples_learn(framework):
    example = pathlib.Path(__file__).parents[3] / "examples" / framework / "train_digits.py"
    command = [HVDRUN, "-np", "2", sys.executable, str(example)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr
    assert float(re.search(r"2 ranks, accuracy ([0-9.]+)", done.stdout)[1]) > 0.8


def test_the_comparison_with_the_strategy_of_tensorflow_runs(tmp_path):
    program = pathlib.Path(__file__).parents[3] / "benchmarks" / "framework_compare"
    command = [sys.executable, str(program), "tensorflow", "--shrink", "32", "--rounds", "1", "--seconds", "0.01", "--json", "found.json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    table = json.loads((tmp_path / "found.json").read_text())["table"]
    assert [rows[-1]["peer"] for rows in table.values()] == ["MultiWorkerMirroredStrategy"] * 2
    assert all(row["ms"] > 0 for rows in table.values() for row in rows)


def test_workers_that_tf_data_reads_from_know_their_rank_though_they_are_forked(run_script):
    job = run_script("""
import multiprocessing
import rueda.tensorflow as hvd
hvd.init()
def item(number):
    try:
        hvd.broadcast_object(number)
    except hvd.NotInitializedError as error:
        assert "was forked from rank" in str(error)
        return 100 * hvd.rank() + number
def items():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        yield from pool.imap(item, range(4))
data = tf.data.Dataset.from_generator(items, output_signature=tf.TensorSpec([], tf.int32)).prefetch(2)
print([int(hvd.allreduce(number, op=hvd.Sum, name="of data")) for number in data])
""")
    assert job.code == 0, job.err
    assert job.lines(0) == job.lines(1) == ["[100, 102, 104, 106]"]
