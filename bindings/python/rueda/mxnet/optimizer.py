"""DistributedOptimizer and gluon's DistributedTrainer, and broadcast_parameters()."""

from typing import Any, Dict, List, Optional

import mxnet
import numpy
from mxnet.gluon.parameter import DeferredInitializationError

import rueda.numpy as arrays
from rueda import operations, session
from rueda.arguments import whole_number
from rueda.mxnet.arrays import to_write
from rueda.mxnet.operations import broadcast_
from rueda.operations import Sum
from rueda.process_sets import ProcessSet, global_process_set, ranks_of


class _NoneCompressor:
    """Sends numbers as they are."""

    @staticmethod
    def compress(tensor: Any) -> Any:
        """The array to send, and the dtype for decompress()."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """The array in the dtype before compress()."""
        return tensor if ctx is None else tensor.astype(ctx)


class _Fp16Compressor(_NoneCompressor):
    """Sends float32 and float64 as half precision."""

    @staticmethod
    def compress(tensor: Any) -> Any:
        """The array to send, and the dtype for decompress()."""
        name = numpy.dtype(tensor.dtype).name
        return (tensor.astype("float16"), tensor.dtype) if name in ("float32", "float64") else (tensor, None)


class Compression:
    """The compressors: none, fp16."""

    none = _NoneCompressor
    fp16 = _Fp16Compressor


def _reduce(named: Dict[str, Any], groups: int, prescale: float, process_set: ProcessSet, compression: Any) -> None:
    """Sums gradients over the ranks in place, all at once or in so many groups."""
    names = list(named)
    sent = [compression.compress(named[name]) for name in names]
    memory = [to_write(tensor) for tensor, _ in sent]
    if groups == 0:
        handles = [arrays.allreduce_async_(array, None, name, Sum, prescale, 1.0, process_set) for array, name in zip(memory, names)]
    else:
        length = -(-len(names) // groups)
        starts = range(0, len(names), length or 1)
        handles = [arrays.grouped_allreduce_async_(memory[i : i + length], None, f"{names[i]}.group", Sum, prescale, 1.0, process_set)
                   for i in starts]  # fmt: skip
    for handle in handles:
        handle.wait()
    for name, (tensor, context) in zip(names, sent):
        if context is not None:
            named[name][:] = compression.decompress(tensor, context)


class DistributedOptimizer(mxnet.optimizer.Optimizer):
    """Reduces each gradient over all ranks, then updates as `optimizer` does, with the mean of the gradients.

    gradient_predivide_factor: gradients are divided by it before the sum and by size / factor after it. num_groups: the
    gradients of one call are reduced in so many groups; 0 reduces each by itself. Changes optimizer.rescale_grad.
    """

    def __init__(self, optimizer: Any, gradient_predivide_factor: float = 1.0, num_groups: int = 0,
                 process_set: ProcessSet = global_process_set):
        self._optimizer = optimizer
        self._groups = whole_number("num_groups", num_groups, 0)
        self._prescale = 1.0 / gradient_predivide_factor
        self._process_set = process_set
        optimizer.rescale_grad *= gradient_predivide_factor / len(ranks_of(process_set))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_optimizer"], name)

    def _reduce(self, index: Any, grad: Any) -> None:
        single = not isinstance(index, (tuple, list))
        pairs = [(index, grad)] if single else zip(index, grad)
        named = {f"optimizer.{key}": gradient for key, gradient in pairs}
        _reduce(named, 0 if single else self._groups, self._prescale, self._process_set, Compression.none)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Reduces the gradients and updates the weights."""
        self._reduce(index, grad)
        self._optimizer.update(index, weight, grad, state)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """update() with weights of half precision that have a copy in single precision."""
        self._reduce(index, grad)
        self._optimizer.update_multi_precision(index, weight, grad, state)

    def create_state(self, index: Any, weight: Any) -> Any:
        """The state of the optimizer for a weight."""
        return self._optimizer.create_state(index, weight)

    def create_state_multi_precision(self, index: Any, weight: Any) -> Any:
        """create_state() for update_multi_precision()."""
        return self._optimizer.create_state_multi_precision(index, weight)

    def set_learning_rate(self, lr: float) -> None:
        """Sets the learning rate of the optimizer."""
        self._optimizer.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult: Any) -> None:
        """Sets factors of the learning rate."""
        self._optimizer.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult: Any) -> None:
        """Sets factors of the weight decay."""
        self._optimizer.set_wd_mult(args_wd_mult)


class DistributedTrainer(mxnet.gluon.Trainer):
    """A Trainer of gluon that updates with the mean of all ranks' gradients.

    prefix: of the gradients' names, so that several trainers differ; by default numbered in the order in which they are
    made. The other arguments are as for DistributedOptimizer. Raises ValueError if `optimizer` is distributed already.
    """

    def __init__(self, params: Any, optimizer: Any, optimizer_params: Any = None, compression: Any = Compression.none,
                 gradient_predivide_factor: float = 1.0, prefix: Optional[str] = None, num_groups: int = 0,
                 process_set: ProcessSet = global_process_set):
        if isinstance(optimizer, DistributedOptimizer):
            raise ValueError("DistributedTrainer() reduces gradients itself: give the optimizer inside the DistributedOptimizer")
        super().__init__(params, optimizer, optimizer_params=optimizer_params, kvstore=None)
        ranks = ranks_of(process_set)
        self._scale *= gradient_predivide_factor / len(ranks)
        self._prefix = prefix or session.current().next_name_space("trainer", ranks)
        self._how = whole_number("num_groups", num_groups, 0), 1.0 / gradient_predivide_factor, process_set, compression

    def _allreduce_grads(self) -> None:
        wanted = [(i, parameter) for i, parameter in enumerate(self._params) if parameter.grad_req != "null"]
        _reduce({f"{self._prefix}{i}": parameter.list_grad()[0] for i, parameter in wanted}, *self._how)


def _broadcast_later(parameter: Any, root_rank: int, name: str) -> None:
    """Lets a parameter whose shape is not known yet be broadcast once it is initialised."""
    initialise = parameter._init_impl

    def then(*args: Any, **kwargs: Any) -> None:
        initialise(*args, **kwargs)
        broadcast_(parameter.data(), root_rank, name)

    parameter._init_impl = then


def broadcast_parameters(params: Any, root_rank: int = 0, prefix: Optional[str] = None) -> None:
    """Overwrites the parameters of every rank with the root's.

    params: a dict of arrays or of gluon's parameters, such as net.collect_params(), with the same keys on all ranks. A
    parameter whose shape is not known yet is broadcast when it is initialised. prefix: of the names.
    """
    root_rank = operations.root_of(root_rank)
    if not hasattr(params, "items"):
        raise ValueError(f"params is a {type(params).__name__}; give a dict of arrays, or net.collect_params()")
    space = prefix or session.current().next_call_space("broadcast_parameters", ranks_of(global_process_set))
    ready: List[Any] = []
    for key, value in params.items():
        try:
            ready.append((f"{space}{key}", value.data() if hasattr(value, "list_data") else value))
        except DeferredInitializationError:
            _broadcast_later(value, root_rank, f"{space}{key}")
    handles = [arrays.broadcast_async_(to_write(array), root_rank, name) for name, array in ready]
    for handle in handles:
        handle.wait()
