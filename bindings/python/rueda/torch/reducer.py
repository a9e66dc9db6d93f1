"""Reduces gradients while the backward pass runs.

The usual path is in C (native/hooks.c): autograd calls a Member, which notes the gradient's address in the step's
batch, and full batches are enqueued by one call. This module has the rest: gradients that are sparse, compressed by a
user's class, on a device that the library does not reach, or in groups, the enqueue of batches, and the wait in step().
"""

import threading
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

import torch

from rueda import _hooks, errors
from rueda._native import ffi, lib
from rueda.compression import codec_of
from rueda.handles import Handle
from rueda.operations import ALLREDUCE, Options, make_options
from rueda.process_sets import ProcessSet, id_of
from rueda.session import Session, current, current_or_none, is_current
from rueda.torch import tensors
from rueda.torch.asynchronous import start_group, start_in_place
from rueda.torch.dense_stand_ins import DenseStandIns
from rueda.torch.gradient_hooks import on_gradient, take_over
from rueda.torch.held import HeldGradients, is_elsewhere
from rueda.torch.placed import Spot, is_reached, spot_of
from rueda.torch.sparse import History, empty_like, start_sparse

_strided = torch.strided


def _is_plain(tensor: torch.Tensor) -> bool:
    """Returns whether the tensor is contiguous in memory that the library uses where it lies."""
    return tensor.layout is _strided and tensor.is_contiguous() and is_reached(tensor)


class Reduction:
    """How gradients are reduced. compression: one of Compression, or a class with compress() and decompress(), which has no codec."""

    def __init__(self, op: int, compression: Any, prescale: float, postscale: float, sparse_as_dense: bool,
                 process_set: ProcessSet):
        self.op = op
        self.compression = compression
        self.prescale = prescale
        self.postscale = postscale
        self.sparse_as_dense = sparse_as_dense
        self.process_set = process_set
        self.codec = codec_of(compression)
        if self.codec == lib.RUEDA_CODEC_NONE:
            self.codec = lib.RUEDA_CODEC_DEFAULT  # so that RUEDA_COMPRESSION applies

    def options(self, process_set: int) -> Options:
        """The options of an all-reduce of gradients. process_set: its number."""
        codec = lib.RUEDA_CODEC_NONE if self.codec is None else self.codec
        return make_options(ALLREDUCE, process_set, self.op, 0, codec, self.prescale, self.postscale)


class Member(_hooks.Hook):
    """One parameter, with the name of its gradient. Autograd calls the object each time that a backward pass has added
    to the gradient; it counts these passes since the last step."""

    __slots__ = ("name", "_request")

    def __init__(self, reducer: "GradientReducer", parameter: torch.Tensor, name: str):
        super().__init__(reducer, parameter)
        self.name = name.encode()
        self._request: Any = None  # a rueda_py_request for the usual all-reduce

    def prepare(self, session: Session, gradient: torch.Tensor, how: Reduction, process_set: int) -> None:
        """Makes the request for plain gradients of this shape and dtype. Raises the library's error if it refuses the
        name."""
        view = 0, tensors.dtype_number(gradient, ALLREDUCE), gradient.dim()
        spot, options = spot_of(gradient), how.options(process_set)
        options = options if spot is None else spot.options(options)
        request = lib.rueda_py_prepare(session.pointer, self.name, options, view, gradient.shape)
        if request == ffi.NULL:
            raise errors.last_error(lib.rueda_last_error_code())
        before = self._request  # hooks use the old request until expect() replaces it
        self._request = ffi.gc(request, lib.rueda_py_forget)
        count = gradient.numel()
        self.expect(session, spot, gradient.dtype, gradient.layout, count, count * gradient.element_size(),
                    int(ffi.cast("uintptr_t", request)))  # fmt: skip
        del before


def _shown(member: Member) -> torch.Tensor:
    """The parameter's gradient, with its own numbers in memory; replaced by a copy if it is lazily conjugated or negated."""
    gradient = member.parameter.grad
    if gradient.is_conj() or gradient.is_neg():
        gradient = member.parameter.grad = tensors.resolved(gradient)
    return gradient


class Group(_hooks.Group):
    """Parameters with gradients that are reduced together once the last of them is ready."""

    def __init__(self, name: str, members: List[Member]):
        self.name = name
        self.members = members
        self.missing = len(members)


class GradientReducer(_hooks.Step):
    """The parameters of one optimizer, and the state of its step.

    A gradient is reduced in place once the last backward pass of the step has added to it. Small gradients are held and
    enqueued together. The hooks in C call _begin, _send, _too_many, _enqueue_unusual and _enqueue_group, and _first at
    the next gradient once `announces` is set.

    Threads: PyTorch runs hooks on one thread per device. One thread at a time uses the rest.
    """

    def __init__(self, named: Sequence[Tuple[str, torch.Tensor]], groups: Sequence[Sequence[torch.Tensor]], how: Reduction,
                 passes_per_step: int):
        self._how = how
        self._set = id_of(how.process_set)
        self.passes_per_step = passes_per_step
        space = self._space = current().next_name_space("optimizer", how.process_set.ranks)
        self._members: Dict[torch.Tensor, Member] = {p: Member(self, p, f"{space}gradient.{name}") for name, p in named}
        self._frozen: List[Tuple[str, torch.Tensor]] = []
        self._groups: List[Group] = []
        for number, parameters in enumerate(groups):
            group = Group(f"{space}group.{number}", [self._members[p] for p in parameters if p in self._members])
            self._groups.append(group)
            for member in group.members:
                member.group = group
        self._sent: List[Tuple[Member, int]] = []  # with the address that is reduced, for gradients in no batch
        self._finish: List[Tuple[Handle, Callable[[Any], None]]] = []
        self._sparse: Dict[Member, History] = {}  # members with a sparse gradient in the last step
        self._stand_ins = DenseStandIns()
        self._without: List[str] = []  # names of members without a gradient in this step
        self._units = sum(member.group is None for member in self._members.values()) + sum(bool(g.members) for g in self._groups)
        # Keeps batches in order: one that does not wake the engine goes before one that does.
        self._sending = threading.RLock()
        self._session: Optional[Session] = current()  # the session in which the step began
        self._first: Callable[[], None] = lambda: None
        self.restart(self._units)
        self._hooks: Dict[torch.Tensor, Tuple[Any, ...]] = {}
        self._superseded = False
        for parameter, member in self._members.items():
            self._attach(parameter, member)

    def _attach(self, parameter: torch.Tensor, member: Member) -> None:
        take_over(parameter, self)
        self._hooks[parameter] = on_gradient(parameter, member)

    def await_unfreezing(self, named: Sequence[Tuple[str, torch.Tensor]]) -> None:
        """Takes parameters that require no gradient now. Once they do, they are reduced from that step on, each by
        itself."""
        self._frozen = list(named)

    def expect_sparse(self) -> None:
        """Makes every gradient sparse again after it was reduced as a dense one, for optimizers that take no others."""
        self._stand_ins.expect(self._members.values())

    def _adopt_unfrozen(self) -> None:
        for name, parameter in [pair for pair in self._frozen if pair[1].requires_grad]:
            member = self._members[parameter] = Member(self, parameter, f"{self._space}gradient.{name}")
            self._attach(parameter, member)
            self._units += 1
            self._frozen = [pair for pair in self._frozen if pair[1] is not parameter]

    def detach(self) -> None:
        """Removes all hooks."""
        for hook in self._hooks.values():
            hook[-1].remove()
        self._hooks.clear()

    def give_up(self, parameter: torch.Tensor) -> None:
        """Removes the hook of a parameter that a later reducer has taken over."""
        hook = self._hooks.pop(parameter, None)
        if hook is not None:
            hook[-1].remove()
        if not self._superseded:
            self._superseded = True
            self.forget()

    @property
    def in_step(self) -> bool:
        """Returns whether a backward pass has added to a gradient since the last step."""
        return any(member.passes > 0 for member in self._members.values())

    @property
    def is_stale(self) -> bool:
        """Returns whether the step began in a session that has ended, and has nothing in flight in a later one."""
        handles = [member.handle for member in self._members.values() if member.handle is not None]
        return not is_current(self._session) and not any(is_current(handle.session) for handle in handles)

    def _too_many(self, member: Member) -> None:
        raise AssertionError(
            f"gradient of {member.name.decode()!r}: more than {self.passes_per_step} backward passes before step() or "
            "synchronize(); set backward_passes_per_step= to their number")

    def _begin(self, session: Session, spot: Optional[Spot], stream: int) -> Optional[HeldGradients]:
        """A batch for gradients of this session that are ready behind the stream; None if the session has ended."""
        return HeldGradients(session, spot, stream) if is_current(session) else None

    def _send(self, held: HeldGradients, more: bool) -> None:
        """Enqueues a batch. If its session has ended, its gradients are left to synchronize()."""
        with self._sending:
            ours, count = is_current(held.session), len(held.hooks)
            done = held.enqueue(more and self.left > 0) if ours else 0
            held.release_hooks(done)
        if not ours:
            current()  # raises if there is no session at all
        elif done < count:
            raise errors.last_error(lib.rueda_last_error_code())

    def _enqueue_unusual(self, member: Member, gradient: torch.Tensor) -> None:
        """Enqueues a gradient that has no request yet, or for which there can be none."""
        how, session = self._how, current()
        if gradient.is_sparse:
            self._enqueue_sparse(member, member.name.decode())
            return
        gradient = _shown(member)
        # A complex gradient may be lazily conjugated the next time, which a request cannot express.
        if how.codec is not None and _is_plain(gradient) and gradient.dim() <= 16 and not gradient.is_complex():
            member.prepare(session, gradient, how, self._set)
            self.enqueue(member)
        elif how.codec is not None:
            member.handle = start_in_place(session, member.name, how.options(self._set), gradient.detach())
            self._sent.append((member, gradient.data_ptr()))
        else:
            compressed, context = how.compression.compress(gradient.detach())
            member.handle = start_in_place(session, member.name, how.options(self._set), compressed)

            def finish(reduced: torch.Tensor) -> None:
                if member.parameter.grad is not None:
                    member.parameter.grad.detach().copy_(how.compression.decompress(reduced, context))

            self._finish.append((member.handle, finish))

    def _enqueue_sparse(self, member: Member, name: str) -> None:
        how = self._how
        if how.sparse_as_dense:
            self._stand_ins.replace(member)
            self.enqueue(member)
            return
        if how.prescale * how.postscale != 1.0:
            raise ValueError(f"{member.name.decode()!r} is sparse and is to be scaled; set sparse_as_dense=True")
        history = self._sparse.setdefault(member, History())
        # zero_() empties it, and before PyTorch 2 also changes its sparse dimensions.
        emptied = history.dimensions > 0 and member.parameter.grad._nnz() == 0
        if emptied and member.parameter.grad.sparse_dim() != history.dimensions:
            member.parameter.grad = empty_like(member.parameter, history.dimensions)
        member.handle = start_sparse(member.parameter.grad, name, how.op, how.process_set, history)

        def finish(reduced: torch.Tensor) -> None:
            member.parameter.grad = reduced

        self._finish.append((member.handle, finish))

    def _enqueue_group(self, group: Group) -> None:
        how = self._how
        group.missing = 0
        if how.codec is None:
            for member in group.members:
                self.enqueue(member)
            return
        if self._any_sparse(group):
            self._enqueue_one_by_one(group)
            return
        gradients = [_shown(member).detach() for member in group.members]
        handle = start_group(group.name, how.options(self._set), gradients, True)
        for member, gradient in zip(group.members, gradients):
            member.handle = handle
            self._sent.append((member, gradient.data_ptr()))

    def _any_sparse(self, group: Group) -> bool:
        """Returns whether a gradient of the group is sparse. Makes them all dense first if sparse_as_dense is set."""
        sparse = [member for member in group.members if member.parameter.grad.is_sparse]
        if self._how.sparse_as_dense:
            for member in sparse:
                self._stand_ins.replace(member)
            return False
        return bool(sparse)

    def _enqueue_one_by_one(self, group: Group) -> None:
        """Enqueues the members of a group with sparse gradients, by the names that a group gives its members. So a rank
        on which all of them are dense gets a mismatch."""
        how, session = self._how, current()
        for number, member in enumerate(group.members):
            name = f"{group.name}.{number}"
            if member.parameter.grad.is_sparse:
                self._enqueue_sparse(member, name)
            else:
                gradient = _shown(member).detach()
                member.handle = start_in_place(session, name.encode(), how.options(self._set), gradient)
                self._sent.append((member, gradient.data_ptr()))

    def synchronize(self) -> None:
        """Enqueues the gradients that are not enqueued yet, and waits for all. Parameters without a gradient get zeros,
        so that ranks agree.

        Raises the first error once nothing is in flight; the gradients are unspecified then. Raises AssertionError if a
        later distributed optimizer has taken over parameters, or if a gradient was set to None or replaced while it was
        reduced.
        """
        if self._superseded:
            raise AssertionError("a later distributed optimizer has taken over parameters of this one; use the later one")
        if self.alone:
            return
        lost = self._enqueue_rest()
        handles = {id(m.handle): m.handle for m in self._members.values() if m.handle is not None}.values()
        first = self._wait(handles)
        lost += [member.name.decode() for member in self._replaced(handles)]
        if first is None and not lost:
            self._stand_ins.restore()
        without = list(self._without)
        self.forget()
        if lost:
            first = AssertionError(
                f"gradients that were being reduced were set to None or replaced between backward and step(): {lost}. Call "
                "optimizer.zero_grad() after step(); change gradients between synchronize() and a step() within "
                "skip_synchronize()")  # fmt: skip
        if isinstance(first, errors.MismatchError) and (self._sparse or without):
            sparse = [member.name.decode() for member in self._sparse]
            first.add_note(f"Gradients that are sparse on this rank: {sparse}; missing on this rank: {without}. The first gradient of "
                           "a parameter must be sparse on all ranks or on none; sparse_as_dense=True makes all of them dense.")  # fmt: skip
        if first is not None:
            for history in self._sparse.values():  # other ranks may have lost theirs, and all must agree
                history.forget()
            try:
                raise first
            finally:
                del first  # as in _wait()

    def _wait(self, handles: Iterable[Any]) -> Optional[Exception]:
        """Waits for all handles, and stores the gradients that are not reduced in place. Returns the first error."""
        first: Optional[Exception] = None
        for handle in handles:
            try:
                handle.wait()
            except Exception as error:  # KeyboardInterrupt is not caught: it leaves at once
                first = first or error
        finishing, self._finish = self._finish, []
        for handle, finish in finishing:
            try:
                finish(handle.wait())
            except Exception as error:
                first = first or error
        try:
            return first
        finally:
            del first  # else this frame and the traceback hold each other

    def _replaced(self, handles: Iterable[Any]) -> List[Member]:
        """The members with a gradient in other memory than the one that was reduced."""
        replaced = [member for member, address in self._sent if is_elsewhere(member.parameter.grad, address)]
        for handle in handles:
            if isinstance(handle, HeldGradients):
                replaced += handle.replaced()
        return replaced

    def _enqueue_rest(self) -> List[str]:
        """Enqueues what is not enqueued yet. Returns the names of gradients that were set to None meanwhile."""
        lost = []
        self._adopt_unfrozen()
        self.send_held()
        for member in [m for m in self._sparse if m.parameter.grad is not None and not m.parameter.grad.is_sparse]:
            del self._sparse[member]
        for member in self._members.values():
            if member.parameter.grad is None:
                if member.handle is not None or member.passes >= self.passes_per_step:
                    lost.append(member.name.decode())
                if member.handle is None:
                    self._make_zero(member)
            if member.handle is None and member.group is None:
                self.enqueue(member)
        for group in self._groups:
            missing = [member for member in group.members if member.handle is None]
            if len(missing) == len(group.members) > 0:
                self._enqueue_group(group)
            else:  # an error came after a part of the group was enqueued
                for member in missing:
                    self.enqueue(member)
        self.send_held()
        return lost

    def _make_zero(self, member: Member) -> None:
        self._without.append(member.name.decode())
        self._stand_ins.stand_for_missing(member)
        history = self._sparse.get(member)
        parameter = member.parameter
        parameter.grad = torch.zeros_like(parameter) if history is None else empty_like(parameter, history.dimensions)

    def cleared(self) -> None:
        """Called after the optimizer has zeroed its gradients or set them to None. BufferedReducer restores its views.
        """

    def forget(self) -> None:
        """Begins a new step, and drops what is left of the last one. Operations in flight go on."""
        for member in self._members.values():
            member.passes, member.handle = 0, None
        for kept in (self._sent, self._finish, self._without):
            kept.clear()
        for group in self._groups:
            group.missing = len(group.members)
        self._stand_ins.forget()
        self._session = current_or_none()
        self.restart(self._units)
