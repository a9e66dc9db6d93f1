"""JAX's peers: processes of jax.distributed with Gloo's collectives, and Rueda."""

import numpy as np
import turns

import rueda.numpy


def gradients(jax, hvd, mesh, shrink):
    """All peers average the same arrays, which are made before."""
    own = [jax.device_put(array, jax.local_devices()[0]) for array in turns.own_gradients(shrink)]
    everyone = [_shared(jax, mesh, array) for array in own]
    alone = jax.jit(lambda arrays: [array + 0 for array in arrays])
    ours = jax.jit(lambda arrays: hvd.allreduce_tree(arrays))
    theirs = jax.jit(_mapped(jax, lambda arrays: jax.lax.pmean(arrays, "ranks"), mesh, ("ranks",), "ranks"))
    return {"alone": _stepping(jax, alone, own), "Rueda, allreduce_tree": _stepping(jax, ours, own),
            "jax.distributed with Gloo": _stepping(jax, theirs, everyone)}  # fmt: skip


def training(jax, hvd, mesh, shrink):
    """Each step begins with the same weights; the averaged gradients and new weights are the result."""
    start, rows = turns.perceptron(shrink)

    def loss_of(weights, rows):
        for weight in weights:
            rows = jax.numpy.tanh(rows @ weight)
        return jax.numpy.mean(rows**2)

    def step_with(reduce):
        def step(weights, rows):
            found = reduce(jax.grad(loss_of)(weights, rows))
            return found, [weight - 1e-3 * gradient for weight, gradient in zip(weights, found)]

        return step

    device = jax.local_devices()[0]
    here = [jax.device_put(array, device) for array in start], jax.device_put(rows, device)
    replicated = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    weights = [jax.make_array_from_single_device_arrays(array.shape, replicated, [array]) for array in here[0]]
    there = weights, _shared(jax, mesh, here[1], stacked=False)
    alone = jax.jit(step_with(lambda found: found))
    ours = jax.jit(step_with(hvd.allreduce_tree))
    averaged = step_with(lambda found: jax.lax.pmean(found, "ranks"))
    theirs = jax.jit(_mapped(jax, averaged, mesh, (None, "ranks"), None))
    return {"alone": _stepping(jax, alone, *here), "Rueda, allreduce_tree": _stepping(jax, ours, *here),
            "jax.distributed with Gloo": _stepping(jax, theirs, *there)}  # fmt: skip


def _shared(jax, mesh, array, stacked=True):
    """An array of all ranks, whose part here is this array; `stacked`: with a dimension for the ranks in front."""
    part = array[None] if stacked else array
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("ranks"))
    return jax.make_array_from_single_device_arrays((rueda.numpy.size() * part.shape[0], *part.shape[1:]), sharding, [part])


def _mapped(jax, function, mesh, inputs, outputs):
    """shard_map() with a name of an axis, or None, for each argument and for all results."""
    specs = tuple(jax.sharding.PartitionSpec(*([name] if name else [])) for name in (*inputs, outputs))
    if hasattr(jax, "shard_map"):
        return jax.shard_map(function, mesh=mesh, in_specs=specs[:-1], out_specs=specs[-1], check_vma=False)
    from jax.experimental.shard_map import shard_map

    return shard_map(function, mesh=mesh, in_specs=specs[:-1], out_specs=specs[-1], check_rep=False)


def _stepping(jax, function, *arguments):
    def step():
        return [array.addressable_data(0) for array in jax.tree_util.tree_leaves(jax.block_until_ready(function(*arguments)))]

    return step


def run(options):
    rueda.numpy.init()
    ports = turns.free_ports()
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{ports[0]}", rueda.numpy.size(), rueda.numpy.rank())
    import rueda.jax as hvd

    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("ranks",))
    contests = {name: make(jax, hvd, mesh, options.shrink) for name, make in [("gradients", gradients), ("training", training)]}
    turns.take(contests, options, f"JAX {jax.__version__}")
