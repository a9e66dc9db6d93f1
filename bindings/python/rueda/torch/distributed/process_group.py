"""torch.distributed's process groups over Rueda: each is a process set that its members make.

`dist.*` calls these methods from Python, DistributedDataParallel and functional collectives from C++. All return works;
what goes wrong travels in them.
"""

import contextlib
import threading
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch

from rueda import errors, operations, session
from rueda._native import ffi, lib
from rueda.handles import Handle
from rueda.operations import (
    ALLGATHER, ALLREDUCE, ALLTOALL, BROADCAST, GATHER, RECV, REDUCE, REDUCESCATTER, SCATTER, SEND, encode_name,
)  # fmt: skip
from rueda.outputs import received_splits
from rueda.process_sets import ProcessSet, add_process_set, global_process_set, id_of, remove_process_set
from rueda.torch import graphs
from rueda.torch.asynchronous import barrier_async, start_group, start_in_place
from rueda.torch.distributed import callbacks, devices, forward_works, monitored_barrier, older
from rueda.torch.distributed import group_arguments as arguments
from rueda.torch.distributed.group_identity import NamedGroup
from rueda.torch.distributed.meeting import StoreOfRankZero, join_job, require_alone
from rueda.torch.distributed.work import Completer, RuedaWork
from rueda.torch.messages import start_message
from rueda.torch.sparse import History, start_sparse
from rueda.torch.tensors import dtype_number

_ROWS = {ALLGATHER: "all_gather", REDUCESCATTER: "reduce_scatter", ALLTOALL: "all_to_all", GATHER: "gather", SCATTER: "scatter"}


def create(options: Any) -> "RuedaGroup":
    """The group that torch.distributed asks for; called on its members only."""
    require_alone()
    for part in (monitored_barrier, callbacks, forward_works, older):
        part.install()
    ranks = list(options.global_ranks_in_group)
    if ranks != sorted(ranks):
        raise ValueError(f"new_group({ranks}, sort_ranks=False): the ranks of a group of Rueda's stand in ascending order")
    if ranks:
        return RuedaGroup(options, ranks, options.group_id)
    began = join_job(options)
    return RuedaGroup(options, list(range(options.group_size)), "all", began, StoreOfRankZero(options))


class RuedaGroup(NamedGroup):
    """A process group of Rueda's. Ranks in arguments are the group's own; `ranks` are those of the job.

    Tensors are contiguous, as torch.distributed has it, and lent until the work has finished. Methods take what their overloads
    in C++ do, which they hide: lists of tensors with options, or one tensor (or list) with an operator, a root and a timeout,
    which is the operation's own, in place of the group's.
    """

    def __init__(self, options: Any, ranks: List[int], identity: str, owns_session: bool = False,
                 meeting: Optional[StoreOfRankZero] = None):
        """options: PyTorch's, with the rank, the size, the store and the timeout."""
        super().__init__(options)
        self._ranks, self._identity = ranks, identity
        self.set_timeout(options.timeout)
        self._owns_session = owns_session
        self._meeting = meeting
        self._completer = Completer()
        self._begin = callbacks.Names(identity).begin
        self._coalesced: Dict[int, List[RuedaWork]] = {}  # by thread, since its _start_coalescing()
        try:
            self._set = add_process_set(ProcessSet(ranks), f"torch.distributed.{identity}")
        except errors.ShutDownError:  # a rank has destroyed the group already; operations say so
            self._set = global_process_set
        session.current().grouped |= owns_session
        self._barriers = 0

    def _start_coalescing(self, device: Any = None) -> None:
        """Operations between this and _end_coalescing() are enqueued one by one: the library fuses what piles up."""
        self._coalesced[threading.get_ident()] = []

    def _end_coalescing(self, device: Any = None) -> RuedaWork:
        return self._joined(self._coalesced.pop(threading.get_ident(), []), [])

    def set_timeout(self, timeout: timedelta) -> None:
        """Limits operations that begin from here on: what not all ranks have begun by then fails on all, and what runs for longer
        ends the job. RUEDA_TIMEOUT_SECONDS, where it is set to less, limits them instead."""
        self._limit = arguments.allowed(timeout)

    _set_default_timeout = set_timeout

    def shutdown(self) -> None:
        """Leaves the group; the default group ends the job, if it began it and nobody has called init() since."""
        with contextlib.nullcontext() if self._meeting is None else self._meeting.outlived():
            self.abort()

    def abort(self) -> None:
        """The same, and waits for nobody."""
        self._store = None
        self._completer.stop()
        if not (self._owns_session and session.end_for_group()):
            with contextlib.suppress(errors.CollectiveError, ValueError):  # another rank was first, or was not waited for
                remove_process_set(self._set)
        self._completer.settle()

    # ---- Operations ----------------------------------------------------------------------------------------------

    def _work(self, start: Callable[[Optional[str]], Handle], results: List[torch.Tensor],
              finish: Optional[Callable[[], None]] = None, given: Sequence[Any] = ()) -> RuedaWork:
        """The work of an operation that `start` enqueues under a name. given: what may say its timeout."""
        limit = arguments.seconds_of(*given, otherwise=self._limit)
        self._begun += 1
        return self._noted(RuedaWork(self._completer, self._begin, start, results, finish, limit=limit))

    def _noted(self, work: RuedaWork) -> RuedaWork:
        if self._coalesced:
            self._coalesced.get(threading.get_ident(), []).append(work)
        return work

    def _job_rank(self, rank: int) -> int:
        """The number in the job of the group's rank. ValueError: it has none of this number."""
        if not 0 <= rank < self._own_size:
            raise ValueError(f"rank {rank} is none of the group's: it has {self._own_size}, 0 to {self._own_size - 1}")
        return self._ranks[rank]

    def _options(self, kind: int, op: int = 0, root: Optional[int] = None) -> operations.Options:
        """root: a rank of the group."""
        return operations.Options(kind, id_of(self._set), op, 0 if root is None else self._job_rank(root))

    def _rows(self, name: Optional[str], options: operations.Options, source: torch.Tensor, output: torch.Tensor,
              splits: Optional[Sequence[int]] = None) -> Handle:
        """Enqueues an operation of rows from one contiguous tensor into another."""
        here = session.current()
        if output.dtype != source.dtype:
            raise ValueError(f"the output's dtype is {output.dtype}, the input's {source.dtype}")
        if output.dim() != source.dim():
            raise ValueError(f"the output's shape {list(output.shape)} has other dimensions than the input's {list(source.shape)}")
        if splits is not None and len(splits) != self._own_size:
            raise ValueError(f"{len(splits)} input splits, the group has {self._own_size} ranks")
        places = devices.Places(_ROWS[options.kind])
        source, output = places.to_read(source), places.to_fill(output, source)
        if arguments.overlap(source, output):  # FSDP gathers from a part of what it gathers into
            source = source.clone()
        view = source.data_ptr(), dtype_number(source), source.dim()
        number = lib.rueda_py_start_rows(here.pointer, encode_name(name), options, view, source.shape, output.data_ptr(),
                                         output.shape, splits or ffi.NULL)  # fmt: skip
        return places.filled_by(Handle(here, number, (source, output)))

    def allreduce(self, tensors: Any = None, opts: Any = None, timeout: Any = None, *, tensor: Any = None,
                  op: Any = None) -> RuedaWork:  # fmt: skip
        results, wanted = arguments.as_list(arguments.given(tensors, tensor)), arguments.given(opts, op)

        def start(name: Optional[str]) -> Handle:
            op = arguments.operator(wanted)
            for tensor in results:
                devices.require_numbers("all_reduce", tensor)
            if len(results) == 1 and results[0].is_sparse:
                return self._sparse(name, results[0], op)
            if len(results) == 1:
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
        results, root = arguments.as_list(arguments.given(tensors, tensor)), arguments.root_of(arguments.given(opts, root))

        def start(name: Optional[str]) -> Handle:
            devices.require_numbers("broadcast", results[0])
            options = self._options(BROADCAST, root=root)
            return start_in_place(session.current(), encode_name(name), options, results[0])

        return self._work(start, results, given=(opts, timeout))

    def reduce(self, tensors: Any = None, opts: Any = None, op: Any = None, timeout: Any = None, *, tensor: Any = None,
               root: Any = None) -> RuedaWork:  # fmt: skip
        results, root = arguments.as_list(arguments.given(tensors, tensor)), arguments.root_of(arguments.given(opts, root))
        wanted = opts if hasattr(opts, "reduceOp") else op

        def start(name: Optional[str]) -> Handle:
            here, places = session.current(), devices.Places("reduce")
            flat = places.to_change(arguments.flat(results[0]))
            options = self._options(REDUCE, arguments.operator(wanted), root)
            view = flat.data_ptr(), dtype_number(flat), 1
            number = lib.rueda_py_start(here.pointer, encode_name(name), options, view, flat.shape, flat.data_ptr())
            return places.filled_by(Handle(here, number, flat))

        return self._work(start, results, given=(opts, timeout))

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> RuedaWork:
        return self._work(lambda name: self._rows(name, self._options(ALLGATHER), arguments.read(input), arguments.flat(output)), [output],
                          given=(opts,))  # fmt: skip

    _allgather_base = all_gather_single

    def allgather(self, output_tensors: Any, input_tensors: Any = None, opts: Any = None, *, input_tensor: Any = None,
                  timeout: Any = None) -> RuedaWork:  # fmt: skip
        source, parts = arguments.as_list(arguments.given(input_tensors, input_tensor))[0], arguments.lists(output_tensors)
        flat = torch.empty(source.numel() * self._own_size, dtype=source.dtype)
        return self._work(lambda name: self._rows(name, self._options(ALLGATHER), arguments.read(source), flat), [parts],
                          lambda: self._fill("all_gather", parts, source, flat), (opts, timeout))  # fmt: skip

    def _fill(self, what: str, parts: List[torch.Tensor], source: torch.Tensor, flat: torch.Tensor) -> None:
        """Copies what came into the caller's tensors. ValueError, for this rank alone: they are not as many as ranks, and each like
        the input."""
        wrong = [number for number, part in enumerate(parts) if part.shape != source.shape]
        if len(parts) != self._own_size or wrong:
            said = f"output {wrong[0]} has shape {list(parts[wrong[0]].shape)}" if wrong else f"there are {len(parts)} outputs"
            raise ValueError(f"{what}: rank {self._own_rank} of the group: {said}; {self._own_size} of shape {list(source.shape)}, "
                             "as the input's, are needed")  # fmt: skip
        arguments.copy_parts(parts, flat)

    def allgather_coalesced(self, output_lists: Any, input_list: Any, opts: Any = None) -> RuedaWork:
        works = [self.allgather([parts], [source], opts) for parts, source in zip(zip(*output_lists), input_list)]
        return self._joined(works, output_lists, opts)

    def all_gather_single_coalesced(self, output_lists: Any, input_list: Any, opts: Any = None) -> RuedaWork:
        return self._joined([self.all_gather_single(*pair, opts) for pair in zip(output_lists, input_list)], output_lists, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def _joined(self, works: List[RuedaWork], results: Any, opts: Any = None) -> RuedaWork:
        """One work for several, of which the last is enqueued last and finishes with a wait for all."""
        return self._work(self._barrier, list(results), given=(opts,)).behind(works)

    def _barrier(self, name: Optional[str]) -> Handle:
        """Ends once all have begun it. One without a name also ends behind what all began before."""
        if name is None:
            return barrier_async(self._set)
        return start_in_place(session.current(), encode_name(name), self._options(ALLREDUCE, operations.Sum), torch.zeros(1))

    def reduce_scatter_single(self, outputTensor: torch.Tensor, inputTensor: torch.Tensor,  # noqa: N803
                              opts: Any = None) -> RuedaWork:  # fmt: skip
        def start(name: Optional[str]) -> Handle:
            source, output = arguments.read(inputTensor), arguments.flat(outputTensor)
            self._require_share("reduce_scatter", source, output)
            return self._rows(name, self._options(REDUCESCATTER, arguments.operator(opts)), source, output)

        return self._work(start, [outputTensor], given=(opts,))

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter(self, output_tensors: Any, input_tensors: Any = None, opts: Any = None, timeout: Any = None, *,
                       input_tensor: Any = None, op: Any = None) -> RuedaWork:  # fmt: skip
        output, wanted = arguments.as_list(output_tensors)[0], arguments.given(opts, op)
        whole = arguments.joined(arguments.lists(arguments.given(input_tensors, input_tensor)))

        def start(name: Optional[str]) -> Handle:
            self._require_share("reduce_scatter", whole, arguments.flat(output))
            return self._rows(name, self._options(REDUCESCATTER, arguments.operator(wanted)), whole, arguments.flat(output))

        return self._work(start, [output], given=(opts, timeout))

    def _require_share(self, what: str, whole: torch.Tensor, share: torch.Tensor) -> None:
        """ValueError: the whole is not as much for each rank of the group."""
        if whole.numel() != self._own_size * share.numel():
            raise ValueError(f"{what}: rank {self._own_rank} of the group: {whole.numel()} elements are to be shared out to "
                             f"{self._own_size} ranks, whose outputs have {share.numel()}")  # fmt: skip

    def reduce_scatter_single_coalesced(self, outputTensors: Any, inputTensors: Any,  # noqa: N803
                                        opts: Any = None) -> RuedaWork:  # fmt: skip
        works = [self.reduce_scatter_single(*pair, opts) for pair in zip(outputTensors, inputTensors)]
        return self._joined(works, outputTensors, opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def all_to_all_single(self, output: Any = None, input: Any = None, output_split_sizes: Any = (), input_split_sizes: Any = (),
                          opts: Any = None, *, output_tensor: Any = None, input_tensor: Any = None,
                          timeout: Any = None) -> RuedaWork:  # fmt: skip
        output, source = arguments.given(output, output_tensor), arguments.given(input, input_tensor)

        def start(name: Optional[str]) -> Handle:
            received = list(output_split_sizes)
            if received and (len(received) != self._own_size or sum(received) != output.shape[0]):
                raise ValueError(f"output splits {received}: the group has {self._own_size} ranks, the output {output.shape[0]} rows")
            rows, received_rows = arguments.matrix(source, arguments.read), arguments.matrix(output, arguments.flat)
            handle = self._rows(name, self._options(ALLTOALL), rows, received_rows, list(input_split_sizes) or None)
            return self._expecting(handle, received or [output.shape[0] // self._own_size] * self._own_size)

        return self._work(start, [output], given=(opts, timeout))

    alltoall_base = all_to_all_single

    def alltoall(self, output_tensor: Any = None, input_tensor: Any = None, opts: Any = None, *, output: Any = None,
                 input: Any = None, timeout: Any = None) -> RuedaWork:  # fmt: skip
        outputs, sources = arguments.given(output_tensor, output), arguments.given(input_tensor, input)
        counts = [source.numel() for source in sources]
        flat = arguments.joined(sources)
        received = torch.empty(sum(output.numel() for output in outputs), dtype=flat.dtype)
        sizes = [output.numel() for output in outputs]

        def start(name: Optional[str]) -> Handle:
            handle = self._rows(name, self._options(ALLTOALL), flat, received, counts)
            return self._expecting(handle, sizes, lambda: arguments.copy_parts(outputs, received))

        return self._work(start, list(outputs), given=(opts, timeout))

    def _expecting(self, handle: Handle, sizes: Sequence[int], then: Callable[[], None] = lambda: None) -> Handle:
        """The handle of an all-to-all, which fails where other ranks sent other numbers of rows than these; else calls `then`."""

        def finish(handle: Handle, _: Any) -> None:
            sent = received_splits(handle.number, self._own_size)
            if list(sent) != list(sizes):
                raise ValueError(f"all_to_all: the ranks of the group sent {list(sent)} rows to rank {self._own_rank}, whose output "
                                 f"has places for {list(sizes)}")  # fmt: skip
            then()

        handle.also(finish)
        return handle

    def gather(self, output_tensors: Any, input_tensors: Any = None, opts: Any = None, timeout: Any = None, *,
               input_tensor: Any = None, root: Any = None) -> RuedaWork:  # fmt: skip
        source = arguments.as_list(arguments.given(input_tensors, input_tensor))[0]
        root = arguments.root_of(arguments.given(opts, root))
        is_root = root == self._own_rank
        parts = arguments.lists(output_tensors) if is_root else []
        flat = torch.empty(source.numel() * self._own_size if is_root else 0, dtype=source.dtype)
        return self._work(lambda name: self._rows(name, self._options(GATHER, root=root), arguments.read(source), flat), [parts],
                          lambda: self._fill("gather", parts, source, flat) if is_root else None, (opts, timeout))  # fmt: skip

    def scatter(self, output_tensors: Any = None, input_tensors: Any = None, opts: Any = None, timeout: Any = None, *,
                output_tensor: Any = None, root: Any = None) -> RuedaWork:  # fmt: skip
        output = arguments.as_list(arguments.given(output_tensors, output_tensor))[0]
        root = arguments.root_of(arguments.given(opts, root))
        whole = arguments.joined(arguments.lists(input_tensors)) if root == self._own_rank else output

        def start(name: Optional[str]) -> Handle:
            if root == self._own_rank:
                self._require_share("scatter", whole, output)
            return self._rows(name, self._options(SCATTER, root=root), arguments.read(whole), arguments.flat(output))

        return self._work(start, [output], given=(opts, timeout))

    def barrier(self, opts: Any = None, *, timeout: Any = None) -> RuedaWork:
        return self._work(self._barrier, [], given=(opts, timeout))

    def monitored_barrier(self, timeout: timedelta, wait_all_ranks: bool = False) -> None:
        """As monitored_barrier.wait_for_all() says; names all who are missing in any case."""
        self._barriers += 1
        name = f"torch.distributed.{self._identity}.barrier.{self._barriers}"
        monitored_barrier.wait_for_all(name, self._set, timeout.total_seconds())

    # ---- Between two ---------------------------------------------------------------------------------------------

    def _message(self, kind: int, values: Any, peer: Optional[int], tag: int) -> RuedaWork:
        """The work of a send, or of a receive from a rank of the group or, without a peer, from any. Names belong to two ranks and
        a direction, so they say which group and tag; messages of one name keep their order."""
        tensor, senders = arguments.as_list(values)[0], [] if peer is None else [peer]

        def start(_: Optional[str]) -> Handle:
            places = devices.Places("send" if kind == SEND else "recv")
            place = (places.to_read if kind == SEND else places.to_change)(arguments.flat(tensor))
            name = f"torch.distributed.{self._identity}.{tag}".encode()
            job_rank = lib.RUEDA_ANY_SOURCE if peer is None else self._job_rank(peer)
            handle = places.filled_by(start_message(session.current(), name, self._options(kind)._replace(rank=job_rank), place))
            if peer is None:
                handle.also(lambda received, _: senders.append(self._ranks.index(operations.source_of(received))))
            return handle

        return self._noted(RuedaWork(self._completer, callbacks.message, start, [tensor], limit=self._limit, senders=senders))

    def send(self, tensors: Any, dstRank: int, tag: int = 0) -> RuedaWork:  # noqa: N803
        return self._message(SEND, tensors, dstRank, tag)

    def recv(self, tensors: Any, srcRank: int, tag: int = 0) -> RuedaWork:  # noqa: N803
        return self._message(RECV, tensors, srcRank, tag)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> RuedaWork:
        """Receives what any other rank of the group sends with the tag; the work's source_rank() says which."""
        return self._message(RECV, tensors, None, tag)


graphs.leave_alone(RuedaGroup)
