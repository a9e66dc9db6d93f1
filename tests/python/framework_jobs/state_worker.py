"""A worker of an elastic job that a test strikes, with a state of TensorFlow. Usage: state_worker.py variables|session|keras

It trains until there is a file `stop` in its working folder, and tells what tests/chaos/worker.py does: each plan that it has
joined with the state there, its first step in it, how it has left it, and the end. The arithmetic is tests/chaos/training.py.

SIGUSR2 makes it die between a step and its commit, where the others must go back to the commit before.
"""

import os
import pathlib
import signal
import sys

import numpy
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "chaos"))
import training  # noqa: E402
from telling import tell  # noqa: E402

import rueda.tensorflow as hvd  # noqa: E402
from rueda import elastic  # noqa: E402

tf.config.threading.set_intra_op_parallelism_threads(1)


doomed = []


def started_on(shape):
    """What a variable has before the training: the zeros of rank 0 count."""
    return numpy.full(shape, float(hvd.rank()))


class Variables:
    """Weights and momentum as variables, changed in a compiled step."""

    dtype = numpy.float64

    def __init__(self):
        self.weights, self.momentum = (tf.Variable(started_on(training.PARAMETERS)) for _ in range(2))
        self.state = hvd.elastic.TensorFlowState([self.weights, self.momentum], step=0, history=[])
        self.advance = tf.function(self._advance)

    def _advance(self, gradient):
        self.momentum.assign(self.momentum * 0.5 + hvd.allreduce(gradient, op=hvd.Sum, name="gradients"))
        self.weights.assign_sub(self.momentum * 0.25)

    def numbers(self):
        """Weights and momentum, as the replay has them."""
        return self.weights.numpy(), self.momentum.numpy()


class InSession:
    """The same in a graph of tf.compat.v1, whose global variables are the state."""

    dtype = numpy.float64

    def __init__(self):
        tf.compat.v1.disable_eager_execution()
        self.weights, self.momentum = (tf.compat.v1.Variable(started_on(training.PARAMETERS)) for _ in range(2))
        self.gradient = tf.compat.v1.placeholder(tf.float64, training.PARAMETERS)
        momentum = self.momentum.assign(self.momentum * 0.5 + hvd.allreduce(self.gradient, op=hvd.Sum, name="gradients"))
        self.step = self.weights.assign_sub(momentum * 0.25)
        self.session = tf.compat.v1.Session()
        self.session.run(tf.compat.v1.global_variables_initializer())
        self.state = hvd.elastic.TensorFlowState(session=self.session, step=0, history=[])

    def advance(self, gradient):
        """Takes a step."""
        self.session.run(self.step, {self.gradient: gradient})

    def numbers(self):
        """As in Variables."""
        return self.session.run((self.weights, self.momentum))


class Model:
    """A model and an optimizer of Keras. The gradient of the kernel is the input."""

    dtype = numpy.float32

    def __init__(self):
        start = tf.keras.initializers.Constant(float(hvd.rank()))
        self.model = tf.keras.Sequential([tf.keras.Input((training.PARAMETERS,)), tf.keras.layers.Dense(1, use_bias=False, kernel_initializer=start)])
        self.optimizer = tf.keras.optimizers.SGD(0.25, momentum=0.5)
        self.state = hvd.elastic.TensorFlowKerasState(self.model, self.optimizer, step=0, history=[])
        self.advance = tf.function(self._advance)

    def _advance(self, gradient):
        with hvd.DistributedGradientTape(tf.GradientTape(), op=hvd.Sum) as tape:
            loss = tf.reduce_sum(self.model(tf.cast(gradient, tf.float32)[None]))
        self.optimizer.apply_gradients(zip(tape.gradient(loss, self.model.trainable_variables), self.model.trainable_variables))

    def numbers(self):
        """As in Variables. The optimizer adds its momentum to the weights, so its values are a negative quarter."""
        assert int(self.optimizer.iterations) == self.state.step, (int(self.optimizer.iterations), self.state.step)
        kernel, *rest = (value.astype(numpy.float64).ravel() for value in self.state.read() if value.size == training.PARAMETERS)
        return kernel, rest[0] * -4.0 + 0.0  # no negative zeros


def seen(kept):
    """What a replay needs to compare the state, and the state's own answer."""
    digest = training.digest(*(numbers.astype(numpy.float64).tobytes() for numbers in kept.numbers()))
    return {"step": kept.state.step, "history": kept.state.history, "digest": digest}


KINDS = {"variables": Variables, "session": InSession, "keras": Model}


def main():
    """Joins, trains, and tells."""
    signal.signal(signal.SIGUSR2, lambda *_: doomed.append(True))
    hvd.init()
    kept = KINDS[sys.argv[1]]()

    @hvd.elastic.run
    def train(state):
        plan, told = elastic.membership().plan, False
        tell("plan", plan=plan, rank=hvd.rank(), size=hvd.size(), **seen(kept))
        committed, stop = state.step, False
        try:
            while not stop:
                kept.advance(training.gradient(state.step, hvd.rank()).astype(numpy.float64))
                if doomed:
                    os.kill(os.getpid(), signal.SIGKILL)
                state.step += 1
                state.history = training.lengthened(state.history, hvd.size())
                stop = max(hvd.allgather_object(os.path.exists("stop"), "stop"))
                state.commit()
                committed = state.step
                if not told:
                    tell("step", plan=plan)
                    told = True
        except elastic.HostsUpdatedInterrupt as interrupt:
            tell("left", plan=plan, planned=True, committed=state.step, why=str(interrupt))
            raise
        except (elastic.HorovodInternalError, tf.errors.OpError) as error:
            tell("left", plan=plan, planned=False, committed=committed, why=f"{type(error).__name__}: {error}")
            raise

    train(kept.state)
    tell("done", rank=hvd.rank(), size=hvd.size(), **seen(kept))


if __name__ == "__main__":
    main()
