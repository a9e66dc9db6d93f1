"""torch.compile calls what it finds of Rueda's and compiles what is around it."""

import pytest
import torch

import rueda.torch as hvd

pytest.importorskip("torch._dynamo.testing", reason="this PyTorch has no torch.compile")

CALLS = {
    "allreduce": lambda t: hvd.allreduce(t, op=hvd.Sum),
    "grouped_allreduce": lambda t: sum(hvd.grouped_allreduce([t, t + 1])),
    "allgather": lambda t: hvd.allgather(t, name="gathered"),
    "broadcast": lambda t: hvd.broadcast(t, 1),
    "alltoall": hvd.alltoall,
    "reducescatter": lambda t: hvd.reducescatter(t, op=hvd.Sum),
    "allreduce_async": lambda t: hvd.synchronize(hvd.allreduce_async(t.detach(), process_set=hvd.global_process_set)) * t,
}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function):
    """The function compiled, and a counter of the graphs."""
    counter = torch._dynamo.testing.CompileCounter()
    return torch.compile(function, backend=counter), counter


@pytest.mark.parametrize("name", CALLS)
def test_a_collective_stands_between_two_graphs_and_gradients_flow(name):
    def function(tensor):
        return (CALLS[name](tensor * 3) + 1) * (hvd.rank() + 2)

    ours, counter = compiled(function)
    results = []
    for run in (function, ours, ours):
        tensor = (torch.arange(2.0 * hvd.size()) + hvd.rank()).requires_grad_()
        result = run(tensor)
        result.sum().backward()
        results.append((result, tensor.grad))
    for result, gradient in results[1:]:
        assert torch.equal(result, results[0][0]) and torch.equal(gradient, results[0][1])
    assert counter.frame_count >= 2


def layers():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(4, 4), hvd.SyncBatchNorm(4), torch.nn.Linear(4, 2)).double()


def trained(step_of):
    model = layers()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    step = step_of(model, optimizer)
    for number in range(3):
        rows = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(10 * number + hvd.rank()))
        step(rows)
    return list(model.parameters())


def plain_step(model, optimizer):
    def step(rows):
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()

    return step


def compiled_model(model, optimizer):
    return plain_step(torch.compile(model, backend="eager"), optimizer)


def compiled_step(model, optimizer):
    return torch.compile(plain_step(model, optimizer), backend="eager")


@pytest.mark.parametrize("step_of", [compiled_model, compiled_step])
@pytest.mark.parametrize("compiled_autograd", [False, True])
def test_training_with_batch_norm_over_all_ranks_gives_the_same_parameters(step_of, compiled_autograd):
    if compiled_autograd and not hasattr(torch._dynamo.config, "compiled_autograd"):
        pytest.skip("this PyTorch does not compile autograd")
    expected = trained(plain_step)
    if compiled_autograd:
        with torch._dynamo.config.patch(compiled_autograd=True):
            parameters = trained(step_of)
    else:
        parameters = trained(step_of)
    assert all(torch.allclose(a, b) for a, b in zip(parameters, expected))
