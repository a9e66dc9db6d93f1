"""Training on all ranks is training on one with the joined batch."""

import pathlib
import sys
import threading

import pytest
import torch

import rueda.torch as hvd
from helpers import same_on_all_ranks

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "examples" / "torch"))
from large_batch import Lamb, Lars

BATCH = 4


def make_model():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).double()


def data(step):
    """The joined batch of a step: BATCH rows of every rank."""
    generator = torch.Generator().manual_seed(step)
    rows = torch.randn(BATCH * hvd.size(), 6, generator=generator, dtype=torch.float64)
    return rows, torch.randn(BATCH * hvd.size(), 3, generator=generator, dtype=torch.float64)


def part(tensor):
    return tensor[BATCH * hvd.rank() : BATCH * (hvd.rank() + 1)]


def loss_of(model, rows, targets):
    return torch.nn.functional.mse_loss(model(rows), targets)


def train(model, optimizer, steps=4, share=part, passes=1):
    for step in range(steps):
        optimizer.zero_grad()
        for number in range(passes):
            rows, targets = data(step * passes + number)
            loss_of(model, share(rows), share(targets)).backward()
        optimizer.step()
    return list(model.parameters())


FACTORIES = {
    "lars": lambda p: Lars(p, lr=5.0),
    "lamb": lambda p: Lamb(p, lr=0.05),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
}


def close(first, second):
    return all(torch.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in zip(first, second))


def reference(factory, **how):
    model = make_model()
    return train(model, factory(model.parameters()), share=lambda tensor: tensor, **how)


@pytest.mark.parametrize("which", FACTORIES)
@pytest.mark.parametrize("grouping", [{}, {"num_groups": 2}, {"groups": "lists"}], ids=["each", "number", "lists"])
def test_it_equals_one_rank_with_the_joined_batch(which, grouping):
    model = make_model()
    if grouping:
        grouping = {"groups": [list(model[0].parameters())]} if "groups" in grouping else grouping
    optimizer = hvd.DistributedOptimizer(FACTORIES[which](model.parameters()), model.named_parameters(), **grouping)
    assert isinstance(optimizer, type(FACTORIES[which](make_model().parameters())))
    trained = train(model, optimizer)
    assert close(trained, reference(FACTORIES[which]))
    assert all(same_on_all_ranks(parameter) for parameter in trained)


@pytest.mark.parametrize(
    "how",
    [
        {"gradient_predivide_factor": 2.0},
        {"op": hvd.Sum},
        {"compression": hvd.Compression.bf16},
        {"compression": hvd.Compression.fp16},
    ],
    ids=str,
)
def test_it_trains_alike_with_other_factors_and_codecs(how):
    model = make_model()
    rate = 0.1 / hvd.size() if how.get("op") == hvd.Sum else 0.1
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=rate), model.named_parameters(), **how)
    trained = train(model, optimizer)
    expected = reference(lambda p: torch.optim.SGD(p, lr=0.1))
    tolerance = 1e-2 if "compression" in how else 1e-9
    assert all(torch.allclose(a, b, atol=tolerance) for a, b in zip(trained, expected))
    assert all(same_on_all_ranks(parameter) for parameter in trained)


def test_accumulated_passes_are_reduced_once_and_add_up():
    model = make_model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.05), model.named_parameters(), backward_passes_per_step=3)  # fmt: skip
    assert close(train(model, optimizer, passes=3), reference(lambda p: torch.optim.SGD(p, lr=0.05), passes=3))


def test_the_last_window_may_have_fewer_passes():
    model = make_model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.05), model.named_parameters(), backward_passes_per_step=3)  # fmt: skip
    train(model, optimizer, steps=1, passes=3)
    trained = train(model, optimizer, steps=1, passes=2)
    other = make_model()
    plain = torch.optim.SGD(other.parameters(), lr=0.05)
    train(other, plain, steps=1, passes=3, share=lambda tensor: tensor)
    assert close(trained, train(other, plain, steps=1, passes=2, share=lambda tensor: tensor))


def test_accumulated_passes_can_be_averaged():
    model = make_model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), backward_passes_per_step=2,
        average_accumulated=True)  # fmt: skip
    trained = train(model, optimizer, passes=2)
    assert close(trained, reference(lambda p: torch.optim.SGD(p, lr=0.05), passes=2))


def test_the_number_of_passes_can_be_changed_between_steps():
    model = make_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.05), model.named_parameters())
    optimizer.set_backward_passes_per_step(2)
    assert close(train(model, optimizer, passes=2), reference(lambda p: torch.optim.SGD(p, lr=0.05), passes=2))


def test_a_closure_s_gradients_are_reduced_each_time():
    def lbfgs(parameters):
        return torch.optim.LBFGS(parameters, lr=0.1, max_iter=5, line_search_fn="strong_wolfe")

    def run(model, optimizer, share):
        rows, targets = data(0)

        def closure():
            optimizer.zero_grad()
            loss = loss_of(model, share(rows), share(targets))
            loss.backward()
            return hvd.allreduce(loss.detach())

        optimizer.step(closure)
        return list(model.parameters())

    model, other = make_model(), make_model()
    distributed = run(model, hvd.DistributedOptimizer(lbfgs(model.parameters()), model.named_parameters()), part)
    assert all(same_on_all_ranks(parameter) for parameter in distributed)
    assert close(distributed, run(other, lbfgs(other.parameters()), lambda tensor: tensor))


def test_gradients_can_be_clipped_between_synchronize_and_step():
    model, other = make_model(), make_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters())
    plain = torch.optim.SGD(other.parameters(), lr=1.0)
    rows, targets = data(0)
    loss_of(model, part(rows), part(targets)).backward()
    optimizer.synchronize()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    with optimizer.skip_synchronize():
        optimizer.step()
    loss_of(other, rows, targets).backward()
    assert torch.allclose(norm, torch.nn.utils.clip_grad_norm_(other.parameters(), 0.01))
    plain.step()
    assert close(model.parameters(), other.parameters())
    optimizer.zero_grad()


def test_a_parameter_that_some_ranks_do_not_use_is_reduced_with_zeros():
    shared, rare = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([shared, rare], lr=1.0), [("shared", shared), ("rare", rare)])
    loss = shared.sum() + (rare.sum() if hvd.rank() == 0 else 0)
    loss.backward()
    optimizer.step()
    assert torch.equal(shared.data, torch.zeros(2))
    assert torch.allclose(rare.data, torch.full((2,), 1.0 - 1.0 / hvd.size()))


@pytest.mark.parametrize("options", [{}, {"num_groups": 2}, {"gradient_as_buffer_view": True}, {"backward_passes_per_step": 2}], ids=str)
def test_parameters_that_were_frozen_are_reduced_once_they_are_not(options):
    model, plain = make_model(), make_model()
    passes = options.get("backward_passes_per_step", 1)
    for each in (model, plain):
        next(each.parameters()).requires_grad_(False)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), **options)
    other = torch.optim.SGD(plain.parameters(), lr=0.1)
    for step in range(4):
        if step == 2:
            for each in (model, plain):
                next(each.parameters()).requires_grad_(True)
        optimizer.zero_grad()
        other.zero_grad()
        rows, targets = data(step)
        for _ in range(passes):
            loss_of(model, part(rows), part(targets)).backward()
            loss_of(plain, rows, targets).backward()
        optimizer.step()
        other.step()
    assert close(model.parameters(), plain.parameters())


def test_shared_parameters_checkpointing_and_frozen_ones_are_fine():
    from torch.utils.checkpoint import checkpoint

    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(4, 4)
            self.second = torch.nn.Linear(4, 4)
            self.second.weight = self.first.weight
            self.frozen = torch.nn.Parameter(torch.ones(4), requires_grad=False)

        def forward(self, rows):
            return self.second(checkpoint(self.first, rows, use_reentrant=False)) * self.frozen

    torch.manual_seed(5)
    model = Tied()
    start = model.first.weight.detach().clone()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    model(torch.full((2, 4), float(hvd.rank() + 1))).sum().backward()
    optimizer.step()
    assert same_on_all_ranks(model.first.weight) and not torch.equal(model.first.weight, start)


def test_two_optimizers_over_one_model_keep_apart():
    model = make_model()
    first = hvd.DistributedOptimizer(torch.optim.SGD(model[0].parameters(), lr=0.1), model[0].named_parameters())
    second = hvd.DistributedOptimizer(torch.optim.Adam(model[2].parameters(), lr=0.1), model[2].named_parameters())
    rows, targets = data(0)
    loss_of(model, part(rows), part(targets)).backward()
    second.step()
    first.step()
    first.zero_grad()
    second.zero_grad()
    assert all(same_on_all_ranks(parameter) for parameter in model.parameters())


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
def test_param_groups_may_grow_in_options_and_schedulers_step():
    model = make_model()
    inner = torch.optim.SGD([{"params": model[0].parameters(), "lr": 0.5}, {"params": model[2].parameters()}], lr=0.1)
    early = torch.optim.lr_scheduler.StepLR(inner, 1, gamma=0.1)
    optimizer = hvd.DistributedOptimizer(inner, model.named_parameters())
    late = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.1)
    train(model, optimizer, steps=1)
    early.step()
    late.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.005)
    assert all(same_on_all_ranks(parameter) for parameter in train(model, optimizer, steps=2))


@pytest.mark.skipif(not hasattr(torch.optim.Optimizer, "register_step_pre_hook"), reason="this PyTorch has no such hooks")
def test_hooks_of_a_step_run_once_also_after_a_state_was_loaded():
    model = make_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    calls = []
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    optimizer.load_state_dict(optimizer.state_dict())
    train(model, optimizer, steps=1)
    assert calls == ["before", "after"]


def test_a_compiled_model_has_no_more_graph_breaks():
    testing = pytest.importorskip("torch._dynamo.testing", reason="this PyTorch has no torch.compile")
    model = make_model()
    counter = testing.CompileCounter()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    compiled = torch.compile(model, backend=counter, fullgraph=True)
    rows, targets = data(0)
    torch.nn.functional.mse_loss(compiled(part(rows)), part(targets)).backward()
    optimizer.step()
    assert counter.frame_count == 1
    assert close(model.parameters(), reference(lambda p: torch.optim.SGD(p, lr=0.1), steps=1))


def test_hooks_of_an_older_pytorch_do_the_same(monkeypatch):
    monkeypatch.delattr(torch.Tensor, "register_post_accumulate_grad_hook", raising=False)
    model = make_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    assert close(train(model, optimizer), reference(lambda p: torch.optim.SGD(p, lr=0.1)))


def many_weights(count=200):
    weights = [torch.nn.Parameter(torch.full((number % 5 + 1,), float(hvd.rank()))) for number in range(count)]
    named = [(f"weight.{number}", weight) for number, weight in enumerate(weights)]
    return weights, hvd.DistributedOptimizer(torch.optim.SGD(weights, lr=1.0), named, op=hvd.Sum)


@pytest.mark.parametrize("used", [200, 128, 64, 1, 0])
def test_many_small_gradients_are_all_reduced_however_many_the_backward_pass_makes(used):
    weights, optimizer = many_weights()
    for _ in range(2):
        if used > 0:
            sum((hvd.rank() + 1) * weight.sum() for weight in weights[:used]).backward()
        optimizer.synchronize()
        total = hvd.size() * (hvd.size() + 1) / 2
        assert all(torch.equal(weight.grad, torch.full_like(weight, total if number < used else 0.0)) for number, weight in enumerate(weights))
        for weight in weights:
            weight.grad = None


def test_hooks_may_run_on_several_threads():
    weights, optimizer = many_weights(80)
    often = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(40):
            losses = [sum((hvd.rank() + 1) * weight.sum() for weight in half) for half in (weights[:40], weights[40:])]
            threads = [threading.Thread(target=loss.backward) for loss in losses]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            optimizer.synchronize()
            total = hvd.size() * (hvd.size() + 1) / 2
            assert all(torch.equal(weight.grad, torch.full_like(weight, total)) for weight in weights)
            for weight in weights:
                weight.grad = None
    finally:
        sys.setswitchinterval(often)


def test_gradients_held_for_a_session_that_ended_are_reduced_in_the_next():
    weights, optimizer = many_weights(3)
    sum(weight.sum() for weight in weights[:2]).backward()  # the third is missing, so these are not enqueued yet
    hvd.shutdown()
    with pytest.raises(hvd.HorovodInternalError, match="init"):
        optimizer.synchronize()
    hvd.init()
    optimizer.synchronize()
    assert [float(weight.grad.sum()) for weight in weights] == [hvd.size(), 2.0 * hvd.size(), 0.0]


def test_sparse_gradients_are_reduced_as_dense_ones_on_request():
    table = torch.nn.Embedding(5, 2, sparse=True)
    torch.nn.init.ones_(table.weight)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(table.parameters(), lr=1.0), table.named_parameters(), sparse_as_dense=True)  # fmt: skip
    table(torch.tensor([hvd.rank()])).sum().backward()
    optimizer.step()
    expected = torch.ones(5, 2)
    expected[: hvd.size()] -= 1.0 / hvd.size()
    assert torch.allclose(table.weight.data, expected)


def test_the_optimizer_knows_the_names_of_its_parameters():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    model[1].bias.requires_grad_(False)
    groups = [{"params": list(layer.parameters())} for layer in model]
    unnamed = hvd.DistributedOptimizer(torch.optim.SGD(groups, lr=0.1))
    names = [f"allreduce.noname.{group}.{index}" for group in (0, 1) for index in (0, 1)]
    assert [unnamed._parameter_names[parameter] for parameter in model.parameters()] == names
    assert hvd.allgather_object(sorted(unnamed._parameter_names.values())) == [names] * hvd.size()
    named = hvd.DistributedOptimizer(torch.optim.SGD(groups, lr=0.1), model.named_parameters())
    assert named._parameter_names == {parameter: name for name, parameter in model.named_parameters()}
