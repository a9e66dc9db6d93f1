"""What DistributedOptimizer() is told, and how gradients are reduced with it on each of Keras's backends."""

import dataclasses
from typing import Any, Callable, Dict, List

from rueda.compression import codec_of
from rueda.operations import Average, Min
from rueda.process_sets import ProcessSet, global_process_set


@dataclasses.dataclass
class Settings:
    """The arguments of DistributedOptimizer() but for the optimizer, with the same names."""

    prefix: str = "DistributedOptimizer"
    compression: Any = None
    sparse_as_dense: bool = False
    op: int = Average
    gradient_predivide_factor: float = 1.0
    backward_passes_per_step: int = 1
    average_aggregated_gradients: bool = False
    num_groups: int = 0
    groups: Any = None
    process_set: ProcessSet = global_process_set
    scale_local_gradients: bool = True


def backend_of(optimizer: Any) -> str:
    """The backend that the optimizer runs on: "tensorflow", "jax" or "torch". Keras 2 has TensorFlow only."""
    if not hasattr(optimizer, "apply"):
        return "tensorflow"
    import keras

    return keras.backend.backend()


def reducer_for(backend: str, settings: Settings) -> Any:
    """An object with reduce(gradients, variables) and register_local(variable), as rueda.tensorflow.reducer.Reducer is."""
    if backend == "tensorflow":
        from rueda.tensorflow.compression import Compression
        from rueda.tensorflow.reducer import Reducer

        return Reducer(settings.prefix, settings.compression or Compression.none, settings.sparse_as_dense, settings.op,
                       settings.gradient_predivide_factor, settings.num_groups, settings.groups, settings.process_set,
                       settings.scale_local_gradients)  # fmt: skip
    if settings.gradient_predivide_factor != 1.0 and settings.op != Average:
        raise ValueError(f"gradient_predivide_factor={settings.gradient_predivide_factor} needs op=Average")
    if settings.compression is not None:
        codec_of(settings.compression)
    return _Elsewhere(settings, _torch_reduction if backend == "torch" else _jax_reduction)


def agreement_for(backend: str, settings: Settings) -> Callable[[Any], Any]:
    """A function that returns, as a tensor of the backend, whether a flag is true on every rank of the set."""
    name, process_set = settings.prefix + ".finite", settings.process_set
    if backend == "tensorflow":
        import rueda.tensorflow as in_tensorflow
        from rueda.tensorflow.library import tf

        return lambda flag: in_tensorflow.allreduce(tf.cast(flag, tf.int32), op=Min, name=name, process_set=process_set) > 0
    if backend == "torch":
        import rueda.torch as in_torch

        return lambda flag: in_torch.allreduce(flag.detach().int(), op=Min, name=name, process_set=process_set) > 0
    import rueda.jax as in_jax

    return lambda flag: in_jax.allreduce(flag.astype("int32"), Min, name=name, process_set=process_set) > 0


class _Elsewhere:
    """Reduces on a backend whose gradients are all there when the optimizer sees them: as one group."""

    def __init__(self, settings: Settings, reduction: Callable[..., List[Any]]):
        self._settings, self._reduction, self._local = settings, reduction, set()

    def register_local(self, variable: Any) -> None:
        """Leaves the variable's gradient on this rank."""
        self._local.add(id(variable))

    def reduce(self, gradients: Any, variables: Any) -> List[Any]:
        """The gradients for this rank's step, in the same order. None stays None."""
        results = list(gradients)
        shared = []
        for index, (gradient, variable) in enumerate(zip(gradients, variables)):
            if gradient is None:
                continue
            if id(variable) not in self._local:
                shared.append(index)
            elif self._settings.scale_local_gradients:
                results[index] = gradient / self._settings.process_set.size()
        for index, reduced in zip(shared, self._reduction(self._settings, [results[index] for index in shared])):
            results[index] = reduced
        return results


def given(compression: Any) -> Dict[str, Any]:
    """The argument `compression` of a binding's functions; none if it is None, since each binding has its own default."""
    return {} if compression is None else {"compression": compression}


def _torch_reduction(settings: Settings, gradients: List[Any]) -> List[Any]:
    import rueda.torch as hvd

    factor = settings.gradient_predivide_factor
    return hvd.grouped_allreduce(gradients, name=settings.prefix, op=settings.op, prescale_factor=1.0 / factor, postscale_factor=factor,
                                 process_set=settings.process_set, **given(settings.compression))  # fmt: skip


def _jax_reduction(settings: Settings, gradients: List[Any]) -> List[Any]:
    import rueda.jax as hvd

    factor = settings.gradient_predivide_factor
    return [hvd.allreduce(gradient, settings.op, name=f"{settings.prefix}.{i}", prescale_factor=1.0 / factor, postscale_factor=factor,
                          process_set=settings.process_set, **given(settings.compression)) for i, gradient in enumerate(gradients)]  # fmt: skip
