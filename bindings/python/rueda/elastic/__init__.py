"""Training as a function of a state that is committed, restored and made equal on all ranks, for every framework.

    @run
    def train(state):
        while state.step < 1000:
            ...                 # one step, with collectives
            state.step += 1
            state.commit()      # a copy of the state, and a look whether the workers change

    train(ObjectState(broadcast_object, rank, step=0))

rueda.torch.elastic has states for PyTorch.
"""

from rueda.elastic.loop import run, run_fn
from rueda.elastic.state import ObjectState, State
from rueda.errors import HorovodInternalError, HostsUpdatedInterrupt
from rueda.plans import HostUpdateResult

__all__ = [
    "HorovodInternalError", "HostUpdateResult", "HostsUpdatedInterrupt", "ObjectState", "State", "run", "run_fn",
]  # fmt: skip
