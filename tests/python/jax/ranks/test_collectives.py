"""Operations give the formula, at once, under jit and under the transformations of JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import rueda.jax as hvd

FLOATS = ["float16", "bfloat16", "float32"]
INTEGERS = ["int8", "int16", "int32", "uint8", "uint16", "uint32"]


def value(rank, dtype):
    """What a rank puts in: small, so that every sum and product is exact in every dtype."""
    return ((np.arange(6).reshape(2, 3) + rank) % 4 + 1).astype(dtype)


def everyone(dtype="float32"):
    return np.stack([value(rank, dtype) for rank in range(hvd.size())])


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize("op", ["Sum", "Average", "Min", "Max", "Product"])
def test_an_allreduce_gives_the_formula(dtype, op):
    x = jnp.asarray(value(hvd.rank(), "float32"), dtype)
    all_ = everyone()
    wanted = {"Sum": all_.sum(0), "Average": all_.mean(0), "Min": all_.min(0), "Max": all_.max(0), "Product": all_.prod(0)}[op]
    wanted = wanted if dtype in FLOATS else np.trunc(wanted)
    for reduce in (hvd.allreduce, jax.jit(hvd.allreduce, static_argnums=1)):
        result = reduce(x, getattr(hvd, op))
        assert result.dtype == x.dtype
        np.testing.assert_allclose(np.asarray(result, "float32"), wanted, rtol=1e-2)


def test_bools_and_complex_numbers_are_reduced():
    mine = jnp.array([hvd.rank() == 0, False, True])
    assert jax.jit(lambda x: hvd.allreduce(x, hvd.Sum))(mine).tolist() == [True, False, True]
    assert hvd.allreduce(jnp.array([1 + 2j]), hvd.Sum).tolist() == [hvd.size() * (1 + 2j)]


def test_scales_multiply_the_input_and_the_sum():
    result = jax.jit(lambda x: hvd.allreduce(x, hvd.Sum, prescale_factor=0.5, postscale_factor=3.0))(jnp.ones(2))
    assert result.tolist() == [1.5 * hvd.size()] * 2


def test_rows_are_gathered_exchanged_and_dealt_out():
    n, r = hvd.size(), hvd.rank()
    gathered = jax.jit(lambda x: hvd.allgather(x))(jnp.full((2, 3), r))
    assert gathered[:, 0].tolist() == [rank for rank in range(n) for _ in range(2)]
    rows = list(range(1, n + 1))
    uneven = jax.jit(lambda x: hvd.allgather(x, rows=rows))(jnp.full((r + 1,), r))
    assert uneven.tolist() == [rank for rank in range(n) for _ in range(rank + 1)]
    assert hvd.allgather(jnp.float32(r)).tolist() == list(range(n))
    exchanged = jax.jit(hvd.alltoall)(jnp.arange(n) + 10 * r)
    assert exchanged.tolist() == [10 * rank + r for rank in range(n)]
    splits = [rank + 1 for rank in range(n)]
    sent = jnp.repeat(jnp.arange(n), jnp.array(splits)) + 10 * r
    got = hvd.alltoall(sent, splits=splits, received_splits=[r + 1] * n)
    assert got.tolist() == [10 * rank + r for rank in range(n) for _ in range(r + 1)]
    whole = np.arange(n + 1)
    share = jax.jit(lambda x: hvd.reducescatter(x, hvd.Sum))(jnp.asarray(whole))
    assert share.tolist() == (n * np.array_split(whole, n)[r]).tolist()


def test_a_broadcast_gives_the_root_s_array():
    root = hvd.size() - 1
    assert hvd.broadcast(jnp.full(3, hvd.rank()), root).tolist() == [root] * 3
    assert jax.jit(lambda x: hvd.broadcast(x, 0))(jnp.full(3, hvd.rank())).tolist() == [0] * 3


def test_a_group_runs_as_one_operation():
    xs = [jnp.ones(2), jnp.arange(3)]
    for results in (hvd.grouped_allreduce(xs, hvd.Sum, name="group"), jax.jit(lambda a: hvd.grouped_allreduce(a, hvd.Sum))(xs)):
        assert [result.tolist() for result in results] == [[hvd.size()] * 2, [0, hvd.size(), 2 * hvd.size()]]
    assert hvd.grouped_allreduce([]) == []


def test_operations_run_inside_scan_cond_and_while():
    @jax.jit
    def program(x):
        x, _ = lax.scan(lambda carry, _: (hvd.allreduce(carry, hvd.Sum, name="scan"), None), x, None, length=3)
        x = lax.cond(x[1] > 0, lambda v: hvd.allreduce(v, hvd.Average, name="cond"), lambda v: v, x)
        return lax.fori_loop(0, 2, lambda _, v: hvd.allreduce(v, hvd.Sum, name="loop"), x)

    assert program(jnp.arange(3.0)).tolist() == (np.arange(3) * hvd.size() ** 5).tolist()


def test_vmap_makes_one_operation_of_elementwise_ones_and_one_each_of_rows():
    n, x = hvd.size(), jnp.arange(6.0).reshape(3, 2)
    assert jax.jit(jax.vmap(lambda v: hvd.allreduce(v, hvd.Sum)))(x).tolist() == (n * np.asarray(x)).tolist()
    assert jax.jit(jax.vmap(lambda v: hvd.allgather(v)))(x).shape == (3, 2 * n)
    assert jax.vmap(lambda v: hvd.reducescatter(v, hvd.Sum))(jnp.ones((2, n))).tolist() == [[n]] * 2


def test_operations_run_inside_shard_map():
    from jax.sharding import Mesh, PartitionSpec

    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
    if hasattr(jax, "shard_map"):
        sharded = jax.shard_map(lambda v: hvd.allreduce(v, hvd.Sum), mesh=mesh, in_specs=PartitionSpec("d"), out_specs=PartitionSpec("d"))
    else:
        from jax.experimental.shard_map import shard_map

        sharded = shard_map(lambda v: hvd.allreduce(v, hvd.Sum), mesh, PartitionSpec("d"), PartitionSpec("d"), check_rep=False)
    assert jax.jit(sharded)(jnp.ones(4)).tolist() == [hvd.size()] * 4


def test_a_process_set_s_members_reduce_among_themselves():
    pair = hvd.add_process_set([0, 1])
    if pair.included():
        assert jax.jit(lambda x: hvd.allreduce(x, hvd.Sum, process_set=pair))(jnp.ones(2)).tolist() == [2, 2]
        assert hvd.allgather(jnp.array([hvd.rank()]), process_set=pair).tolist() == [0, 1]
    hvd.barrier()
    hvd.remove_process_set(pair)


def test_trees_are_reduced_and_broadcast_by_the_names_of_their_paths():
    tree = {"dense": {"kernel": jnp.full((2, 2), float(hvd.rank())), "bias": jnp.zeros(2)}, "out": [jnp.ones(1), None]}
    mean = (hvd.size() - 1) / 2
    for reduce in (hvd.allreduce_tree, jax.jit(hvd.allreduce_tree)):
        result = reduce(tree)
        assert result["dense"]["kernel"].tolist() == [[mean] * 2] * 2 and result["out"][0].tolist() == [1]
    text = jax.jit(hvd.allreduce_tree).lower(tree).as_text()
    assert "grads['dense']['kernel']" in text.replace("\\27", "'")
    assert hvd.broadcast_tree(tree, 0)["dense"]["kernel"].tolist() == [[0.0] * 2] * 2


def test_objects_travel():
    assert hvd.broadcast_object({"rank": hvd.rank()}, 1) == {"rank": 1}
    assert hvd.allgather_object("x" * hvd.rank()) == ["x" * rank for rank in range(hvd.size())]


def test_many_operations_of_one_program_finish_in_any_order():
    @jax.jit
    def program(x):
        late = x
        for _ in range(4):
            late = jnp.tanh(late @ late)
        return hvd.allreduce(late, hvd.Sum, name="late"), [hvd.allreduce(x + i, hvd.Sum, name=f"early.{i}") for i in range(20)]

    for _ in range(5):
        _, early = program(jnp.ones((64, 64)))
        assert [float(result[0, 0]) for result in early] == [hvd.size() * (1 + i) for i in range(20)]


def test_programs_in_flight_at_once_keep_their_order():
    program = jax.jit(lambda x: hvd.allreduce(x, hvd.Sum, name="again"))
    results = [program(jnp.full(1000, float(i))) for i in range(30)]
    assert [float(result[0]) for result in results] == [hvd.size() * i for i in range(30)]


def test_ranks_join():
    for _ in range(hvd.rank()):
        hvd.allreduce(jnp.ones(2), name="uneven")
    assert hvd.join() == hvd.size() - 1
