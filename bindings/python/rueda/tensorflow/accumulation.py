"""Gradients of several backward passes, added on each rank before they are reduced once."""

from typing import Any, Callable, List

from rueda.tensorflow.library import tf


class Accumulator:
    """Sums of gradients in variables of TensorFlow, made at the first pass. Works eagerly, in tf.function and in sessions.

    IndexedSlices are made dense. The variables belong to no optimizer, so that saved models do not contain them.
    """

    def __init__(self, passes: int, average: bool, reduce: Callable[[List[Any], Any], List[Any]]):
        """reduce: a function of gradients and variables, called at each pass number `passes`."""
        self._passes, self._average, self._reduce = passes, average, reduce
        self._sums: List[Any] = []
        self._count: Any = None
        self._full: Any = None

    def _make(self, gradients: List[Any], variables: Any) -> None:
        with tf.init_scope():
            self._count = tf.Variable(0, dtype=tf.int32, trainable=False, name="rueda_passes")
            for gradient, variable in zip(gradients, variables):
                zeros = None if gradient is None else tf.zeros(variable.shape, gradient.dtype)
                self._sums.append(None if zeros is None else tf.Variable(zeros, trainable=False, name="rueda_sum"))

    def add(self, gradients: List[Any], variables: Any) -> List[Any]:
        """Adds the gradients. Returns the reduced sums if this was the last pass of a step, else sums that when_full() keeps
        from being applied."""
        if self._count is None:
            self._make(gradients, variables)
        present = [i for i, gradient in enumerate(gradients) if gradient is not None]
        added = [self._sums[i].assign_add(tf.convert_to_tensor(gradients[i])) for i in present]
        with tf.control_dependencies(added):
            count = self._count.assign_add(1)
            self._full = tf.equal(tf.convert_to_tensor(count) % self._passes, 0)

        def last() -> List[Any]:
            sums = [tf.identity(self._sums[i]) for i in present]
            if self._average:
                sums = [each / tf.cast(self._passes, each.dtype) for each in sums]
            reduced = self._reduce(sums, [variables[i] for i in present])
            with tf.control_dependencies(reduced):
                cleared = [self._sums[i].assign(tf.zeros_like(self._sums[i])) for i in present]
            with tf.control_dependencies(cleared):
                return [tf.identity(each) for each in reduced]

        reduced = tf.cond(self._full, last, lambda: [tf.convert_to_tensor(self._sums[i]) for i in present])
        results = list(gradients)
        for i, gradient in zip(present, reduced if isinstance(reduced, (list, tuple)) else [reduced]):
            results[i] = gradient
        return results

    def when_full(self, step: Callable[[], Any]) -> Any:
        """Runs the step if the last add() was the last pass of one."""
        if tf.executing_eagerly():
            return step() if bool(self._full) else None
        return tf.cond(self._full, lambda: _done(step()), lambda: tf.constant(False))


def _done(result: Any) -> Any:
    with tf.control_dependencies([result] if result is not None else []):
        return tf.constant(True)
