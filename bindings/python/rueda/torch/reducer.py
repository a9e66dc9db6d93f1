"""Reduces gradients while the backward pass runs."""

import threading
import weakref
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

import torch

from rueda import _hooks, errors
from rueda._native import ffi, lib
from rueda.handles import Handle
from rueda.operations import ALLREDUCE, Options
from rueda.process_sets import ProcessSet, id_of
from rueda.session import Session, current, current_or_none, is_current
from rueda.torch import tensors
from rueda.torch.asynchronous import start_group, start_in_place
from rueda.torch.compression import codec_of
from rueda.torch.held import HeldGradients, is_elsewhere
from rueda.torch.sparse import History, empty_like, start_sparse

_strided = torch.strided


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether it lies contiguously in the host's memory."""
    return tensor.layout is _strided and tensor.is_cpu and tensor.is_contiguous()


class Reduction:
    """How gradients are reduced. compression: one of ours, or a class with compress() and decompress()."""

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
            self.codec = lib.RUEDA_CODEC_DEFAULT  # RUEDA_COMPRESSION may say otherwise

    def options(self, process_set: int) -> Options:
        """The options of an all-reduce of gradients. process_set: its number."""
        codec = lib.RUEDA_CODEC_NONE if self.codec is None else self.codec
        return Options(ALLREDUCE, process_set, self.op, 0, codec, self.prescale, self.postscale)


class Member(_hooks.Hook):
    """One parameter: its gradient's name, and how many backward passes have added to it since the last step. Autograd calls it
    when one has."""

    __slots__ = ("name", "_request")

    def __init__(self, reducer: "GradientReducer", parameter: torch.Tensor, name: str):
        super().__init__(reducer, parameter)
        self.name = name.encode()
        self._request: Any = None  # its usual all-reduce

    def prepare(self, session: Session, gradient: torch.Tensor, how: Reduction, process_set: int) -> None:
        """Makes the request for gradients like this one, which is plain."""
        view = 0, tensors.dtype_number(gradient, ALLREDUCE), gradient.dim()
        request = lib.rueda_py_prepare(session.pointer, self.name, how.options(process_set), view, gradient.shape)
        if request == ffi.NULL:
            raise errors.last_error(lib.rueda_last_error_code())
        before = self._request  # until expect() it is the one
        self._request = ffi.gc(request, lib.rueda_py_forget)
        count = gradient.numel()
        self.expect(session, gradient.dtype, gradient.layout, count, count * gradient.element_size(),
                    int(ffi.cast("uintptr_t", request)))  # fmt: skip
        del before


def _shown(member: Member) -> torch.Tensor:
    """The parameter's gradient, with the numbers in its memory that it shows."""
    gradient = member.parameter.grad
    if gradient.is_conj() or gradient.is_neg():
        gradient = member.parameter.grad = tensors.resolved(gradient)
    return gradient


class Group(_hooks.Group):
    """Parameters whose gradients are reduced together, when the last of them is ready."""

    def __init__(self, name: str, members: List[Member]):
        self.name = name
        self.members = members
        self.missing = len(members)


class GradientReducer(_hooks.Step):
    """The parameters of one optimizer. Their hooks have each gradient reduced, in place, once the last backward pass of a
    step has added to it; small ones are held and enqueued together. Hooks run where PyTorch runs them, on several threads
    for parameters on several devices; the rest is used by one thread at a time.

    The hooks call _begin, _send, _too_many, _enqueue_unusual and _enqueue_group.
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
        self._sent: List[Tuple[Member, int]] = []  # and where its gradient is reduced in place, where no batch says it
        self._finish: List[Tuple[Handle, Callable[[Any], None]]] = []
        self._sparse: Dict[Member, History] = {}  # whose last gradient was sparse
        self._without: List[str] = []  # who got no gradient in this step
        self._units = sum(member.group is None for member in self._members.values()) + sum(bool(g.members) for g in self._groups)
        self._sending = threading.RLock()  # so that what wakes others is enqueued behind what does not
        self._session: Optional[Session] = current()  # in which the step began
        self.restart(self._units)
        self._hooks: Dict[torch.Tensor, Tuple[Any, ...]] = {}
        self._superseded = False
        for parameter, member in self._members.items():
            self._attach(parameter, member)

    def _attach(self, parameter: torch.Tensor, member: Member) -> None:
        _take_over(parameter, self)
        self._hooks[parameter] = _on_gradient(parameter, member)

    def await_unfreezing(self, named: Sequence[Tuple[str, torch.Tensor]]) -> None:
        """Parameters that want no gradient now. From the step on in which they do, they are reduced, each by itself."""
        self._frozen = list(named)

    def _adopt_unfrozen(self) -> None:
        for name, parameter in [pair for pair in self._frozen if pair[1].requires_grad]:
            member = self._members[parameter] = Member(self, parameter, f"{self._space}gradient.{name}")
            self._attach(parameter, member)
            self._units += 1
            self._frozen = [pair for pair in self._frozen if pair[1] is not parameter]

    def detach(self) -> None:
        """Takes the hooks off."""
        for hook in self._hooks.values():
            hook[-1].remove()
        self._hooks.clear()

    def give_up(self, parameter: torch.Tensor) -> None:
        """A later reducer has the parameter now."""
        hook = self._hooks.pop(parameter, None)
        if hook is not None:
            hook[-1].remove()
        if not self._superseded:
            self._superseded = True
            self.forget()

    @property
    def in_step(self) -> bool:
        """Whether a gradient was added to since the last step."""
        return any(member.passes > 0 for member in self._members.values())

    @property
    def is_stale(self) -> bool:
        """Whether the step began in a session that is over, and nothing of it is in flight in another."""
        handles = [member.handle for member in self._members.values() if member.handle is not None]
        return not is_current(self._session) and not any(is_current(handle.session) for handle in handles)

    def _too_many(self, member: Member) -> None:
        raise AssertionError(
            f"gradient of {member.name.decode()!r}: more than {self.passes_per_step} backward passes before step() or "
            "synchronize(); backward_passes_per_step= says how many there are")

    def _begin(self, session: Session) -> Optional[HeldGradients]:
        """Where gradients of this session are held; None: it is over."""
        return HeldGradients(session) if is_current(session) else None

    def _send(self, held: HeldGradients, more: bool) -> None:
        """Enqueues them. What was held for a session that is over is left to synchronize()."""
        with self._sending:
            ours, count = is_current(held.session), len(held.hooks)
            done = held.enqueue(more and self.left > 0) if ours else 0
            held.release_hooks(done)
        if not ours:
            current()  # raises where there is no session at all
        elif done < count:
            raise errors.last_error(lib.rueda_last_error_code())

    def _enqueue_unusual(self, member: Member, gradient: torch.Tensor) -> None:
        """Whatever has no request yet, or cannot have one."""
        how, session = self._how, current()
        if gradient.is_sparse:
            self._enqueue_sparse(member, member.name.decode())
            return
        gradient = _shown(member)
        # A complex one may be conjugated lazily the next time, which a request says nothing of.
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
            member.parameter.grad = member.parameter.grad.to_dense()
            self.enqueue(member)
            return
        if how.prescale * how.postscale != 1.0:
            raise ValueError(f"{member.name.decode()!r} is sparse: sparse_as_dense=True is needed to scale it")
        history = self._sparse.setdefault(member, History())
        emptied = history.dimensions > 0 and member.parameter.grad._nnz() == 0  # before PyTorch 2, zero_() changes more than that
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
        """Whether there is a sparse gradient, once those that are to be dense are."""
        sparse = [member for member in group.members if member.parameter.grad.is_sparse]
        if self._how.sparse_as_dense:
            for member in sparse:
                member.parameter.grad = member.parameter.grad.to_dense()
            return False
        return bool(sparse)

    def _enqueue_one_by_one(self, group: Group) -> None:
        """By the names that members of a group have: a rank whose gradients are all dense finds that others' are not."""
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
        """Enqueues what is not yet, parameters without a gradient as zeros so that ranks agree, and waits for all. Raises
        the first error once nothing is in flight; the gradients are then unspecified. AssertionError: another distributed
        optimizer was made for some of the parameters since, or a gradient was taken away or replaced while it was reduced."""
        if self._superseded:
            raise AssertionError("another distributed optimizer has parameters of this one since it was made: use that one")
        lost = self._enqueue_rest()
        handles = {id(m.handle): m.handle for m in self._members.values() if m.handle is not None}.values()
        first = self._wait(handles)
        lost += [member.name.decode() for member in self._replaced(handles)]
        without = list(self._without)
        self.forget()
        if lost:
            first = AssertionError(
                f"gradients that were being reduced were set to None or replaced between backward and step(): {lost}. Call "
                "optimizer.zero_grad() after step(); what changes gradients goes between synchronize() and a step() within "
                "skip_synchronize()")  # fmt: skip
        if isinstance(first, errors.MismatchError) and (self._sparse or without):
            sparse = [member.name.decode() for member in self._sparse]
            first.add_note(f"Gradients that are sparse on this rank: {sparse}; none here: {without}. The first of a parameter is to "
                           "be sparse on all ranks or on none; with sparse_as_dense=True all are dense.")  # fmt: skip
        if first is not None:
            for history in self._sparse.values():  # other ranks may have forgotten theirs
                history.forget()
            try:
                raise first
            finally:
                del first  # as in _wait()

    def _wait(self, handles: Iterable[Any]) -> Optional[Exception]:
        """Waits for all, and puts gradients where they belong. The first error."""
        first: Optional[Exception] = None
        for handle in handles:
            try:
                handle.wait()
            except Exception as error:  # what a signal's handler raises leaves at once
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
        """Whose gradients are not in the memory that was reduced."""
        replaced = [member for member, address in self._sent if is_elsewhere(member.parameter.grad, address)]
        for handle in handles:
            if isinstance(handle, HeldGradients):
                replaced += handle.replaced()
        return replaced

    def _enqueue_rest(self) -> List[str]:
        """The names of gradients that are not there any more."""
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
            else:  # one that was enqueued in part, before something failed
                for member in missing:
                    self.enqueue(member)
        self.send_held()
        return lost

    def _make_zero(self, member: Member) -> None:
        self._without.append(member.name.decode())
        history = self._sparse.get(member)
        parameter = member.parameter
        parameter.grad = torch.zeros_like(parameter) if history is None else empty_like(parameter, history.dimensions)

    def cleared(self) -> None:
        """The optimizer has zeroed its gradients, or set them to None."""

    def forget(self) -> None:
        """A new step begins: no passes yet."""
        for member in self._members.values():
            member.passes, member.handle = 0, None
        for kept in (self._sent, self._finish, self._without):
            kept.clear()
        for group in self._groups:
            group.missing = len(group.members)
        self._session = current_or_none()
        self.restart(self._units)


_owners: Dict[int, Tuple[Any, Any]] = {}  # by a parameter's id: it and its reducer, weakly


def _take_over(parameter: torch.Tensor, reducer: GradientReducer) -> None:
    """Notes that the reducer has the parameter, and takes the hook of the one before off."""
    key = id(parameter)
    known, before = _owners.get(key, (None, None))
    if known is not None and known() is parameter and before() is not None:
        before().give_up(parameter)
    _owners[key] = (weakref.ref(parameter, lambda _: _owners.pop(key, None)), weakref.ref(reducer))


def _on_gradient(parameter: torch.Tensor, ready: Callable[..., None]) -> Tuple[Any, ...]:
    """Calls `ready`, which looks at no argument, each time autograd has added to the parameter's gradient. The last of the
    result removes the hook; the rest is to be kept as long as it is wanted."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):
        return (parameter.register_post_accumulate_grad_hook(ready),)
    accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    return (accumulator, accumulator.register_hook(lambda *_: ready()))
