"""Elastic training with PyTorch: the model and the optimizer survive the death of workers.

    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, epoch=0, batch=0)

    @hvd.elastic.run
    def train(state):
        ...
        state.commit()

    train(state)
"""

from rueda.elastic import HorovodInternalError, HostsUpdatedInterrupt, HostUpdateResult, ObjectState, State, run_fn
from rueda.torch.elastic.handlers import (
    ModelStateHandler,
    OptimizerStateHandler,
    SamplerStateHandler,
    ScalerStateHandler,
    StateHandler,
    get_handler_registry,
    set_handler_registry,
)
from rueda.torch.elastic.running import run
from rueda.torch.elastic.sampler import ElasticSampler
from rueda.torch.elastic.state import TorchState

__all__ = [
    "ElasticSampler", "HorovodInternalError", "HostUpdateResult", "HostsUpdatedInterrupt", "ModelStateHandler", "ObjectState",
    "OptimizerStateHandler", "SamplerStateHandler", "ScalerStateHandler", "State", "StateHandler", "TorchState",
    "get_handler_registry", "run", "run_fn", "set_handler_registry",
]  # fmt: skip
