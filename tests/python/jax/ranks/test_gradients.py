"""Gradients are those of the sum of all ranks' losses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rueda.jax as hvd


def of_all(rank):
    return np.array([[1.0, 2.0], [3.0, 0.5]], "float32") * (rank + 1) + np.float32(rank == 1)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("op", ["Sum", "Average", "Min", "Max", "Product"])
def test_the_gradient_of_an_allreduce_is_that_of_the_whole_job_s_loss(op, jit):
    def loss(x, weight):
        return (weight * hvd.allreduce(x, getattr(hvd, op), name="y", prescale_factor=2.0) ** 2).sum()

    def whole(xs):
        stacked = 2.0 * xs
        y = {"Sum": stacked.sum(0), "Average": stacked.mean(0), "Min": stacked.min(0), "Max": stacked.max(0), "Product": stacked.prod(0)}[op]
        return sum((rank + 1.0) * (y**2).sum() for rank in range(hvd.size()))

    gradient = jax.grad(loss)
    mine = (jax.jit(gradient) if jit else gradient)(jnp.asarray(of_all(hvd.rank())), hvd.rank() + 1.0)
    wanted = jax.grad(whole)(jnp.stack([of_all(rank) for rank in range(hvd.size())]))[hvd.rank()]
    np.testing.assert_allclose(mine, wanted, rtol=1e-4)


def test_ranks_that_share_a_maximum_share_its_gradient_and_zeros_do_not_spoil_a_product():
    tied = jax.grad(lambda x: hvd.allreduce(x, hvd.Max).sum())(jnp.ones(2))
    np.testing.assert_allclose(tied, np.ones(2))  # the losses of all ranks, divided among all ranks
    mine = jnp.array([0.0 if hvd.rank() == 0 else 2.0, 0.0])
    gradient = jax.grad(lambda x: hvd.allreduce(x, hvd.Product).sum())(mine)
    first = hvd.size() * 2.0 ** (hvd.size() - 1) if hvd.rank() == 0 else 0.0
    np.testing.assert_allclose(gradient, [first, 0.0])


def test_rows_have_gradients():
    n, r = hvd.size(), hvd.rank()
    weights = jnp.arange(2.0 * n)
    np.testing.assert_allclose(jax.grad(lambda x: (weights * hvd.allgather(x)).sum())(jnp.ones(2)), n * weights[2 * r : 2 * r + 2])
    rows = list(range(1, n + 1))
    uneven = jnp.arange(float(sum(rows)))
    gradient = jax.jit(jax.grad(lambda x: (uneven * hvd.allgather(x, rows=rows)).sum()))(jnp.ones(r + 1))
    np.testing.assert_allclose(gradient, n * uneven[sum(rows[:r]) : sum(rows[: r + 1])])
    np.testing.assert_allclose(jax.grad(lambda x: (r + 1.0) * hvd.alltoall(x).sum())(jnp.ones(n)), np.arange(n) + 1)
    mean = jax.grad(lambda x: (r + 1.0) * hvd.reducescatter(x).sum())(jnp.ones(n))
    np.testing.assert_allclose(mean, (np.arange(n) + 1) / n, rtol=1e-6)
    root = jax.grad(lambda x: (r + 1.0) * hvd.broadcast(x, 1).sum())(jnp.ones(2))
    np.testing.assert_allclose(root, [sum(range(1, n + 1)) if r == 1 else 0.0] * 2)


def test_gradients_pass_through_vmap_scan_and_checkpoint():
    def loss(x):
        x = jax.vmap(lambda v: hvd.allreduce(v, hvd.Sum, name="inner"))(x)
        x, _ = jax.lax.scan(lambda c, _: (hvd.allreduce(c, hvd.Average, name="scan"), None), x, None, length=2)
        return jax.checkpoint(lambda v: jnp.sin(hvd.allreduce(v, hvd.Average, name="again")))(x).sum()

    gradient = jax.jit(jax.grad(loss))(jnp.full((2, 3), 0.1))
    np.testing.assert_allclose(gradient, np.full((2, 3), hvd.size() * np.cos(0.1 * hvd.size())), rtol=1e-5)


def test_integers_beside_numbers_have_no_gradient():
    gradient = jax.grad(lambda x: hvd.grouped_allreduce([x, jnp.arange(2)], hvd.Sum)[0].sum())(jnp.ones(2))
    assert gradient.tolist() == [hvd.size()] * 2


def test_adasum_has_no_gradient():
    with pytest.raises(NotImplementedError, match="no gradient; Sum, Average, Min, Max and Product have"):
        jax.grad(lambda x: hvd.allreduce(x, hvd.Adasum, name="adasum").sum())(jnp.ones(2))
    hvd.barrier()
