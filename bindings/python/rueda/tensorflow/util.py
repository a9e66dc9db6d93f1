"""Small functions under the names that scripts use."""

from rueda.tensorflow.library import tf


def _executing_eagerly() -> bool:
    return tf.executing_eagerly()


def gpu_available() -> bool:
    """Returns whether TensorFlow sees a GPU."""
    return bool(tf.config.list_physical_devices("GPU"))
