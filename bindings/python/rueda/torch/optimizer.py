"""Makes any optimizer of PyTorch a distributed one, which steps with gradients reduced over all ranks."""

import contextlib
import numbers
import warnings
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple, Union

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
    """The base class that DistributedOptimizer() puts before the wrapped optimizer's class. One thread at a time uses
    it."""

    _reducer: Optional[GradientReducer]
    _parameter_names: Dict[torch.Tensor, str]  # of every parameter, frozen ones too; scripts of Horovod read it
    _synchronized: bool
    _skipping: bool
    _begun: int  # how many steps have begun to change the parameters
    _reduced: int  # how often gradients have been synchronized
    _inside: bool  # whether one of them does now
    _stepped: Callable[[], None]  # called when one has ended

    def synchronize(self) -> None:
        """Waits until all gradients are reduced, so that the program can clip, unscale or read them before step(). Call
        step() within skip_synchronize() then. Raises what the reductions raise."""
        if self._reducer is not None:
            self._reducer.synchronize()
        self._synchronized = True
        self._reduced += 1

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """A context in which step() uses the gradients as they are, after synchronize()."""
        self._skipping = True
        try:
            yield
        finally:
            self._skipping = False

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Sets how many backward passes add to the gradients of one step. Raises ValueError if it is less than 1, or
        between a backward pass and step()."""
        passes = whole_number("backward_passes_per_step", passes, 1)
        if self._reducer is not None:
            if self._reducer.in_step:
                raise ValueError("backward_passes_per_step cannot change between backward and step(); set it after step()")
            self._reducer.passes_per_step = passes

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Raises TypeError: a distributed optimizer can be neither copied nor pickled."""
        raise TypeError("a distributed optimizer cannot be copied or pickled: its hooks are on this process's parameters; take its "
                        "state_dict() instead, load that into an optimizer over the other parameters, and wrap it")  # fmt: skip

    def add_param_group(self, param_group: Any) -> None:
        """Raises ValueError: the gradients of parameters that are added later would not be reduced."""
        raise ValueError("add_param_group() on a distributed optimizer: its gradients would not be reduced; add the group before "
                         "DistributedOptimizer(), or wrap the optimizer anew")  # fmt: skip

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Waits for the reduced gradients, runs the wrapped step, and returns its result.

        closure: its gradients are reduced before it returns to the wrapped step. Raises AssertionError if gradients
        were set to None, as model.zero_grad() does, or replaced while they were reduced; zeroing them in place is not
        noticed.
        """
        if self._synchronized and not self._skipping:
            warnings.warn("optimizer.step() called without optimizer.skip_synchronize() after optimizer.synchronize(): the gradients are "
                          "reduced a second time; put step() within 'with optimizer.skip_synchronize():'", stacklevel=2)  # fmt: skip
        if self._skipping:
            if not self._synchronized:
                raise AssertionError("step() within skip_synchronize() without synchronize() before")
        elif closure is None or (self._reducer is not None and self._reducer.in_step):
            self.synchronize()
        self._synchronized = False
        return self._update() if closure is None else self._update(self._reducing(closure))

    def _update(self, *closure: Callable[[], Any]) -> Any:
        """Runs the wrapped step. What a closure makes of it, such as several updates, counts as one."""
        self._begun, self._inside = self._begun + 1, True
        try:
            return super().step(*closure)
        finally:
            self._inside = False
            self._stepped()

    def _reducing(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def evaluate() -> Any:
            loss = closure()
            if self._reducer is not None:
                self._reducer.synchronize()
            return loss

        return evaluate

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """Zeroes the gradients or sets them to None, as the wrapped optimizer does. Raises AssertionError between a
        backward pass and step() or synchronize(), unless shutdown() was called after that pass."""
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


# What PyTorch puts around step(), such as the hooks of register_step_pre_hook(), is around the optimizer's own. load_state_dict() would
# put it around this one as well, and the hooks would run twice in each step.
setattr(_Distributed.step, "hooked", True)


def DistributedOptimizer(optimizer: torch.optim.Optimizer, named_parameters: Any = None, compression: Any = Compression.none,
                         backward_passes_per_step: int = 1, op: int = Average, gradient_predivide_factor: float = 1.0,
                         num_groups: int = 0, groups: Groups = None, sparse_as_dense: bool = False,
                         process_set: ProcessSet = global_process_set, *,
                         average_accumulated: bool = False, gradient_as_buffer_view: bool = False) -> torch.optim.Optimizer:
    """Returns an optimizer of the same class that steps with gradients reduced over the ranks of the process set.

    Each gradient is enqueued as soon as the backward pass has made it; step() waits for all (Li et al., VLDB 2020,
    describe this for DistributedDataParallel). All ranks make their distributed optimizers in the same order. The new
    optimizer shares parameters and state with `optimizer`, which must not be used any more. A later distributed
    optimizer takes over parameters of an earlier one.

    named_parameters: model.named_parameters(), for the names in errors and in the timeline. None names a parameter
        "allreduce.noname.<number of its group>.<its number in it>".
    compression: Compression.none, fp16, bf16, or a class with compress() and decompress().
    backward_passes_per_step: how many backward passes add up before gradients are reduced. A step may have fewer, such
        as the last one of an epoch.
    op: any operator; Average by default.
    gradient_predivide_factor: the gradients are divided by it before the sum, and multiplied by it after. Needs
    op=Average.
    num_groups: the number of groups of gradients that are reduced together; 0 reduces each gradient by itself.
    groups: the number of groups, or a list of the parameters of each group.
    sparse_as_dense: reduces sparse gradients as dense ones. They are sparse again when the optimizer steps, except in the
        buffers of gradient_as_buffer_view.
    average_accumulated: divides gradients by backward_passes_per_step.
    gradient_as_buffer_view: makes gradients views of larger tensors, one for each group or about 8 MiB, which are
        reduced whole. There are fewer operations, and no gradient is None after zero_grad(). Not with Adasum or a
        compressor of your own.

    Raises ValueError if init() was not called, if the process set belongs to no job, if the argument is not an
    optimizer or distributed already, if a parameter has no name or shares one, if a group has a parameter of another
    group or optimizer, or if an option has a wrong value or needs another `op`.
    """
    if isinstance(optimizer, _Distributed):
        raise ValueError("the optimizer is distributed already; give DistributedOptimizer() the optimizer that it was made from")
    if not hasattr(optimizer, "param_groups"):
        raise ValueError(f"DistributedOptimizer({optimizer!r:.40}): give an optimizer, such as torch.optim.SGD(...)")
    op = reduce_op(None, op)
    _require_factors(op, gradient_predivide_factor, average_accumulated)
    backward_passes_per_step = whole_number("backward_passes_per_step", backward_passes_per_step, 1)
    id_of(process_set)
    size()
    every_named = _named(optimizer, named_parameters)
    named = [(name, parameter) for name, parameter in every_named if parameter.requires_grad]
    every = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    chosen = _groups([parameter for _, parameter in named], every, num_groups, groups)
    passes = backward_passes_per_step if average_accumulated else 1
    how = Reduction(op, compression, 1.0 / (gradient_predivide_factor * passes), gradient_predivide_factor, sparse_as_dense,
                    process_set)  # fmt: skip
    distributed = _distributed(optimizer)
    distributed._parameter_names = {parameter: name for name, parameter in every_named}
    if process_set.included():
        reducer = BufferedReducer if gradient_as_buffer_view else GradientReducer
        distributed._reducer = reducer(named, chosen, how, backward_passes_per_step)
        distributed._reducer.await_unfreezing([pair for pair in every_named if not pair[1].requires_grad])
        if sparse_as_dense and isinstance(optimizer, torch.optim.SparseAdam):
            distributed._reducer.expect_sparse()
    return distributed


def _require_factors(op: int, gradient_predivide_factor: float, average_accumulated: bool) -> None:
    """Raises ValueError if the operator cannot be used with these factors."""
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor needs op=Average")
    if gradient_predivide_factor <= 0.0:
        raise ValueError(f"gradient_predivide_factor is {gradient_predivide_factor}; it must be more than 0")
    if average_accumulated and op not in (Average, Sum):
        raise ValueError("average_accumulated needs op=Average or op=Sum")


def _distributed(optimizer: torch.optim.Optimizer) -> Any:
    """An object of a class derived from _Distributed and the optimizer's, with the optimizer's parameters and state."""
    wrapped = type(optimizer)
    distributed = object.__new__(type(wrapped.__name__, (_Distributed, wrapped), {"__module__": wrapped.__module__}))
    # Schedulers store a wrapped step() in the instance's dictionary, which would hide the step() of _Distributed.
    distributed.__dict__.update({key: value for key, value in optimizer.__dict__.items() if key not in ("step", "zero_grad")})
    distributed._synchronized = distributed._skipping = distributed._inside = False
    distributed._begun, distributed._reduced, distributed._stepped = 0, 0, lambda: None
    distributed._reducer = None
    return distributed


def _named(optimizer: torch.optim.Optimizer, named_parameters: Any) -> List[Tuple[str, torch.Tensor]]:
    """The optimizer's parameters, in its order, with their names."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if named_parameters is None:
        return [(f"allreduce.noname.{number}.{index}", parameter) for number, group in enumerate(optimizer.param_groups)
                for index, parameter in enumerate(group["params"])]  # fmt: skip
    pairs = list(named_parameters) if isinstance(named_parameters, Iterable) else [None]
    if not all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        raise ValueError("named_parameters must give pairs (name, parameter), as model.named_parameters() does")
    names = [name for name, _ in pairs]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ValueError(f"two parameters are named {', '.join(doubled)}; names must be unique")
    name_of = {parameter: name for name, parameter in pairs}
    unnamed = [number for number, parameter in enumerate(parameters) if parameter not in name_of]
    if unnamed:
        raise ValueError(f"named_parameters has no name for the optimizer's parameters number {unnamed}")
    return [(name_of[parameter], parameter) for parameter in parameters]


def _groups(parameters: List[torch.Tensor], every: Set[torch.Tensor], num_groups: int,
            groups: Groups) -> List[List[torch.Tensor]]:
    """The parameters of each group; those in no group are reduced by themselves. every: all parameters of the
    optimizer, frozen ones too."""
    num_groups = whole_number("num_groups", num_groups, 0)
    if isinstance(groups, numbers.Number):
        num_groups, groups = whole_number("groups", groups, 0), None
    if groups is None:
        count = min(num_groups, len(parameters))
        return [parameters[len(parameters) * i // count : len(parameters) * (i + 1) // count] for i in range(count)]
    if not all(isinstance(group, (list, tuple)) and all(isinstance(p, torch.Tensor) for p in group) for group in groups):
        raise ValueError("groups must be a number or lists of parameters")
    seen = set()
    for number, group in enumerate(groups):
        for parameter in group:
            if parameter not in every:
                raise ValueError(f"groups[{number}] has a parameter of shape {list(parameter.shape)} that is not the optimizer's")
            if parameter in seen:
                raise ValueError(f"a parameter of shape {list(parameter.shape)} is in two groups")
            seen.add(parameter)
    return [[parameter for parameter in group if parameter.requires_grad] for group in groups]
