"""Tensors from one rank to another."""

import pytest
import torch

import rueda.torch as hvd
from helpers import DTYPES, value


def neighbours():
    """The ranks after and before this one, in a ring."""
    return (hvd.rank() + 1) % hvd.size(), (hvd.rank() - 1) % hvd.size()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_each_rank_gets_what_the_one_before_it_sent(dtype):
    following, before = neighbours()
    for shape in [(5,), (2, 3), (), (0,)]:
        buffer = torch.zeros(shape, dtype=dtype)
        sent = hvd.send_async(value(hvd.rank(), shape, dtype), following)
        assert hvd.recv(buffer, before) is buffer
        assert torch.equal(buffer, value(before, shape, dtype))
        sent.wait()


def test_names_tell_messages_apart_whatever_their_order():
    following, before = neighbours()
    sent = [hvd.send_async(torch.full((2,), float(number)), following, name=f"number {number}") for number in range(3)]
    for number in (2, 0, 1):
        assert torch.equal(hvd.recv(torch.zeros(2), before, name=f"number {number}"), torch.full((2,), float(number)))
    for handle in sent:
        hvd.synchronize(handle)


def test_a_backward_pass_that_needs_what_a_message_overwrote_is_refused():
    following, before = neighbours()
    leaf, buffer = torch.ones(2, requires_grad=True), torch.ones(2)
    loss = (leaf * buffer).sum()
    sent = hvd.send_async(torch.zeros(2), following)
    hvd.recv(buffer, before)
    sent.wait()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_what_has_gaps_can_be_sent_but_not_received_into():
    following, before = neighbours()
    whole = torch.arange(6.0).reshape(2, 3)
    sent = hvd.send_async(whole[:, ::2], following)
    assert torch.equal(hvd.recv(torch.zeros(2, 2), before), whole[:, ::2])
    sent.wait()
    with pytest.raises(ValueError, match="not contiguous"):
        hvd.recv(whole[:, ::2], before)


def test_two_members_of_a_set_exchange_and_nobody_else_is_a_peer():
    pair = hvd.add_process_set([0, 1])
    if hvd.rank() == 0:
        hvd.send(torch.full((3,), 7.0), 1, process_set=pair)
    elif hvd.rank() == 1:
        assert torch.equal(hvd.recv(torch.zeros(3), 0, process_set=pair), torch.full((3,), 7.0))
    for peer in (hvd.rank(), hvd.size()):
        with pytest.raises(ValueError, match=f"peer {peer} "):
            hvd.send(torch.ones(1), peer)
    hvd.barrier()
    hvd.remove_process_set(pair)


def test_a_message_of_another_shape_fails_on_both_sides():
    if hvd.rank() < 2:
        with pytest.raises(hvd.MismatchError):
            if hvd.rank() == 0:
                hvd.send(torch.ones(3), 1, name="odd")
            else:
                hvd.recv(torch.ones(2), 0, name="odd")
    assert float(hvd.allreduce(torch.ones(1), op=hvd.Sum)) == hvd.size()
