"""Rueda for JAX: collectives inside jit, grad, vmap, scan, cond and shard_map, and an optimizer for optax.

    import rueda.jax as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(optax.adam(1e-3))
    parameters = hvd.broadcast_tree(parameters, root_rank=0)

Start the script with `hvdrun -np 4 python train.py`; docs/guide/jax.md explains each step. Arrays are on the CPU.
"""

from rueda.jax import versions as _versions  # isort: skip  (first, since it says which JAX is needed)
from rueda import shared as _shared
from rueda.jax.calls import error_of
from rueda.jax.compression import Compression
from rueda.jax.ends import barrier, drain, join
from rueda.jax.optimizer import DistributedOptimizer
from rueda.jax.reductions import allreduce, grouped_allreduce, reducescatter
from rueda.jax.rows import allgather, alltoall, broadcast
from rueda.jax.trees import allreduce_tree, broadcast_tree
from rueda.shared import *

__all__ = _shared.__all__ + [
    "Compression", "DistributedOptimizer", "allgather", "allreduce", "allreduce_tree", "alltoall", "barrier", "broadcast",
    "broadcast_tree", "drain", "error_of", "grouped_allreduce", "join", "reducescatter",
]  # fmt: skip
