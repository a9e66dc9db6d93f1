"""A name is taken from the enqueue of its operation until this rank has seen an operation end, however fast the other
ranks are: in every form of rueda.torch and rueda.numpy, and the operation that has the name is not touched."""

import numpy
import pytest
import torch

import rueda.numpy as of_numpy
import rueda.torch as hvd
from rueda._native import lib


def rows():
    """As many rows for every rank, with rank r's number in all of them."""
    return torch.full((2 * hvd.size(), 2), float(hvd.rank()))


def arrays():
    return rows().numpy()


# Each begins an operation whose only, or first, tensor is called `name` + ".0", and returns its wait.
FORMS = {
    "allreduce": lambda name: hvd.allreduce_async(rows(), name=name + ".0").wait,
    "allreduce in place": lambda name: hvd.allreduce_async_(rows(), name=name + ".0").wait,
    "grouped allreduce": lambda name: hvd.grouped_allreduce_async([rows(), rows()], name=name).wait,
    "grouped allreduce in place": lambda name: hvd.grouped_allreduce_async_([rows(), rows()], name=name).wait,
    "sparse allreduce": lambda name: hvd.sparse_allreduce_async(rows().to_sparse(), name + ".0", hvd.Sum),
    "allgather": lambda name: hvd.allgather_async(rows(), name=name + ".0").wait,
    "grouped allgather": lambda name: hvd.grouped_allgather_async([rows(), rows()], name=name).wait,
    "broadcast": lambda name: hvd.broadcast_async(rows(), 0, name=name + ".0").wait,
    "broadcast in place": lambda name: hvd.broadcast_async_(rows(), 0, name=name + ".0").wait,
    "alltoall": lambda name: hvd.alltoall_async(rows(), name=name + ".0").wait,
    "reducescatter": lambda name: hvd.reducescatter_async(rows(), name=name + ".0").wait,
    "reducescatter in place": lambda name: hvd.reducescatter_async_(rows(), name=name + ".0").wait,
    "grouped reducescatter": lambda name: hvd.grouped_reducescatter_async([rows(), rows()], name=name).wait,
    "numpy allreduce": lambda name: of_numpy.allreduce_async(arrays(), name=name + ".0").wait,
    "numpy grouped allreduce in place": lambda name: of_numpy.grouped_allreduce_async_([arrays()], name=name).wait,
    "numpy broadcast in place": lambda name: of_numpy.broadcast_async_(arrays(), 0, name=name + ".0").wait,
    "numpy allgather": lambda name: of_numpy.allgather_async(arrays(), name=name + ".0").wait,
    "numpy grouped allgather": lambda name: of_numpy.grouped_allgather_async([arrays()], name=name).wait,
    "numpy alltoall": lambda name: of_numpy.alltoall_async(arrays(), name=name + ".0").wait,
    "numpy reducescatter": lambda name: of_numpy.reducescatter_async(arrays(), name=name + ".0").wait,
    "numpy reducescatter in place": lambda name: of_numpy.reducescatter_async_(arrays(), name=name + ".0").wait,
    "numpy grouped reducescatter": lambda name: of_numpy.grouped_reducescatter_async([arrays()], name=name).wait,
}
BLOCKING = {
    "allreduce": lambda name: hvd.allreduce(rows(), name=name + ".0"),
    "grouped allreduce in place": lambda name: hvd.grouped_allreduce_([rows()], name=name),
    "allgather": lambda name: hvd.allgather(rows(), name=name + ".0"),
    "broadcast": lambda name: hvd.broadcast_(rows(), 0, name=name + ".0"),
    "alltoall": lambda name: hvd.alltoall(rows(), name=name + ".0"),
    "grouped reducescatter": lambda name: hvd.grouped_reducescatter([rows()], name=name),
}


def plain(result):
    """What a wait has returned, as lists of numbers."""
    if isinstance(result, (list, tuple)):
        return [plain(each) for each in result]
    return (result.to_dense() if isinstance(result, torch.Tensor) and result.is_sparse else result).tolist()


def check_all_refused(name, says):
    for form, begin in [*FORMS.items(), *BLOCKING.items()]:
        with pytest.raises(ValueError, match=says) as caught:
            begin(name)
        assert f'"{name}.0"' in str(caught.value), form


@pytest.mark.parametrize("form", FORMS)
def test_the_second_is_refused_while_the_first_waits_for_other_ranks(form):
    wanted = plain(FORMS[form]("alone")())
    if hvd.rank() == 0:
        wait = FORMS[form]("twice")
        check_all_refused("twice", "this name is taken in process set 0")
    hvd.barrier()
    if hvd.rank() == 0:  # the barrier's end says nothing about the first operation, which is in flight
        check_all_refused("twice", "this name is already in flight")
    hvd.barrier()
    if hvd.rank() != 0:
        wait = FORMS[form]("twice")
    assert plain(wait()) == wanted


def number_of(wait):
    return wait.__self__.number


@pytest.mark.parametrize("form", FORMS)
def test_the_second_is_refused_on_every_rank_though_the_first_has_ended_unseen(form):
    wanted = plain(FORMS[form]("alone")())
    wait = FORMS[form]("unseen")
    while lib.rueda_poll(number_of(wait)) == 0:
        pass
    check_all_refused("unseen", "this name is taken in process set 0")
    assert plain(wait()) == wanted
    assert plain(FORMS[form]("unseen")()) == wanted


def test_the_second_is_refused_though_the_first_handle_was_dropped_and_a_blocking_call_frees_the_name():
    for _ in range(3):
        hvd.allreduce_async(torch.ones(2), name="dropped")
        with pytest.raises(ValueError, match="dropped"):
            hvd.allreduce_async(torch.ones(2), name="dropped")
        hvd.barrier()


def test_a_name_is_free_once_poll_has_said_that_the_operation_has_ended():
    for number in range(3):
        handle = hvd.allreduce_async(torch.full((2,), float(number)), name="polled")
        while not hvd.poll(handle):
            pass
    assert handle.wait().tolist() == [2.0, 2.0]


def test_a_refused_operation_takes_no_name():
    with pytest.raises(ValueError, match="99"):
        hvd.broadcast_async(torch.ones(2), 99, name="wrong")
    assert numpy.array_equal(hvd.broadcast_async(torch.ones(2), 0, name="wrong").wait().numpy(), numpy.ones(2))


def test_another_process_set_may_have_the_name():
    everyone = hvd.add_process_set(list(range(hvd.size())))
    first, second = (hvd.allreduce_async(torch.ones(2), name="same", process_set=each) for each in (hvd.global_process_set, everyone))
    assert torch.equal(first.wait(), second.wait())
    hvd.remove_process_set(everyone)
