"""A distributed optimizer out of any optimizer."""

import contextlib
import numbers
import warnings
from typing import Any, Callable, Iterable, Iterator, List, Optional, Sequence, Set, Tuple, Union

import torch

from rueda.arguments import whole_number
from rueda.operations import Average, Sum, reduce_op
from rueda.process_sets import ProcessSet, global_process_set, id_of
from rueda.session import size
from rueda.torch.compression import Compression
from rueda.torch.gradient_buffers import BufferedReducer
from rueda.torch.reducer import GradientReducer, Reduction

Groups = Union[int, Sequence[Sequence[torch.Tensor]], None]


class _Distributed:
    """What DistributedOptimizer() puts in front of the wrapped class."""

    _reducer: Optional[GradientReducer]
    _synchronized: bool
    _skipping: bool

    def synchronize(self) -> None:
        """Waits until the gradients are the reduced ones: to clip, to unscale or to look at them before step(), which then
        stands within skip_synchronize(). Raises what the reductions raise."""
        if self._reducer is not None:
            self._reducer.synchronize()
        self._synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Within it step() takes the gradients as they are after synchronize()."""
        self._skipping = True
        try:
            yield
        finally:
            self._skipping = False

    def set_backward_passes_per_step(self, passes: int) -> None:
        """How many backward passes add to the gradients of one step. ValueError: less than 1, or within a step."""
        passes = whole_number("backward_passes_per_step", passes, 1)
        if self._reducer is not None:
            if self._reducer.in_step:
                raise ValueError("backward_passes_per_step changes between backward and step()")
            self._reducer.passes_per_step = passes

    def __reduce_ex__(self, protocol: Any) -> Any:
        """TypeError: it is neither copied nor pickled."""
        raise TypeError("a distributed optimizer cannot be copied or pickled: its hooks are on this process's parameters; take its "
                        "state_dict() instead, load that into an optimizer over the other parameters, and wrap it")  # fmt: skip

    def add_param_group(self, param_group: Any) -> None:
        """ValueError: the gradients of parameters that come later would not be reduced."""
        raise ValueError("add_param_group() on a distributed optimizer: its gradients would not be reduced; add the group before "
                         "DistributedOptimizer(), or wrap the optimizer anew")  # fmt: skip

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Waits for the reduced gradients and runs the wrapped step. The gradients that a closure makes are reduced before
        the closure returns. Returns what the wrapped step does. AssertionError: gradients were set to None, as
        model.zero_grad() does, or replaced while they were being reduced; such as were zeroed in place are not noticed."""
        if self._synchronized and not self._skipping:
            warnings.warn("step() after synchronize() outside skip_synchronize(): the gradients are reduced a second time; "
                          "put step() within 'with optimizer.skip_synchronize():'", stacklevel=2)  # fmt: skip
        if self._skipping:
            if not self._synchronized:
                raise AssertionError("step() within skip_synchronize() without synchronize() before")
        elif closure is None or (self._reducer is not None and self._reducer.in_step):
            self.synchronize()
        self._synchronized = False
        return super().step() if closure is None else super().step(self._reducing(closure))

    def _reducing(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def evaluate() -> Any:
            loss = closure()
            if self._reducer is not None:
                self._reducer.synchronize()
            return loss

        return evaluate

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """Forgets the gradients. AssertionError: between a backward pass and step() or synchronize(), unless shutdown() was
        called since that pass."""
        stale = self._reducer is not None and self._reducer.is_stale
        if self._reducer is not None and self._reducer.in_step and not stale:
            raise AssertionError("zero_grad() between backward and step(): gradients that are being reduced would be lost; "
                                 "call step() or synchronize() first")  # fmt: skip
        super().zero_grad(*args, **kwargs)
        self._synchronized = False
        if stale:
            self._reducer.forget()
        if self._reducer is not None:
            self._reducer.cleared()


def DistributedOptimizer(optimizer: torch.optim.Optimizer, named_parameters: Any = None, compression: Any = Compression.none,
                         backward_passes_per_step: int = 1, op: int = Average, gradient_predivide_factor: float = 1.0,
                         num_groups: int = 0, groups: Groups = None, sparse_as_dense: bool = False,
                         process_set: ProcessSet = global_process_set, *,
                         average_accumulated: bool = False, gradient_as_buffer_view: bool = False) -> torch.optim.Optimizer:
    """An optimizer of the same class, whose step() uses gradients reduced over the ranks of the process set.

    Each gradient is enqueued when the backward pass has made it; step() waits for all. All ranks make their distributed
    optimizers in the same order. The new optimizer shares parameters and state with `optimizer`, which is not to be used
    any more. One that is made later takes over the parameters that it shares with an earlier one.

    named_parameters: model.named_parameters(); names what errors and the timeline speak of.
    compression: Compression.none, fp16, bf16, or a class with compress() and decompress().
    backward_passes_per_step: how many backward passes add up before the gradients are reduced. A step with fewer, like the
        last of an epoch, is fine.
    op: Average or Sum, also the others.
    gradient_predivide_factor: divides before the sum and multiplies after it; with Average.
    num_groups: gradients are reduced in so many groups; 0: each by itself. groups: the parameters of each group instead.
    sparse_as_dense: sparse gradients are reduced as dense ones.
    average_accumulated: divides by backward_passes_per_step.
    gradient_as_buffer_view: gradients are views of larger tensors, one for each group or for about 8 MiB, which are reduced
        whole: fewer operations, and no gradient is None after zero_grad(). Not with Adasum, nor a compressor of one's own.

    ValueError: no optimizer, or one that is distributed already; a parameter without a name, two of one name, a parameter in two
    groups or in a group that is not the optimizer's, predivide with another op than Average, a count that is none or below its
    least value, a process set of no job, no init() before.
    """
    if isinstance(optimizer, _Distributed):
        raise ValueError("the optimizer is distributed already; DistributedOptimizer() takes the one that it was made of")
    if not hasattr(optimizer, "param_groups"):
        raise ValueError(f"DistributedOptimizer({optimizer!r:.40}): an optimizer is needed, such as torch.optim.SGD(...)")
    op = reduce_op(None, op)
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor needs op=Average")
    if gradient_predivide_factor <= 0.0:
        raise ValueError(f"gradient_predivide_factor is {gradient_predivide_factor}, more than 0 is needed")
    backward_passes_per_step = whole_number("backward_passes_per_step", backward_passes_per_step, 1)
    if average_accumulated and op not in (Average, Sum):
        raise ValueError("average_accumulated needs op=Average or op=Sum")
    id_of(process_set)
    size()
    every_named = _named(optimizer, named_parameters)
    named = [(name, parameter) for name, parameter in every_named if parameter.requires_grad]
    every = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    chosen = _groups([parameter for _, parameter in named], every, num_groups, groups)
    passes = backward_passes_per_step if average_accumulated else 1
    how = Reduction(op, compression, 1.0 / (gradient_predivide_factor * passes), gradient_predivide_factor, sparse_as_dense,
                    process_set)  # fmt: skip
    wrapped = type(optimizer)
    distributed = object.__new__(type(wrapped.__name__, (_Distributed, wrapped), {"__module__": wrapped.__module__}))
    # Schedulers put a step() of the wrapped optimizer's into the instance, which would hide ours.
    distributed.__dict__.update({key: value for key, value in optimizer.__dict__.items() if key not in ("step", "zero_grad")})
    distributed._synchronized = distributed._skipping = False
    distributed._reducer = None
    if process_set.included():
        reducer = BufferedReducer if gradient_as_buffer_view else GradientReducer
        distributed._reducer = reducer(named, chosen, how, backward_passes_per_step)
        distributed._reducer.await_unfreezing([pair for pair in every_named if not pair[1].requires_grad])
    return distributed


def _named(optimizer: torch.optim.Optimizer, named_parameters: Any) -> List[Tuple[str, torch.Tensor]]:
    """The optimizer's parameters, in its order, with their names."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if named_parameters is None:
        return [(str(number), parameter) for number, parameter in enumerate(parameters)]
    pairs = list(named_parameters) if isinstance(named_parameters, Iterable) else [None]
    if not all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        raise ValueError("named_parameters is to give pairs (name, parameter), as model.named_parameters() does")
    names = [name for name, _ in pairs]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ValueError(f"two parameters are named {', '.join(doubled)}; names are to differ")
    name_of = {parameter: name for name, parameter in pairs}
    unnamed = [number for number, parameter in enumerate(parameters) if parameter not in name_of]
    if unnamed:
        raise ValueError(f"named_parameters has no name for the optimizer's parameters number {unnamed}")
    return [(name_of[parameter], parameter) for parameter in parameters]


def _groups(parameters: List[torch.Tensor], every: Set[torch.Tensor], num_groups: int,
            groups: Groups) -> List[List[torch.Tensor]]:
    """The parameters of each group; those in none are reduced by themselves. every: the optimizer's, also the frozen ones."""
    num_groups = whole_number("num_groups", num_groups, 0)
    if isinstance(groups, numbers.Number):
        num_groups, groups = whole_number("groups", groups, 0), None
    if groups is None:
        count = min(num_groups, len(parameters))
        return [parameters[len(parameters) * i // count : len(parameters) * (i + 1) // count] for i in range(count)]
    if not all(isinstance(group, (list, tuple)) and all(isinstance(p, torch.Tensor) for p in group) for group in groups):
        raise ValueError("groups is to be a number or lists of parameters")
    seen = set()
    for number, group in enumerate(groups):
        for parameter in group:
            if parameter not in every:
                raise ValueError(f"groups[{number}] has a parameter of shape {list(parameter.shape)} that is not the optimizer's")
            if parameter in seen:
                raise ValueError(f"a parameter of shape {list(parameter.shape)} is in two groups")
            seen.add(parameter)
    return [[parameter for parameter in group if parameter.requires_grad] for group in groups]
