"""TensorFlow's peers: MultiWorkerMirroredStrategy, whose server must exist before anything else of TensorFlow, and Rueda."""

import json
import os

import turns

import rueda.numpy


def strategy_of(tf):
    """The strategy of all ranks, which averages by a ring over gRPC."""
    workers = [f"127.0.0.1:{port}" for port in turns.free_ports()]
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": rueda.numpy.rank()}})
    ring = tf.distribute.experimental.CommunicationImplementation.RING
    how = tf.distribute.experimental.CommunicationOptions(implementation=ring)
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=how)


def gradients(tf, hvd, strategy, shrink):
    """All peers average the same tensors, which are made before."""
    tensors = [tf.constant(array) for array in turns.own_gradients(shrink)]

    @tf.autograph.experimental.do_not_convert
    def by_strategy(*given):
        # The results of an op have a device, which the strategy needs; arguments have none.
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, [tf.identity(each) for each in given])

    return {name: _calling(tf.function(function, autograph=False), tensors) for name, function in {
        "alone": lambda *given: [tf.identity(tensor) for tensor in given],
        "Rueda, allreduce of each": lambda *given: [hvd.allreduce(tensor, name=f"g{index}") for index, tensor in enumerate(given)],
        "Rueda, grouped_allreduce": lambda *given: hvd.grouped_allreduce(list(given), name="group"),
        "MultiWorkerMirroredStrategy": lambda *given: strategy.run(by_strategy, args=given),
    }.items()}  # fmt: skip


def training(tf, hvd, strategy, shrink):
    """Rates are so small that the weights stay what they are; the gradients are the result."""
    start, rows = turns.perceptron(shrink)
    rows = tf.constant(rows)

    def step_with(tape_of, reduce):
        weights = [tf.Variable(array) for array in start]

        def step():
            with tape_of(tf.GradientTape()) as tape:
                values = rows
                for weight in weights:
                    values = tf.tanh(values @ weight)
                loss = tf.reduce_mean(tf.square(values))
            found = reduce(tape.gradient(loss, weights))
            for weight, gradient in zip(weights, found):
                weight.assign_sub(1e-9 * gradient)
            return found

        return step

    def averaged(found):
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, found)

    plain = step_with(lambda tape: tape, lambda found: found)
    ours = step_with(hvd.DistributedGradientTape, lambda found: found)
    theirs = step_with(lambda tape: tape, averaged)
    return {"alone": tf.function(plain), "Rueda, DistributedGradientTape": tf.function(ours),
            "MultiWorkerMirroredStrategy": tf.function(lambda: strategy.run(theirs))}  # fmt: skip


def _calling(function, arguments):
    return lambda: function(*arguments)


def run(options):
    rueda.numpy.init()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(turns.threads_of_rank())
    strategy = strategy_of(tf)
    import rueda.tensorflow as hvd

    contests = {name: make(tf, hvd, strategy, options.shrink) for name, make in [("gradients", gradients), ("training", training)]}
    turns.take(contests, options, f"TensorFlow {tf.__version__}")
