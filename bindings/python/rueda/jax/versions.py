"""What differs between versions of JAX: where the foreign function interface is, and how programs are waited for."""

import re
from typing import Any, Callable, List, Optional, Sequence, Tuple

OLDEST = (0, 4, 31)

try:
    import jax
    import jaxlib
    from jax._src import core as _core
    from jax._src import dispatch as _dispatch
except ImportError as error:
    raise ImportError(f"rueda.jax needs JAX 0.4.31 or later, which cannot be imported: {error}; pip install jax") from error


def numbers(version: str) -> Tuple[int, ...]:
    """The numbers at the beginning of a version, such as (0, 4, 31)."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


for _name, _version in (("jax", jax.__version__), ("jaxlib", jaxlib.__version__)):
    if numbers(_version) < OLDEST:
        raise ImportError(f"{_name} {_version} is installed; rueda.jax needs 0.4.31 or later: pip install --upgrade jax")

# Whether XLA lets a call return before its operation has finished. Without that a call blocks a thread of XLA's.
HAS_FUTURES = numbers(jaxlib.__version__) >= (0, 6, 2)

try:
    from jax.ffi import ffi_call as _call
    from jax.ffi import pycapsule, register_ffi_target

    _older_call = None
except ImportError:  # before 0.5
    from jax.extend.ffi import ffi_call as _older_call
    from jax.extend.ffi import pycapsule, register_ffi_target


def register(target: str, handler: Any) -> None:
    """Makes the handler known to XLA's programs for the CPU. handler: a PyCapsule."""
    register_ffi_target(target, handler, platform="cpu")


def _allow_effects() -> None:
    """Lets operations stand in functions with derivatives of their own, and under jax.checkpoint. JAX forbids effects
    there that it does not know."""
    from jax._src import effects
    from jax._src import ffi as internal

    effects.custom_derivatives_allowed_effects.add_type(internal.FfiEffect)
    effects.remat_allowed_effects.add_type(internal.FfiEffect)


HAS_EFFECTS = _older_call is None  # without them JAX drops calls with results that are not used, on all ranks alike
if HAS_EFFECTS:
    try:
        _allow_effects()
    except (ImportError, AttributeError):  # a version in which their names have changed
        HAS_EFFECTS = False


def call(target: str, outputs: Sequence[jax.ShapeDtypeStruct], elementwise: bool) -> Callable[..., Any]:
    """The function that calls the target with arrays and attributes, and returns a list of arrays.

    elementwise: one call serves all elements of a vmap, which makes a further dimension 0 of them. Else each element is
    a call.
    """
    if _older_call is None:
        method = "broadcast_all" if elementwise else "sequential"
        return _call(target, outputs, has_side_effect=HAS_EFFECTS, vmap_method=method)

    def older(*inputs: Any, **attributes: Any) -> Any:
        return _older_call(target, outputs, *inputs, vectorized=elementwise, **attributes)

    return older


def first_device() -> int:
    """JAX's number of this process's first device for the CPU."""
    return jax.local_devices(backend="cpu")[0].id


def programs_in_flight() -> List[Any]:
    """What to wait for so that the programs have run that this thread has started, and all arrays are there.

    JAX keeps a token of each thread's last program with effects, which no other thread sees.
    """
    tokens = getattr(_dispatch, "runtime_tokens", None)
    found: List[Any] = list(jax.live_arrays())
    for name in ("current_tokens", "output_runtime_tokens"):
        found += getattr(tokens, name, {}).values()
    return found


def wait_for(things: List[Any]) -> None:
    """Waits for what programs_in_flight() has returned, on any thread."""
    for thing in things:
        try:
            thing.block_until_ready()
        except (RuntimeError, ValueError):  # its program has failed, or it was donated; users of the result get the error
            pass


def is_top_level() -> bool:
    """Returns whether no transformation of JAX is under way on this thread."""
    return _core.trace_state_clean()


def program_of(arrays: Sequence[Any]) -> Optional[Any]:
    """An object that stands for the program which is being traced, None if there is none or this JAX does not tell."""
    try:
        if hasattr(_core, "trace_ctx"):
            trace = _core.trace_ctx.trace
            while not hasattr(trace, "frame") and getattr(trace, "parent_trace", None) is not None:
                trace = trace.parent_trace
            return trace if hasattr(trace, "frame") else _innermost(arrays)
        stack = _core.thread_local_state.trace_state.trace_stack
        return stack.dynamic if stack.dynamic.level > 0 or hasattr(stack.dynamic, "jaxpr_stack") else _innermost(arrays)
    except AttributeError:
        return None


def _innermost(arrays: Sequence[Any]) -> Optional[Any]:
    """What stands for a transformation outside of jit, such as jax.grad."""
    for array in arrays:
        if isinstance(array, jax.core.Tracer):
            trace = array._trace
            return getattr(trace, "main", trace)
    return None


__all__ = [
    "HAS_EFFECTS", "HAS_FUTURES", "call", "first_device", "is_top_level", "numbers", "program_of", "programs_in_flight", "pycapsule", "register",
    "wait_for",
]  # fmt: skip
