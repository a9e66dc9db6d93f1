"""The averages of DistributedDataParallel's gradients, made while they are summed.

    PyTorch    gradient g becomes g / n   ->   the sum over n ranks       for each gradient a pass over memory of its own
    here       gradient g                 ->   the average over n ranks   the reduction divides what it writes anyway

PyTorch leaves the division out if its reducer has a communication hook. So a reducer over this backend gets one that
averages, in its first forward pass, unless the program has registered a hook by then. A hook that the program registers
later takes its place, as if there had been none.

In a pass under Join, a rank that has no more inputs takes part without a forward pass, perhaps before its first one. It
has no hook then, so it sums. The other ranks divide as PyTorch does, and sum: by the number of ranks that have inputs if
PyTorch counts them, which it does for the first of several modules under one Join, and by the group's size otherwise.
They do the same for gradients that are sparse or no floating-point numbers.
"""

import contextlib
import functools
import weakref
from typing import Any, Callable, Optional, Tuple

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Reducer
from torch.distributed.algorithms.join import Join

_AVERAGED = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_averages: Any = weakref.WeakKeyDictionary()  # the hook of each reducer


class _Average:
    """The hook of one reducer, which calls it on the threads of its backward passes."""

    def __init__(self, group: dist.ProcessGroup):
        self._group = group
        self._divisor: Optional[Callable[[], int]] = None  # in a pass under Join: what this rank divides its gradients by
        self._programs: Optional[Tuple[Any, Any]] = None  # the program's own state and hook, which take this one's place
        self.offered = False

    def begin_pass(self, divisor: Optional[Callable[[], int]] = None) -> None:
        self._divisor = divisor

    def give_way(self, state: Any, hook: Any) -> bool:
        """Has the program's hook called from now on. Returns whether it is the first one."""
        first, self._programs = self._programs is None, self._programs or (state, hook)
        return first

    def size(self) -> int:
        return self._group.size()

    def __call__(self, _: Any, bucket: Any) -> torch.futures.Future:
        if self._programs is not None:
            state, hook = self._programs
            return hook(state, bucket)
        buffer, options = bucket.buffer(), dist.AllreduceOptions()
        if self._divisor is None and buffer.dtype in _AVERAGED and not buffer.is_sparse:
            options.reduceOp = dist.ReduceOp.AVG
        else:
            buffer.div_((self._divisor or self.size)())
        return self._group.allreduce([buffer], options).get_future().then(_first)


def _first(future: torch.futures.Future) -> torch.Tensor:
    return future.value()[0]


def watch(reducer: Reducer, group: dist.ProcessGroup) -> None:
    """Has the reducer average in the reductions of its buckets from its first forward pass on. All ranks call it."""
    _averages[reducer] = _Average(group)


def _of_result(work: Any) -> int:
    work.wait()
    return int(work.result()[0])


def install() -> None:
    """Makes PyTorch's reducers register the hooks that watch() has made, and replace them by a program's."""
    register = dist._register_comm_hook
    if hasattr(register, "serves_rueda"):
        return

    @functools.wraps(register)
    def register_programs(reducer: Any, state: Any, comm_hook: Any) -> None:
        average = _averages.get(reducer)
        if average is not None and average.offered and average.give_way(state, comm_hook):
            return
        register(reducer, state, comm_hook)
        _averages.pop(reducer, None)

    def offer(reducer: Any) -> None:
        average = _averages.get(reducer)
        if average is None:
            return
        average.begin_pass()
        if not average.offered:
            try:
                register(reducer, None, average)
                average.offered = True
            except RuntimeError:  # it has one that did not pass here
                del _averages[reducer]

    def divide_by_size(joinable: Any) -> None:
        reducer = getattr(joinable, "reducer", None)
        average = _averages.get(reducer) if isinstance(reducer, Reducer) else None
        if average is not None and joinable._join_config.enable:
            average.begin_pass(average.size)

    def divide_by_result(reducer: Any, work: Any, use_static_world_size: bool) -> None:
        average = _averages.get(reducer)
        if average is not None:
            average.begin_pass(average.size if use_static_world_size else functools.partial(_of_result, work))

    def divide_nothing(reducer: Any) -> None:
        average = _averages.get(reducer)
        if average is not None:
            average.begin_pass(lambda: 1)  # a rank without inputs adds zeros

    register_programs.serves_rueda = True  # type: ignore[attr-defined]
    dist._register_comm_hook = register_programs
    for method, before in (("prepare_for_forward", offer), ("_set_forward_pass_work_handle", divide_by_result),
                           ("_get_zeros_like_grad_buckets", divide_nothing)):  # fmt: skip
        with contextlib.suppress(AttributeError):
            setattr(Reducer, method, _behind(before, getattr(Reducer, method)))
    with contextlib.suppress(AttributeError):
        Join.notify_join_context = staticmethod(_behind(divide_by_size, Join.notify_join_context))


def _behind(before: Callable[..., None], method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def both(of: Any, *arguments: Any, **named: Any) -> Any:
        before(of, *arguments, **named)
        return method(of, *arguments, **named)

    return both
