"""model.fit() in an elastic job, one of whose three workers is killed in the middle of an epoch, for tests of each backend of Keras."""

import numpy
from elastic_jobs import PARTS, told

WIDTH = 8

# Worker 2 is alone on its host, which gets no new worker. The gradient of the kernel is the input, and follows from the batch and the
# rank alone, so what a replay needs is which batches were taken by how many ranks.
FIT = """
import numpy as np
import PACKAGE as hvd
import rueda.keras, rueda.numpy

hvd.init()
WIDTH, BATCHES, EPOCHS = 8, 5, 3
keras = KERAS
start = keras.initializers.Constant(float(hvd.rank()))  # rank 0's zeros count
model = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(1, use_bias=False, kernel_initializer=start)])
optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.25, momentum=0.5), op=hvd.Sum)
model.compile(optimizer=optimizer, loss=lambda wanted, found: wanted * found)

class Noting(hvd.elastic.KerasState):
    def commit(self):
        self.commits.append([self.epoch, self.batch])
        super().commit()

class Watch(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        state.steps.append(self.params["steps"])

    def on_train_batch_begin(self, batch, logs=None):
        if rueda.elastic.worker_id() == 2 and state.epoch == 1 and batch == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_train_batch_end(self, batch, logs=None):
        state.history.append([hvd.size(), batch])

state = Noting(model, epoch=0, batch=0, history=[], commits=[], steps=[])
calls = []
callbacks = [hvd.elastic.UpdateBatchStateCallback(state), hvd.elastic.UpdateEpochStateCallback(state), Watch(),
             hvd.elastic.CommitStateCallback(state, batches_per_commit=2)]  # the same ones in each fit()

@hvd.elastic.run
def train(state):
    calls.append([state.epoch, state.batch, len(state.history)])
    x = np.array([[(3 * batch + 7 * hvd.rank() + place) % 5 + hvd.rank() for place in range(WIDTH)] for batch in range(BATCHES)], "float32")
    model.fit(x, np.ones((BATCHES, 1), "float32"), batch_size=1, epochs=EPOCHS - state.epoch, shuffle=False, verbose=0,
              callbacks=callbacks)

train(state)
kernel, momentum = (np.array(each).ravel().tolist() for each in state.read() if np.size(each) == WIDTH)
alike = rueda.numpy.allgather_object([[np.array(each).tolist() for each in state.read()], state.commits])
tell("trained", calls=calls, epoch=state.epoch, batch=state.batch, commits=state.commits, steps=state.steps, history=state.history,
     iterations=int(model.optimizer.iterations), kernel=kernel, momentum=momentum, alike=alike[0] == alike[1])
"""


def script(package, keras):
    """The script with a package for `hvd`, and an expression for the package of Keras."""
    return PARTS + FIT.replace("PACKAGE", package).replace("KERAS", keras)


FLAGS = ("-H", "localhost:2,127.0.0.1:1", "--min-np", "2", "--blacklist-after", "1")


def replayed(history):
    """Kernel and momentum after these batches: [[ranks, batch], ...]."""
    kernel, momentum = numpy.zeros((2, WIDTH), numpy.float32)
    for ranks, batch in history:
        total = sum((3 * batch + 7 * rank + numpy.arange(WIDTH)) % 5 + rank for rank in range(ranks)).astype(numpy.float32)
        momentum = momentum * numpy.float32(0.5) - total * numpy.float32(0.25)
        kernel = kernel + momentum
    return kernel.tolist(), momentum.tolist()


def require_resumed(done):
    """The others have gone on from the commit before the death, with the counts of the callbacks and the state of a replay."""
    assert done.code == 0 and "killed by signal 9" in done.err, done.out + done.err
    trained = told(done, "trained")
    assert sorted(line["worker"] for line in trained) == [0, 1], done.out + done.err
    for line in trained:
        assert line["calls"] == [[0, 0, 0], [1, 2, 8]], line
        # Each second batch from the beginning of a fit() on, and the end of each epoch, which sets the batch to 0.
        before = [[0, 1], [0, 3], [1, 0], [1, 0], [1, 2]]
        assert line["commits"] == [*before, [1, 1], [1, 3], [2, 0], [2, 0], [2, 2], [2, 4], [3, 0]], line
        assert line["steps"] == [5, 5, 5 - 2, 5] and (line["epoch"], line["batch"]) == (3, 0), line
        history = [[3, batch] for batch in (0, 1, 2, 3, 4, 0, 1, 2)] + [[2, batch] for batch in (0, 1, 2, 3, 4) * 2]
        assert line["history"] == history and line["iterations"] == len(history), line
        assert (line["kernel"], line["momentum"]) == replayed(history) and line["alike"], line
