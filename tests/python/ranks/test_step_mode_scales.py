"""Points between steps of several optimizers, some of which a GradScaler skips."""

import pytest
import torch
from test_step_mode import begun, distributed, left

import rueda.torch as hvd
from rueda.torch.elastic import TorchState


@pytest.mark.skipif(not hasattr(torch.amp, "GradScaler"), reason="this PyTorch has no GradScaler for CPUs")
def test_a_step_that_a_loss_scale_skips_counts_as_taken_when_optimizers_are_compared():
    parts = [torch.nn.Linear(2, 1, bias=False), torch.nn.Linear(2, 1, bias=False)]
    optimizers, scaler = [distributed(part) for part in parts], torch.amp.GradScaler("cpu", init_scale=1024.0)
    state = begun(TorchState(a=parts[0], b=parts[1], first=optimizers[0], second=optimizers[1], scaler=scaler, step_mode=True))

    def gradient(number, skipped=False):
        optimizers[number].zero_grad()
        scaler.scale(parts[number](torch.ones(1, 2)).sum() * (float("inf") if skipped and hvd.rank() == 1 else 1.0)).backward()
        return state._standing.point[1]

    def update(number):
        optimizers[number].synchronize()
        scaler.unscale_(optimizers[number])
        with optimizers[number].skip_synchronize():
            scaler.step(optimizers[number])

    points = []
    for skipped in [(), (1,), (0,), (0, 1), (1,), ()]:
        for number in (0, 1):
            points.append(gradient(number, number in skipped))
            update(number)
        scaler.update()
    # Each first gradient of a round is a point, unless the round before has changed nothing; the second one of a round never is.
    assert points == [0, 0, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4] and [each._begun for each in optimizers] == [4, 3]
    gradient(0)
    gradient(1)
    for optimizer in optimizers:
        optimizer.synchronize()
        scaler.unscale_(optimizer)
    with optimizers[0].skip_synchronize():
        scaler.step(optimizers[0])
    before = state._standing.point[1]
    scaler.scale(parts[0](torch.zeros(1, 2)).sum()).backward()
    assert state._standing.point[1] == before  # the second has been unscaled, and is yet to step
    with optimizers[1].skip_synchronize():
        scaler.step(optimizers[1])
    assert not left(state)
    hvd.barrier()
