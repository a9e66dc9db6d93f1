"""What cannot be done is refused with a sentence, on every rank and with nothing enqueued, or ends in one exception."""

import jax
import jax.numpy as jnp
import pytest

import rueda.jax as hvd
from rueda import session, watchers


@pytest.mark.parametrize("call, sentence", [
    (lambda: hvd.allreduce(jnp.ones(2), op=77), "op=77 is not an operator"),
    (lambda: hvd.allreduce([jnp.ones(2)]), "give an array, not a list"),
    (lambda: hvd.allreduce(jnp.ones(2), compression=3), "compression=3: give Compression.none"),
    (lambda: hvd.allreduce("text"), "is not an array|is not supported"),
    (lambda: hvd.allreduce(jax.random.key(0)), "dtype key<fry> is not supported; bool, int8"),
    (lambda: hvd.allreduce(jnp.ones(2, "float8_e5m2")), "dtype float8_e5m2 is not supported"),
    (lambda: hvd.allreduce(jnp.ones((1,) * 17)), "17 dimensions; at most 16"),
    (lambda: hvd.allreduce(jnp.ones(2), name=""), "give 1 to 1024 bytes"),
    (lambda: hvd.allreduce(jnp.ones(2), name="a\nb"), "without line breaks"),
    (lambda: hvd.allreduce(jnp.ones(2), process_set=hvd.ProcessSet([0])), "belongs to no job"),
    (lambda: hvd.broadcast(jnp.ones(2), "0"), "root_rank='0' is a str"),
    (lambda: hvd.reducescatter(jnp.float32(1)), "an array of no dimension has none"),
    (lambda: hvd.alltoall(jnp.ones(1)), "cannot be dealt out evenly"),
    (lambda: hvd.alltoall(jnp.ones(4), splits=[1]), "both splits= and received_splits="),
    (lambda: hvd.alltoall(jnp.ones(4), splits=[9] * hvd.size(), received_splits=[1] * hvd.size()), "add up to"),
    (lambda: hvd.allgather(jnp.ones(2), rows=[7] * hvd.size()), "7 for this rank, but its array has 2 rows"),
    (lambda: hvd.grouped_allreduce(jnp.ones(2)), "give a list of arrays"),
])  # fmt: skip
def test_wrong_arguments_raise_value_error(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
    with pytest.raises(ValueError, match=sentence):
        jax.jit(lambda: call())()


def test_a_name_used_twice_in_one_program_is_refused():
    with pytest.raises(ValueError, match="name='same': this program has an operation of that name already"):
        jax.jit(lambda x: hvd.allreduce(x, name="same") + hvd.allreduce(2 * x, name="same"))(jnp.ones(2))
    with pytest.raises(ValueError, match="name=.grads.*already"):
        jax.jit(lambda x: hvd.allreduce_tree(hvd.allreduce_tree({"a": x})))(jnp.ones(2))
    again = jax.jit(lambda x: sum(hvd.allreduce(x, hvd.Sum) for _ in range(3)))  # without names, each gets its own
    assert again(jnp.ones(2)).tolist() == [3 * hvd.size()] * 2


def test_a_root_that_does_not_exist_ends_in_value_error_at_once_and_in_jax_s_error_in_a_program():
    with pytest.raises(ValueError, match="root"):
        hvd.broadcast(jnp.ones(2), 99, name="no root")
    program = jax.jit(lambda x: hvd.broadcast(x, 99, name="no root"))
    with pytest.raises(RuntimeError, match="root") as caught:
        jax.block_until_ready(program(jnp.ones(2)))
    assert isinstance(hvd.error_of(caught.value), ValueError)


def test_rows_that_differ_without_a_list_of_them_name_the_remedy():
    array, remedy = jnp.ones(1 + hvd.rank()), r"has shape .* arrived; if ranks give different numbers of rows, tell .*: rows=\[...\]$"
    with pytest.raises(ValueError, match=remedy):
        hvd.allgather(array, name="rows")
    with pytest.raises(RuntimeError, match="has shape") as caught:
        jax.block_until_ready(jax.jit(lambda x: hvd.allgather(x, name="rows of program"))(array))
    assert str(hvd.error_of(caught.value)).endswith("rows=[...]")
    assert hvd.allgather(array, rows=range(1, hvd.size() + 1)).shape == (sum(range(1, hvd.size() + 1)),)


def test_shapes_that_differ_are_told_to_every_rank():
    sentence = 'allreduce "shapes": shape differs: rank 0 .* sent \\[3\\]'
    with pytest.raises(hvd.MismatchError, match="^" + sentence):
        hvd.allreduce(jnp.ones(2 + (hvd.rank() == 0)), name="shapes")
    with pytest.raises(RuntimeError, match=sentence) as caught:
        jax.block_until_ready(jax.jit(lambda x: hvd.allreduce(x, name="shapes"))(jnp.ones(2 + (hvd.rank() == 0))))
    assert isinstance(hvd.error_of(caught.value), hvd.MismatchError)
    assert hvd.error_of(RuntimeError("INTERNAL: something else")) is None
    assert hvd.allreduce(jnp.ones(2), hvd.Sum).tolist() == [hvd.size()] * 2, "the session stays usable"


def test_rows_that_were_not_told_end_in_value_error():
    rows = 1 + (hvd.rank() == 0)
    with pytest.raises(ValueError, match="shape"):
        hvd.allgather(jnp.ones((rows, 2)), name="untold")


def test_programs_of_a_new_worker_of_a_running_job_are_refused_until_its_training_begins():
    here = session.current()
    compiled = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum, name="early"))
    assert compiled(jnp.ones(1)).tolist() == [hvd.size()]
    here.__class__ = session._Newcomer
    try:
        for watcher in watchers.added:
            session._announce(here, watcher)
        with pytest.raises(Exception, match="a compiled operation: this process is a new worker of a running job"):
            compiled(jnp.ones(1)).block_until_ready()
    finally:
        here.begin_training()
    assert compiled(jnp.ones(1)).tolist() == [hvd.size()]
