"""Training that survives the death of workers, for every framework. A worker is a process of the job.

    @run
    def train(state):
        while state.step < 1000:
            ...                 # one step, with collectives
            state.step += 1
            state.commit()      # a copy of the state, and a look whether the workers change

    train(ObjectState(broadcast_object, rank, step=0))

rueda.torch.elastic has states for PyTorch. docs/guide/elastic-training.md has the rules.
"""

from rueda.elastic.loop import run, run_fn
from rueda.elastic.state import ObjectState, State
from rueda.errors import HorovodInternalError, HostsUpdatedInterrupt, RemovedError
from rueda.plans import HostUpdateResult, Membership, abort, membership, reset, worker_id

__all__ = [
    "HorovodInternalError", "HostUpdateResult", "HostsUpdatedInterrupt", "Membership", "ObjectState", "RemovedError", "State",
    "abort", "membership", "reset", "run", "run_fn", "worker_id",
]  # fmt: skip
