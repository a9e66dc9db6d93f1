"""Batch normalization over the batches of all ranks."""

from typing import Any, Tuple

from rueda.operations import Sum
from rueda.tensorflow.library import tf
from rueda.tensorflow.operations import allreduce


def _moments_of_all(inputs: Any, axes: Any, keepdims: bool) -> Tuple[Any, Any]:
    """Mean and variance over the rows of all ranks, whose batches may have different sizes. Sums in at least f32."""
    wide = tf.cast(inputs, tf.float32) if inputs.dtype in (tf.half, tf.bfloat16) else inputs
    total, squares = tf.reduce_sum(wide, axes), tf.reduce_sum(tf.square(wide), axes)
    shape = tf.shape(wide)
    count = tf.cast(tf.reduce_prod(tf.gather(shape, list(axes))), wide.dtype)
    flat = tf.concat([tf.reshape(total, [-1]), tf.reshape(squares, [-1]), tf.reshape(count, [1])], axis=0)
    summed = allreduce(flat, op=Sum)
    half = tf.size(total)
    mean = tf.reshape(summed[:half], tf.shape(total)) / summed[-1]
    variance = tf.maximum(tf.reshape(summed[half : 2 * half], tf.shape(total)) / summed[-1] - tf.square(mean), 0)
    mean.set_shape(total.shape)
    variance.set_shape(total.shape)
    if keepdims:
        ones = tf.tensor_scatter_nd_update(shape, [[axis] for axis in axes], tf.ones([len(axes)], tf.int32))
        mean, variance = tf.reshape(mean, ones), tf.reshape(variance, ones)
    return tf.cast(mean, inputs.dtype), tf.cast(variance, inputs.dtype)


class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
    """tf.keras.layers.BatchNormalization with the mean and the variance of the batches of all ranks.

    Gradients flow through the sums of all ranks. Masks are not supported.
    """

    def __init__(self, fused: bool = False, **kwargs: Any):
        """fused: must be False, since the fused kernel knows one rank. kwargs: those of BatchNormalization."""
        if fused:
            raise ValueError("SyncBatchNormalization does not support fused=True")
        if not _IS_KERAS_3:
            kwargs["fused"] = False
        super().__init__(**kwargs)

    def _moments(self, inputs: Any, *args: Any, **kwargs: Any) -> Tuple[Any, Any]:
        if _IS_KERAS_3:
            axis = self.axis % len(inputs.shape)
            return _moments_of_all(inputs, [i for i in range(len(inputs.shape)) if i != axis], False)
        reduction_axes = kwargs.get("reduction_axes", args[0] if args else None)
        keep_dims = kwargs.get("keep_dims", args[1] if len(args) > 1 else False)
        return _moments_of_all(inputs, list(reduction_axes), bool(keep_dims))


_IS_KERAS_3 = not hasattr(tf.keras.layers.BatchNormalization, "_get_training_value")
