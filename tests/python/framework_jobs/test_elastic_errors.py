"""What TensorFlow raises for a collective that has failed starts the next round of every elastic.run for TensorFlow and Keras, as
HorovodInternalError does. Other errors leave the wrapper."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from elastic_jobs import PARTS, told  # noqa: E402

# A worker that fails ends the job.
FLAGS = "-H", "localhost:1,127.0.0.1:1", "--min-np", "2", "--blacklist-after", "1", "--elastic-timeout", "1"

BEGIN = """
import horovod.keras, horovod.tensorflow, horovod.tensorflow.keras
import numpy
import rueda.keras, rueda.numpy, rueda.tensorflow.keras
import rueda.tensorflow as hvd

hvd.init()
one = tf.ones(1)
RUNS = {package.__name__: package.elastic.run for package in (rueda.tensorflow, rueda.tensorflow.keras, rueda.keras, horovod.tensorflow,
                                                              horovod.tensorflow.keras, horovod.keras)}

def rounds(run, first, **more):
    \"\"\"A training whose first round changes the state and calls first(). Tells how often it was entered, and the value at its end.\"\"\"
    state, entered = hvd.elastic.TensorFlowState([tf.Variable([1.0])], value=0), []

    @run
    def train(state):
        entered.append(state.value)
        if len(entered) == 1:
            state.value = 7
            state.variables[0].assign([7.0])
            try:
                first()
            except Exception as error:
                tell("raised", kind=type(error).__name__, why=str(error), **more)
                raise
        hvd.barrier()
        return state.value, float(state.variables[0][0]), len(entered)

    tell("trained", found=train(state), **more)
"""

# Rank 1 ends what all do, while rank 0 is in a collective or about to call it.
IN_COLLECTIVES = BEGIN + """
def through_numpy(x):
    return rueda.numpy.allreduce(x.numpy(), name="through numpy")

graph = tf.Graph()
with graph.as_default():
    in_session = hvd.allreduce(tf.ones(1), name="in a session")
ways = dict(
    eager=lambda: hvd.allreduce(one, name="eager"),
    compiled=tf.function(lambda: hvd.allreduce(one, name="compiled")),
    python=tf.function(lambda: tf.py_function(through_numpy, [one], tf.float32)),
    session=lambda: tf.compat.v1.Session(graph=graph).run(in_session),
    data=lambda: next(iter(tf.data.Dataset.from_tensors(one).map(lambda x: hvd.allreduce(x, name="of data")))),
)

def failing(way):
    def call():
        if hvd.rank() == 1:
            rueda.elastic.abort("as a program says")
        way()
    return call

for name, way in ways.items():
    rounds(hvd.elastic.run, failing(way), way=name)
"""


def test_collectives_that_fail_in_each_part_of_tensorflow_start_the_next_round(run_script):
    done = run_script(PARTS + IN_COLLECTIVES, *FLAGS)
    assert done.code == 0, done.out + done.err
    kinds = {way: {line["kind"] for line in told(done, "raised") if line["way"] == way} for way in ("eager", "compiled", "python", "session", "data")}
    assert kinds == {**dict.fromkeys(("eager", "compiled", "session", "data"), {"AbortedError"}), "python": {"UnknownError"}}, done.out + done.err
    assert all("as a program says" in line["why"] for line in told(done, "raised")), told(done, "raised")
    assert [line["found"] for line in told(done, "trained")] == [[0, 1.0, 2]] * 10, done.out + done.err


BY_NAME = BEGIN + """
def raising(kind):
    def call():
        if hvd.rank() == 1:
            raise kind(None, None, "as a collective that has failed")
        hvd.barrier()  # ends with the round
    return call

for name, run in RUNS.items():
    for kind in (tf.errors.AbortedError, tf.errors.UnknownError, tf.errors.DeadlineExceededError):
        rounds(run, raising(kind), of=name)
    try:
        def wrong():
            raise tf.errors.InvalidArgumentError(None, None, "a mistake")
        rounds(run, wrong, of=name)
    except tf.errors.InvalidArgumentError as error:
        tell("left", of=name)
hvd.barrier()  # or the first to end would end the plan of the other, whose mistake would be a consequence
"""


def test_every_run_takes_the_errors_of_a_broken_job_for_horovod_internal_error(run_script):
    done = run_script(PARTS + BY_NAME, *FLAGS)
    assert done.code == 0, done.out + done.err
    runs = [line["of"] for line in told(done, "left") if line["worker"] == 0]
    assert len(set(runs)) == 6 and len(told(done, "left")) == 12, done.out + done.err
    for run in runs:
        assert [line["found"] for line in told(done, "trained") if line["of"] == run] == [[0, 1.0, 2]] * 6, done.out + done.err
