"""Process groups of torch.distributed. Each group is a process set that its members make.

Programs call these methods through `torch.distributed`; DistributedDataParallel and functional collectives call them
from C++.
"""

import contextlib
from datetime import timedelta
from typing import Any, List, Optional

import torch

from rueda import errors, operations, session
from rueda._native import lib
from rueda.handles import Handle, enqueue
from rueda.operations import ALLREDUCE, BROADCAST, RECV, REDUCE, SEND, encode_name
from rueda.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from rueda.torch import graphs, placed
from rueda.torch.asynchronous import start_group, start_in_place
from rueda.torch.distributed import averages, bucket_memory, built_in_hooks, callbacks, devices, forward_works, monitored_barrier, older
from rueda.torch.distributed import group_arguments as arguments
from rueda.torch.distributed.group_rows import RowsGroup
from rueda.torch.distributed.meeting import StoreOfRankZero, join_job
from rueda.torch.distributed.other_backends import Others, SharingGroup
from rueda.torch.distributed.work import RuedaWork
from rueda.torch.messages import start_message
from rueda.torch.sparse import History, start_sparse
from rueda.torch.tensors import dtype_number


def create(options: Any) -> "RuedaGroup":
    """Makes the group that torch.distributed asks for; called on its members only. options: PyTorch's backend options.

    Raises ValueError if the program asks for another backend in the group that Rueda cannot make, or if its ranks are not
    in ascending order. Raises what rueda.torch.init() raises if the process cannot become a rank of the job.
    """
    others = Others()
    for part in (monitored_barrier, callbacks, forward_works, averages, built_in_hooks, older):
        part.install()
    ranks = list(options.global_ranks_in_group)
    if ranks != sorted(ranks):
        raise ValueError(f"new_group({ranks}, sort_ranks=False): give the ranks of a Rueda group in ascending order")
    kind = SharedGroup if others.theirs else RuedaGroup
    if ranks:
        group = kind(options, ranks, options.group_id)
    else:
        began = join_job(options)
        group = kind(options, list(range(options.group_size)), "all", began, StoreOfRankZero(options))
    if isinstance(group, SharedGroup):
        try:
            group.beside(others, options)
        except BaseException:
            group.abort()
            raise
    return group


class RuedaGroup(RowsGroup):
    """A process group. Ranks in arguments are those of the group.

    Arguments: methods take the same forms as PyTorch's C++ overloads, which they hide: lists of tensors with an options
    object, or one tensor (or list) with an operator, a root and a timeout. The timeout of a call replaces the group's
    for that operation.
    Loans: tensors are contiguous, and lent to the operation until its work has finished.
    Errors: every method returns a work, and the work's wait() raises what went wrong.
    Threads: any thread may call. Ranks must begin operations of one group in the same order, except in callbacks of
    futures.
    """

    def __init__(self, options: Any, ranks: List[int], identity: str, owns_session: bool = False,
                 meeting: Optional[StoreOfRankZero] = None):
        """options: PyTorch's, with the rank, the size, the store and the timeout. ranks: of the job. identity: tells
        the group from others, the same on all members. owns_session: the group began the job, and ends it. meeting: of
        the default group."""
        super().__init__(options, ranks, identity)
        self._identity = identity
        self._owns_session = owns_session
        self._meeting = meeting
        self._barriers = 0
        try:
            self._set = add_process_set(ProcessSet(ranks), f"torch.distributed.{identity}")
        except errors.ShutDownError:  # a rank has destroyed the group already; this group's operations will say so
            self._set = global_process_set
        session.current().grouped |= owns_session

    def shutdown(self) -> None:
        """Leaves the group. If the default group began the job, this ends it, unless the program has called init()
        since."""
        with contextlib.nullcontext() if self._meeting is None else self._meeting.outlived():
            self.abort()

    def abort(self) -> None:
        """Leaves the group without waiting for other ranks."""
        self._store = None
        self._completer.stop()
        if not (self._owns_session and session.end_for_group()):
            # Another rank was first, or operations are in flight.
            with contextlib.suppress(errors.CollectiveError, ValueError):
                remove_process_set(self._set)
        self._completer.settle()

    def allreduce(self, tensors: Any = None, opts: Any = None, timeout: Any = None, *, tensor: Any = None,
                  op: Any = None) -> RuedaWork:  # fmt: skip
        """Reduces each tensor over all ranks, in place. Several tensors are reduced as one group; a sparse one alone.
        """
        results, wanted = arguments.as_list(arguments.given(tensors, tensor)), arguments.given(opts, op)

        def start(name: Optional[str]) -> Handle:
            op = arguments.operator(wanted)
            for tensor in results:
                devices.require_numbers("all_reduce", tensor)
            if len(results) == 1 and results[0].is_sparse:
                return self._sparse(name, results[0], op)
            if len(results) == 1:
                bucket_memory.place(results[0])
                return start_in_place(session.current(), encode_name(name), self._options(ALLREDUCE, op), results[0])
            return start_group(name, self._options(ALLREDUCE, op), results, True)

        return self._work(start, results, given=(opts, timeout))

    allreduce_coalesced = allreduce

    def _sparse(self, name: Optional[str], tensor: torch.Tensor, op: int) -> Handle:
        def finish(_: Handle, reduced: torch.Tensor) -> None:
            with torch.no_grad():
                tensor.copy_(reduced)

        handle = start_sparse(tensor, name, op, self._set, History())
        handle.also(finish)
        return handle

    def broadcast(self, tensors: Any = None, opts: Any = None, timeout: Any = None, *, tensor: Any = None,
                  root: Any = None) -> RuedaWork:  # fmt: skip
        """Overwrites the tensor of every rank with the root's, of one shape and dtype."""
        results, root = arguments.as_list(arguments.given(tensors, tensor)), arguments.root_of(arguments.given(opts, root))

        def start(name: Optional[str]) -> Handle:
            devices.require_numbers("broadcast", results[0])
            options = self._options(BROADCAST, root=root)
            return start_in_place(session.current(), encode_name(name), options, results[0])

        return self._work(start, results, given=(opts, timeout))

    def reduce(self, tensors: Any = None, opts: Any = None, op: Any = None, timeout: Any = None, *, tensor: Any = None,
               root: Any = None) -> RuedaWork:  # fmt: skip
        """Reduces the tensors of all ranks into the root's. The others keep theirs."""
        results, root = arguments.as_list(arguments.given(tensors, tensor)), arguments.root_of(arguments.given(opts, root))
        wanted = opts if hasattr(opts, "reduceOp") else op

        def start(name: Optional[str]) -> Handle:
            here, reached = session.current(), devices.Reached("reduce")
            flat = reached.to_change(arguments.flat(results[0]))
            options = self._options(REDUCE, arguments.operator(wanted), root)
            view, place = (flat.data_ptr(), dtype_number(flat), 1), placed.place_of(flat)
            call = here.pointer, encode_name(name), placed.options_at(place, options), view, flat.shape, flat.data_ptr()
            return reached.filled_by(enqueue(placed.handles_at(place), here, lib.rueda_py_start, call, flat))

        return self._work(start, results, given=(opts, timeout))

    def barrier(self, opts: Any = None, *, timeout: Any = None) -> RuedaWork:
        """Ends once all ranks of the group have begun it, and what is in their devices' current streams has ended."""
        placed.drain()
        return self._work(self._barrier, [], given=(opts, timeout))

    def monitored_barrier(self, timeout: timedelta, wait_all_ranks: bool = False) -> None:
        """Waits for all ranks of the group, see monitored_barrier.wait_for_all(). The error names all missing ranks,
        whether or not `wait_all_ranks` is set."""
        self._barriers += 1
        name = f"torch.distributed.{self._identity}.barrier.{self._barriers}"
        monitored_barrier.wait_for_all(name, self._set, timeout.total_seconds())

    def _message(self, kind: int, values: Any, peer: Optional[int], tag: int) -> RuedaWork:
        """The work of a send or a receive. peer: a rank of the group; None receives from any of its ranks.

        A name belongs to two ranks and a direction, so it holds the group and the tag. Messages of one name keep their
        order.
        """
        tensor, senders = arguments.as_list(values)[0], [] if peer is None else [peer]

        def start(_: Optional[str]) -> Handle:
            reached = devices.Reached("send" if kind == SEND else "recv")
            memory = (reached.to_read if kind == SEND else reached.to_change)(arguments.flat(tensor))
            name = f"torch.distributed.{self._identity}.{tag}".encode()
            options = self._options(kind, rank=lib.RUEDA_ANY_SOURCE if peer is None else self._job_rank(peer))
            handle = reached.filled_by(start_message(session.current(), name, options, memory))
            if peer is None:
                handle.also(lambda received, _: senders.append(self._ranks.index(operations.source_of(received))))
            return handle

        return self._noted(RuedaWork(self._completer, callbacks.message, start, [tensor], limit=self._limit, senders=senders))

    def send(self, tensors: Any, dstRank: int, tag: int = 0) -> RuedaWork:  # noqa: N803
        """Sends a tensor to another rank of the group, which receives it with the same tag."""
        return self._message(SEND, tensors, dstRank, tag)

    def recv(self, tensors: Any, srcRank: int, tag: int = 0) -> RuedaWork:  # noqa: N803
        """Receives from another rank of the group into a tensor of the sender's shape and dtype."""
        return self._message(RECV, tensors, srcRank, tag)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> RuedaWork:
        """Receives what any other rank of the group sends with the tag. The work's source_rank() says which rank it
        was."""
        return self._message(RECV, tensors, None, tag)


class SharedGroup(SharingGroup, RuedaGroup):
    """A group that serves tensors on some devices, and hands those on others on to other backends."""


graphs.leave_alone(RuedaGroup)
