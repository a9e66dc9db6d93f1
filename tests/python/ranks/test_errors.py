"""The table of errors: what raises what, and that the job goes on."""

import gc
import weakref

import pytest
import torch

import rueda.torch as hvd

UNKNOWN = getattr(torch, "float8_e4m3fn", torch.complex32)  # older PyTorch has no float8


def works():
    """Whether the job still reduces."""
    return float(hvd.allreduce(torch.ones(1), op=hvd.Sum)) == hvd.size()


def agreed(sentence):
    """Whether all ranks have this sentence."""
    return hvd.broadcast_object(sentence, 0) == sentence


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: hvd.allreduce(torch.ones(2), average=True, op=hvd.Sum), "average="),
        (lambda: hvd.allreduce(torch.ones(2), op=17), "op=17"),
        (lambda: hvd.allreduce(torch.empty(2, dtype=UNKNOWN)), str(UNKNOWN)),
        (lambda: hvd.allreduce_(torch.empty(2, dtype=UNKNOWN)), str(UNKNOWN)),
        (lambda: hvd.allreduce(torch.eye(2).to_sparse()), "sparse"),
        (lambda: hvd.allreduce_(torch.eye(2).to_sparse()), "sparse"),
        (lambda: hvd.allreduce("text"), "Tensor"),
        (lambda: hvd.grouped_allreduce(5), "give a list of torch.Tensor, not a int"),
        (lambda: hvd.grouped_allreduce_async(torch.ones(2)), "list of torch.Tensor"),
        (lambda: hvd.grouped_allreduce_(torch.ones(2)), "list of torch.Tensor"),
        (lambda: hvd.grouped_allgather(None), "list of torch.Tensor"),
        (lambda: hvd.grouped_reducescatter(5), "list of torch.Tensor"),
        (lambda: hvd.broadcast(torch.ones(2), 99), "99"),
        (lambda: hvd.broadcast_(torch.ones(2), -1), "-1"),
        (lambda: hvd.allreduce(torch.ones(2), process_set=hvd.ProcessSet([0])), "add_process_set"),
        (lambda: hvd.ProcessSet("some"), "list of ranks"),
        (lambda: hvd.allreduce(torch.ones(2), name="n" * 2000), "1024"),
    ],
)
def test_a_wrong_call_is_a_value_error_and_enqueues_nothing(call, says):
    with pytest.raises(ValueError, match=says):
        call()
    assert works()


def test_a_name_in_flight_is_refused():
    if hvd.rank() == 0:
        first = hvd.allreduce_async_(torch.ones(2), name="twice")
        with pytest.raises(ValueError, match="twice"):
            hvd.allreduce_async_(torch.ones(2), name="twice")
    hvd.barrier()
    if hvd.rank() != 0:
        first = hvd.allreduce_async_(torch.ones(2), name="twice")
    assert torch.equal(first.wait(), torch.ones(2))
    assert works()


def test_a_group_with_one_wrong_member_is_refused_whole():
    with pytest.raises(ValueError, match=r"shape \[2\] with strides \[2\] is not contiguous"):
        hvd.grouped_allreduce_([torch.ones(2), torch.ones(4)[::2]], name="half")
    assert torch.equal(hvd.grouped_allreduce_([torch.ones(2)], name="half", op=hvd.Max)[0], torch.ones(2))


def mismatches():
    odd = hvd.rank() == 1
    yield "shape", lambda: hvd.allreduce(torch.ones(3 if odd else 2), name="m")
    yield "dtype", lambda: hvd.allreduce(torch.ones(2, dtype=torch.float64 if odd else torch.float32), name="m")
    yield "op", lambda: hvd.allreduce(torch.ones(2), name="m", op=hvd.Sum if odd else hvd.Max)
    yield "scale", lambda: hvd.allreduce(torch.ones(2), name="m", prescale_factor=2.0 if odd else 1.0)
    yield "root", lambda: hvd.broadcast(torch.ones(2), 1 if odd else 0, name="m")
    yield "kind", lambda: hvd.broadcast(torch.ones(2), 0, name="m") if odd else hvd.allreduce(torch.ones(2), name="m")


@pytest.mark.parametrize("which", range(6))
def test_ranks_that_disagree_get_the_same_sentence_and_go_on(which):
    difference, call = list(mismatches())[which]
    with pytest.raises(hvd.MismatchError, match=difference + " differs: rank 0 .*, rank 1 ") as caught:
        call()
    assert agreed(str(caught.value))
    assert works()


def uneven():
    return torch.ones(2, 3 if hvd.rank() == 1 else 2)


def failing_step():
    weight = torch.nn.Parameter(uneven())
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=0.1), [("weight", weight)])
    weight.sum().backward()
    optimizer.step()


def twice(handle):
    with pytest.raises(hvd.MismatchError):
        handle.wait()
    handle.wait()


FAILING = {
    "allreduce": lambda: hvd.allreduce(uneven()),
    "of a handle": lambda: hvd.synchronize(hvd.allreduce_async_(uneven())),
    "the second time": lambda: twice(hvd.allreduce_async(uneven())),
    "made from the result": lambda: hvd.sparse_allreduce_async(uneven().to_sparse(), "uneven")(),
    "grouped": lambda: hvd.grouped_allreduce([uneven()]),
    "step": failing_step,
}


@pytest.mark.parametrize("call", FAILING)
def test_an_error_is_freed_with_its_last_reference(call):
    gc.disable()
    try:
        try:
            FAILING[call]()
        except hvd.MismatchError as error:
            left = weakref.ref(error)
        assert left() is None
    finally:
        gc.enable()


def test_an_error_of_a_class_that_cannot_be_made_anew_is_raised_again_in_words():
    class Odd(Exception):
        def __init__(self, first, second):
            super().__init__(f"{first} and {second}")

    def fail(handle):
        raise Odd("one", "two")

    handle = hvd.barrier_async()
    handle.then(fail)
    with pytest.raises(Odd, match="one and two"):
        handle.wait()
    for _ in range(2):
        with pytest.raises(hvd.HorovodInternalError, match="Odd: one and two"):
            handle.wait()


def test_a_wait_that_times_out_can_be_repeated():
    if hvd.rank() == 0:
        handle = hvd.allreduce_async(torch.ones(2), name="late", op=hvd.Sum)
        with pytest.raises(TimeoutError, match="has not finished after 0.05 s and is still in flight"):
            hvd.synchronize(handle, timeout=0.05)
        assert not hvd.poll(handle)
    hvd.barrier()
    if hvd.rank() != 0:
        handle = hvd.allreduce_async(torch.ones(2), name="late", op=hvd.Sum)
    assert torch.equal(hvd.synchronize(handle, timeout=60.0), torch.full((2,), float(hvd.size())))


def test_a_result_can_be_asked_for_twice():
    handle = hvd.allreduce_async(torch.ones(2), op=hvd.Sum)
    assert hvd.synchronize(handle) is hvd.synchronize(handle)
