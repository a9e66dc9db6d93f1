"""The operations of a process group that move parts of tensors between ranks: gathers, scatters and all-to-alls.

The library moves rows along dimension 0. Lists of tensors are joined to one row tensor before, and split again after.
"""

from typing import Any, Callable, List, Optional, Sequence

import torch

from rueda import operations, session
from rueda._native import ffi, lib
from rueda.handles import Handle, enqueue
from rueda.operations import ALLGATHER, ALLTOALL, GATHER, REDUCESCATTER, SCATTER, encode_name
from rueda.outputs import received_splits
from rueda.torch import graphs, placed, rows
from rueda.torch.distributed import allocations, devices
from rueda.torch.distributed import group_arguments as arguments
from rueda.torch.distributed.group_starts import StartingGroup
from rueda.torch.distributed.work import RuedaWork
from rueda.torch.tensors import dtype_number

_NAMES = {ALLGATHER: "all_gather", REDUCESCATTER: "reduce_scatter", ALLTOALL: "all_to_all", GATHER: "gather", SCATTER: "scatter"}


class RowsGroup(StartingGroup):
    """The operations of rows. See RuedaGroup for the forms of their arguments, for loans and for errors."""

    def supports_tensor_alloc(self, device: torch.device) -> bool:
        """Returns whether allocate_tensor() gives buffers of this device."""
        return allocations.serves(device)

    def allocate_tensor(self, size: int, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Returns a buffer of `size` elements that the ranks of this host gather from and reduce without copies."""
        if not allocations.serves(device):
            raise ValueError(f"allocate_tensor: there are no buffers on device {device}, or no other rank is on this host")
        return allocations.allocate(size, dtype)

    def _rows(self, name: Optional[str], options: operations.Options, source: torch.Tensor, output: torch.Tensor,
              splits: Optional[Sequence[int]] = None) -> Handle:
        """Enqueues an operation of rows from one contiguous tensor into another."""
        if output.dtype != source.dtype:
            raise ValueError(f"the output's dtype is {output.dtype}, the input's {source.dtype}; they must be equal")
        if output.dim() != source.dim():
            raise ValueError(f"the output's shape {list(output.shape)} and the input's {list(source.shape)} must have the same number "
                             "of dimensions")  # fmt: skip
        if splits is not None and len(splits) != self._own_size:
            raise ValueError(f"there are {len(splits)} input splits; give one for each of the group's {self._own_size} ranks")
        reached = devices.Reached(_NAMES[options.kind])
        source, output = reached.from_to(source, output)
        # FSDP gathers from a part of the tensor that it gathers into. On the host a copy is better: other ranks can read it.
        if arguments.overlap(source, output) and (source.is_cpu or not self._is_own_part(options, source, output)):
            source = allocations.clone(source)
        return reached.filled_by(self._start_rows(name, options, source, output, splits or ffi.NULL))

    def _is_own_part(self, options: operations.Options, source: torch.Tensor, output: torch.Tensor) -> bool:
        """Returns whether an all-gather of equal parts finds this rank's part where it belongs."""
        return (options.kind == ALLGATHER and options.op == operations.SAME_ROWS and output.numel() == self._own_size * source.numel()
                and source.data_ptr() == output.data_ptr() + self._own_rank * source.numel() * source.element_size())  # fmt: skip

    def _start_rows(self, name: Optional[str], options: operations.Options, source: torch.Tensor,
                    output: Optional[torch.Tensor], splits: Any = ffi.NULL) -> Handle:
        """Enqueues an operation of rows. Without an output, one of the size that arrives is made."""
        here, view = session.current(), (source.data_ptr(), dtype_number(source), source.dim())
        address, shape = (0, ffi.NULL) if output is None else (output.data_ptr(), output.shape)
        place = placed.place_of(source)
        call = here.pointer, encode_name(name), placed.options_at(place, options), view, source.shape, address, shape, splits
        return enqueue(placed.handles_at(place), here, lib.rueda_py_start_rows, call, (source, output))

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> RuedaWork:
        """Writes the inputs of all ranks into `output`, in the order of ranks. It has size() times the input's
        elements: all inputs have as many."""
        options = self._options(ALLGATHER, operations.SAME_ROWS)
        return self._work(lambda name: self._rows(name, options, arguments.read(input), arguments.flat(output)),
                          [output], given=(opts,))  # fmt: skip

    _allgather_base = all_gather_single

    def allgather(self, output_tensors: Any, input_tensors: Any = None, opts: Any = None, *, input_tensor: Any = None,
                  timeout: Any = None) -> RuedaWork:  # fmt: skip
        """Writes the input of rank r into output r, which has as many elements. Inputs may differ in size."""
        source, parts = arguments.as_list(arguments.given(input_tensors, input_tensor))[0], arguments.lists(output_tensors)
        return self._work(self._gather("all_gather", self._options(ALLGATHER), source, parts), [parts], given=(opts, timeout))

    def _gather(self, what: str, options: operations.Options, source: torch.Tensor,
                parts: List[torch.Tensor]) -> Callable[[Optional[str]], Handle]:
        """Returns what enqueues a gather into a list of tensors of this rank."""

        def start(name: Optional[str]) -> Handle:
            flat = devices.Reached(what).to_read(arguments.read(source))
            handle = self._start_rows(name, options, flat, None)  # only what arrives says how large it is
            handle.also(lambda ended, _: self._deal_out(what, parts, ended, flat))
            return handle

        return start

    def _deal_out(self, what: str, parts: List[torch.Tensor], handle: Handle, flat: torch.Tensor) -> None:
        """Copies what was gathered into the caller's tensors. flat: this rank's input. Raises ValueError, on this rank
        alone, unless there is one tensor for each rank, of the size of its input: other ranks cannot know that, and
        have what they asked for."""
        given, here = received_splits(handle.number, self._own_size), f"{what}: rank {self._own_rank} of the group: "
        if len(parts) != self._own_size:
            raise ValueError(f"{here}there are {len(parts)} outputs; give one for each of the group's {self._own_size} ranks")
        for number, (part, count) in enumerate(zip(parts, given)):
            if part.numel() != count:
                raise ValueError(f"{here}output {number} has shape {list(part.shape)}, but rank {number} gave {count} elements; give it "
                                 "an output of as many")  # fmt: skip
        arguments.copy_parts(parts, rows.take(handle, [flat])[0])

    def allgather_coalesced(self, output_lists: Any, input_list: Any, opts: Any = None) -> RuedaWork:
        """allgather() of several inputs under one work. output_lists[r][i] receives input i of rank r."""
        works = [self.allgather([parts], [source], opts) for parts, source in zip(zip(*output_lists), input_list)]
        return self._joined(works, output_lists, opts)

    def all_gather_single_coalesced(self, output_lists: Any, input_list: Any, opts: Any = None) -> RuedaWork:
        """all_gather_single() of several inputs under one work."""
        return self._joined([self.all_gather_single(*pair, opts) for pair in zip(output_lists, input_list)], output_lists, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def reduce_scatter_single(self, outputTensor: torch.Tensor, inputTensor: torch.Tensor,  # noqa: N803
                              opts: Any = None) -> RuedaWork:  # fmt: skip
        """Reduces the inputs and writes part r of the result, of size() equal parts, into the output of rank r."""

        def start(name: Optional[str]) -> Handle:
            source, output = arguments.read(inputTensor), arguments.flat(outputTensor)
            self._require_share("reduce_scatter", source, output)
            return self._rows(name, self._options(REDUCESCATTER, arguments.operator(opts)), source, output)

        return self._work(start, [outputTensor], given=(opts,))

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter(self, output_tensors: Any, input_tensors: Any = None, opts: Any = None, timeout: Any = None, *,
                       input_tensor: Any = None, op: Any = None) -> RuedaWork:  # fmt: skip
        """Reduces input r of all ranks into the output of rank r."""
        output, wanted = arguments.as_list(output_tensors)[0], arguments.given(opts, op)
        whole = arguments.joined(arguments.lists(arguments.given(input_tensors, input_tensor)))

        def start(name: Optional[str]) -> Handle:
            self._require_share("reduce_scatter", whole, arguments.flat(output))
            return self._rows(name, self._options(REDUCESCATTER, arguments.operator(wanted)), whole, arguments.flat(output))

        return self._work(start, [output], given=(opts, timeout))

    def _require_share(self, what: str, whole: torch.Tensor, share: torch.Tensor) -> None:
        """Raises ValueError unless the whole has as many elements as the shares of all ranks together."""
        if whole.numel() != self._own_size * share.numel():
            raise ValueError(f"{what}: rank {self._own_rank} of the group: the input has {whole.numel()} elements, the output "
                             f"{share.numel()}; the input needs {self._own_size} times as many as the output, one part for each rank")  # fmt: skip

    def reduce_scatter_single_coalesced(self, outputTensors: Any, inputTensors: Any,  # noqa: N803
                                        opts: Any = None) -> RuedaWork:  # fmt: skip
        """reduce_scatter_single() of several inputs under one work."""
        works = [self.reduce_scatter_single(*pair, opts) for pair in zip(outputTensors, inputTensors)]
        return self._joined(works, outputTensors, opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def all_to_all_single(self, output: Any = None, input: Any = None, output_split_sizes: Any = (), input_split_sizes: Any = (),
                          opts: Any = None, *, output_tensor: Any = None, input_tensor: Any = None,
                          timeout: Any = None) -> RuedaWork:  # fmt: skip
        """Sends the next input_split_sizes[r] rows of the input to rank r, and writes what rank r sends into the next
        output_split_sizes[r] rows of the output. Without sizes every rank gets the same number of rows."""
        output, source = arguments.given(output, output_tensor), arguments.given(input, input_tensor)

        def start(name: Optional[str]) -> Handle:
            received = list(output_split_sizes)
            if received and (len(received) != self._own_size or sum(received) != output.shape[0]):
                raise ValueError(f"output splits {received}: give one for each of the group's {self._own_size} ranks; they must add up "
                                 f"to the output's {output.shape[0]} rows")  # fmt: skip
            rows, received_rows = arguments.matrix(source, arguments.read), arguments.matrix(output, arguments.flat)
            handle = self._rows(name, self._options(ALLTOALL), rows, received_rows, list(input_split_sizes) or None)
            return self._expecting(handle, received or [output.shape[0] // self._own_size] * self._own_size)

        return self._work(start, [output], given=(opts, timeout))

    alltoall_base = all_to_all_single

    def alltoall(self, output_tensor: Any = None, input_tensor: Any = None, opts: Any = None, *, output: Any = None,
                 input: Any = None, timeout: Any = None) -> RuedaWork:  # fmt: skip
        """Sends input r of the list to rank r, and writes what rank r sends into output r."""
        outputs, sources = arguments.given(output_tensor, output), arguments.given(input_tensor, input)
        counts = [source.numel() for source in sources]
        flat = arguments.joined(sources)
        received = torch.empty(sum(output.numel() for output in outputs), dtype=flat.dtype, device=flat.device)
        sizes = [output.numel() for output in outputs]

        def start(name: Optional[str]) -> Handle:
            handle = self._rows(name, self._options(ALLTOALL), flat, received, counts)
            return self._expecting(handle, sizes, lambda: arguments.copy_parts(outputs, received))

        return self._work(start, list(outputs), given=(opts, timeout))

    def _expecting(self, handle: Handle, sizes: Sequence[int], then: Callable[[], None] = lambda: None) -> Handle:
        """The handle of an all-to-all. Its wait raises ValueError if other ranks sent other numbers of rows than
        `sizes`, else it calls `then`."""

        def finish(handle: Handle, _: Any) -> None:
            sent = received_splits(handle.number, self._own_size)
            if list(sent) != list(sizes):
                raise ValueError(f"all_to_all: the ranks of the group sent {list(sent)} rows to rank {self._own_rank}, but its output "
                                 f"expects {list(sizes)}; the sizes must match the senders'")  # fmt: skip
            then()

        handle.also(finish)
        return handle

    def gather(self, output_tensors: Any, input_tensors: Any = None, opts: Any = None, timeout: Any = None, *,
               input_tensor: Any = None, root: Any = None) -> RuedaWork:  # fmt: skip
        """Writes the input of rank r into output r of the root, which has as many elements. Other ranks pass no outputs.
        """
        source = arguments.as_list(arguments.given(input_tensors, input_tensor))[0]
        root = arguments.root_of(arguments.given(opts, root))
        parts = arguments.lists(output_tensors) if root == self._own_rank else []

        def start(name: Optional[str]) -> Handle:
            options = self._options(GATHER, root=root)
            if root == self._own_rank:
                return self._gather("gather", options, source, parts)(name)
            return self._start_rows(name, options, devices.Reached("gather").to_read(arguments.read(source)), None)

        return self._work(start, [parts], given=(opts, timeout))

    def scatter(self, output_tensors: Any = None, input_tensors: Any = None, opts: Any = None, timeout: Any = None, *,
                output_tensor: Any = None, root: Any = None) -> RuedaWork:  # fmt: skip
        """Writes input r of the root into the output of rank r. Other ranks pass no inputs."""
        output = arguments.as_list(arguments.given(output_tensors, output_tensor))[0]
        root = arguments.root_of(arguments.given(opts, root))
        whole = arguments.joined(arguments.lists(input_tensors)) if root == self._own_rank else output

        def start(name: Optional[str]) -> Handle:
            if root == self._own_rank:
                self._require_share("scatter", whole, output)
            return self._rows(name, self._options(SCATTER, root=root), arguments.read(whole), arguments.flat(output))

        return self._work(start, [output], given=(opts, timeout))


graphs.leave_alone(RowsGroup)
