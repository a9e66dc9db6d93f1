"""What a distributed optimizer refuses, and what it warns of."""

import copy
import io
import pickle
import warnings

import pytest
import torch

import rueda.torch as hvd


@pytest.fixture
def model():
    return torch.nn.Linear(2, 2)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


@pytest.mark.parametrize(
    "options, says",
    [
        (lambda m: {"named_parameters": [("weight", m.weight)]}, "no name"),
        (lambda m: {"named_parameters": [("a", m.weight), ("a", m.bias)]}, "are named a"),
        (lambda m: {"named_parameters": list(m.parameters())}, "pairs"),
        (lambda m: {"groups": [[m.weight], [m.weight, m.bias]]}, "two groups"),
        (lambda m: {"groups": ["weight"]}, "lists of parameters"),
        (lambda m: {"groups": [[torch.nn.Parameter(torch.ones(7))]]}, r"groups\[0\] .*\[7\] .*not the optimizer's"),
        (lambda m: {"groups": 2.5}, "groups is 2.5; give a whole number"),
        (lambda m: {"num_groups": -1}, "num_groups is -1"),
        (lambda m: {"num_groups": 2.5}, "num_groups is 2.5"),
        (lambda m: {"num_groups": True}, "num_groups is True"),
        (lambda m: {"named_parameters": m}, "pairs"),
        (lambda m: {"op": 77}, "op=77"),
        (lambda m: {"compression": "fp16"}, "compression='fp16'"),
        (lambda m: {"gradient_predivide_factor": 2.0, "op": hvd.Sum}, "Average"),
        (lambda m: {"gradient_predivide_factor": 0.0}, "more than 0"),
        (lambda m: {"backward_passes_per_step": 0}, "backward_passes_per_step is 0"),
        (lambda m: {"backward_passes_per_step": 1.5}, "backward_passes_per_step is 1.5"),
        (lambda m: {"backward_passes_per_step": True}, "backward_passes_per_step is True"),
        (lambda m: {"average_accumulated": True, "op": hvd.Max}, "average_accumulated"),
        (lambda m: {"gradient_as_buffer_view": True, "op": hvd.Adasum}, "Adasum"),
        (lambda m: {"gradient_as_buffer_view": True, "compression": object}, "Compression"),
    ],
)
def test_wrong_options_are_value_errors(model, options, says):
    with pytest.raises(ValueError, match=says):
        hvd.DistributedOptimizer(sgd(model), **options(model))


def test_what_is_no_optimizer_or_distributed_already_is_refused(model):
    for wrong in (model, None, torch.optim.SGD):
        with pytest.raises(ValueError, match="give an optimizer, such as torch.optim.SGD"):
            hvd.DistributedOptimizer(wrong)
    with pytest.raises(ValueError, match="distributed already"):
        hvd.DistributedOptimizer(hvd.DistributedOptimizer(sgd(model)))


def backward(model):
    model(torch.ones(1, 2)).sum().backward()


def test_zero_grad_between_backward_and_step_is_refused(model):
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    backward(model)
    with pytest.raises(AssertionError, match="zero_grad"):
        optimizer.zero_grad()
    optimizer.step()
    optimizer.zero_grad()


class Double:
    @staticmethod
    def compress(tensor):
        return tensor.double(), tensor.dtype

    @staticmethod
    def decompress(tensor, ctx):
        return tensor.to(ctx)


WAYS = {
    "each": {},
    "groups": {"num_groups": 1},
    "buffers": {"gradient_as_buffer_view": True},
    "compressed by the user": {"compression": Double},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sent", [True, False], ids=["sent", "not yet sent"])
def test_zero_grad_forgets_a_step_whose_session_is_over(model, way, sent):
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), backward_passes_per_step=1 if sent else 2, **WAYS[way])
    backward(model)
    hvd.barrier()
    hvd.shutdown()
    hvd.init()
    optimizer.zero_grad()
    backward(model)
    with pytest.raises(AssertionError, match="zero_grad"):  # this one is of the session that is there
        optimizer.zero_grad()
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("used", [2, 1], ids="{} of 2 gradients".format)
def test_a_gradient_that_is_taken_away_before_the_step_is_missed(model, way, used):
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), **WAYS[way])
    for _ in range(2):  # the first time each gradient is new to its hook
        backward(model) if used == 2 else model.weight.sum().backward()
        for parameter in model.parameters():
            parameter.grad = None
        with pytest.raises(AssertionError, match="set to None or replaced between backward and step.*weight"):
            optimizer.step()
        optimizer.zero_grad()
    backward(model)
    optimizer.step()
    assert torch.equal(model.weight.grad, torch.ones(2, 2))


def by_its_data(parameter):
    parameter.grad.data = parameter.grad.data / 2  # the same tensor; its memory is freed while it is reduced


def by_another(parameter):
    parameter.grad = parameter.grad / 2


@pytest.mark.parametrize("way", ["each", "groups", "buffers"])
@pytest.mark.parametrize("replace", [by_another, by_its_data])
def test_a_gradient_that_is_replaced_before_the_step_is_missed(model, way, replace):
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), **WAYS[way])
    for _ in range(2):
        backward(model)
        replace(model.bias)
        with pytest.raises(AssertionError, match=r"step\(\): \['optimizer.*gradient.bias'\]"):
            optimizer.step()
        optimizer.zero_grad()


def test_a_gradient_in_memory_of_another_order_is_missed_too():
    weight = torch.nn.Parameter(torch.ones(2, 3).t())
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=0.1))
    weight.sum().backward()
    assert not weight.grad.is_contiguous()
    weight.grad = weight.grad.to_sparse()
    with pytest.raises(AssertionError, match="replaced between backward"):
        optimizer.step()


@pytest.mark.parametrize("way", WAYS)
def test_gradients_are_replaced_where_nothing_is_being_reduced(model, way):
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), backward_passes_per_step=2, **WAYS[way])

    def change():
        for parameter in model.parameters():
            parameter.grad = parameter.grad * 3

    backward(model)
    change()
    backward(model)
    optimizer.synchronize()
    assert torch.equal(model.weight.grad, torch.full((2, 2), 4.0))
    change()
    with optimizer.skip_synchronize():
        optimizer.step()
    assert torch.equal(model.weight.grad, torch.full((2, 2), 12.0))
    model.zero_grad()
    backward(model)
    model.zero_grad(set_to_none=True)  # a window that is given up, as far as it came
    optimizer.step()
    assert torch.equal(model.weight.grad, torch.zeros(2, 2))


def test_the_same_gradient_as_another_object_is_none_replaced(model):
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    for _ in range(2):
        backward(model)
        model.bias.grad = model.bias.grad.detach()
        optimizer.step()
        optimizer.zero_grad()


def test_more_backward_passes_than_announced_are_refused(model):
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    backward(model)
    with pytest.raises(AssertionError, match="backward_passes_per_step"):
        backward(model)
    optimizer.synchronize()


def test_the_number_of_passes_does_not_change_within_a_step(model):
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    with pytest.raises(ValueError, match="at least 1"):
        optimizer.set_backward_passes_per_step(0)
    backward(model)
    with pytest.raises(ValueError, match="between backward and step"):
        optimizer.set_backward_passes_per_step(2)
    optimizer.step()


def test_a_step_after_synchronize_warns_outside_skip_synchronize(model):
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    backward(model)
    optimizer.synchronize()
    with pytest.warns(UserWarning, match=r"optimizer\.step\(\) called without optimizer\.skip_synchronize\(\)"):
        optimizer.step()
    backward(model)
    with optimizer.skip_synchronize():
        with pytest.raises(AssertionError, match="without synchronize"):
            optimizer.step()
    optimizer.step()


def test_a_mismatch_of_one_gradient_leaves_the_optimizer_usable():
    weight = torch.nn.Parameter(torch.ones(2 + hvd.rank()))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=0.1), [("weight", weight)])
    weight.sum().backward()
    with pytest.raises(hvd.MismatchError, match="weight"):
        optimizer.step()
    optimizer.zero_grad()
    assert float(hvd.allreduce(torch.ones(1), op=hvd.Sum)) == hvd.size()


def test_a_mismatch_among_many_gradients_is_raised_once_the_others_are_done():
    weights = [torch.nn.Parameter(torch.ones(2 + hvd.rank() if number in (70, 90) else 2)) for number in range(100)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(weights, lr=0.1), [(f"weight.{n}", w) for n, w in enumerate(weights)], op=hvd.Sum)
    sum(weight.sum() for weight in weights).backward()
    held = next(m.handle for m in optimizer._reducer._members.values() if m.parameter is weights[90])
    for _ in range(2):  # the second time as well, should a signal have ended the first wait
        with pytest.raises(hvd.MismatchError, match="weight.(70|90)"):
            held.wait()
    with pytest.raises(hvd.MismatchError, match="weight.(70|90)"):
        optimizer.synchronize()
    assert all(float(w.grad[0]) == hvd.size() for number, w in enumerate(weights) if number not in (70, 90))
    optimizer.zero_grad()
    assert float(hvd.allreduce(torch.ones(1), op=hvd.Sum)) == hvd.size()


def test_a_name_in_flight_is_refused_where_the_gradient_is_enqueued():
    weights = [torch.nn.Parameter(torch.ones(2)) for _ in range(3)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(weights, lr=0.1), [(f"weight.{n}", w) for n, w in enumerate(weights)], op=hvd.Sum)
    sum(weight.sum() for weight in weights).backward()
    optimizer.synchronize()
    optimizer.zero_grad()
    taken = next(m.name.decode() for m in optimizer._reducer._members.values() if m.parameter is weights[1])
    if hvd.rank() == 0:
        early = hvd.allreduce_async_(torch.ones(2), name=taken, op=hvd.Sum)
        with pytest.raises(ValueError, match="weight.1"):
            sum(weight.sum() for weight in weights).backward()
        hvd.barrier()
        early.wait()
    else:
        hvd.barrier()
        hvd.allreduce_(torch.ones(2), name=taken, op=hvd.Sum)
        sum(weight.sum() for weight in weights).backward()
    optimizer.synchronize()
    assert all(float(weight.grad[0]) == hvd.size() for weight in weights)


def test_a_sparse_gradient_that_is_to_be_scaled_is_refused():
    table = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(table.parameters(), lr=0.1), table.named_parameters(), backward_passes_per_step=2,
        average_accumulated=True)  # fmt: skip
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(ValueError, match="sparse_as_dense"):
        table(torch.tensor([1])).sum().backward()
    optimizer._reducer.forget()


def test_parameters_that_come_later_are_refused():
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=0.1), [("w", weight)])
    with pytest.raises(ValueError, match="add_param_group"):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(2))]})


COPIES = [copy.copy, copy.deepcopy, pickle.dumps, lambda optimizer: torch.save(optimizer, io.BytesIO())]


@pytest.mark.parametrize("make", COPIES, ids=["copy", "deepcopy", "dumps", "save"])
def test_a_copy_is_refused_and_the_state_is_the_way(model, make):
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model.named_parameters())
    backward(model)
    optimizer.step()
    with pytest.raises(TypeError, match="cannot be copied or pickled.*state_dict"):
        make(optimizer)
    other = copy.deepcopy(model)
    inner = torch.optim.SGD(other.parameters(), lr=0.5, momentum=0.9)
    inner.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    again = hvd.DistributedOptimizer(inner, other.named_parameters())
    for each, with_optimizer in [(model, optimizer), (other, again)]:
        with_optimizer.zero_grad()
        backward(each)
        with_optimizer.step()
    assert torch.equal(model.weight, other.weight)


def test_a_synchronize_of_gradients_that_were_zeroed_is_none_of_the_next():
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=0.1), [("w", weight)])
    (weight.sum() * hvd.rank()).backward()
    optimizer.synchronize()
    optimizer.zero_grad()  # an overflow: the scaler leaves the step out
    (weight.sum() * hvd.rank()).backward()
    with pytest.raises(AssertionError, match="without synchronize"), optimizer.skip_synchronize():
        optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
    mean = sum(range(hvd.size())) / hvd.size()
    assert torch.allclose(weight.detach(), torch.full((2,), 1 - 0.1 * mean))


def test_a_second_distributed_optimizer_takes_the_parameters_over():
    first, later = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    plain = torch.optim.SGD([first], lr=0.0)
    before = hvd.DistributedOptimizer(plain, op=hvd.Sum)
    total = sum(range(1, hvd.size() + 1))
    (first * (hvd.rank() + 1)).sum().backward()
    before.step()
    before.zero_grad()
    plain.add_param_group({"params": [later]})
    optimizer = hvd.DistributedOptimizer(plain, op=hvd.Sum)
    for _ in range(2):
        ((first + later) * (hvd.rank() + 1)).sum().backward()
        optimizer.step()
        assert first.grad.tolist() == later.grad.tolist() == [total] * 3
        optimizer.zero_grad()
    with pytest.raises(AssertionError, match="a later distributed optimizer has taken over"):
        before.synchronize()
