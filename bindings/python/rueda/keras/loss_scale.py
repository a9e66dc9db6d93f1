"""Makes Keras 3's LossScaleOptimizer decide alike on all ranks.

It skips a step whose gradients are not finite, and looks at them before the optimizer that it wraps reduces them. If only
one rank's have overflowed, that rank would skip the reduction for which the others wait. model.compile() puts a
LossScaleOptimizer around any optimizer under the policy "mixed_float16", so a program need not know of it.
"""

import functools
from typing import Any


def install() -> None:
    """Makes check_finite() ask all ranks if the wrapped optimizer is distributed. Does nothing for Keras 2, whose function
    does not know the optimizer."""
    import keras

    scaled = getattr(keras.optimizers, "LossScaleOptimizer", None)
    original = getattr(scaled, "check_finite", None)
    if original is None or hasattr(original, "serves_rueda"):
        return

    @functools.wraps(original)
    def check_finite(self: Any, grads: Any) -> Any:
        finite = original(self, grads)
        agreed = getattr(self.inner_optimizer, "_rueda_agreed", None)
        return finite if agreed is None else agreed(finite)

    check_finite.serves_rueda = True  # type: ignore[attr-defined]
    scaled.check_finite = check_finite
