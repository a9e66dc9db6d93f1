"""Whole scripts for Keras 3 on JAX and on PyTorch, and for several frameworks in one process."""

import re

import pytest

IMPORTS = "import os, sys, time\nimport numpy as np\n\n"

# Without a single limit nothing but the news of the death can end a wait, so that the job ends at all is the proof.
NO_LIMITS = {"RUEDA_TIMEOUT_SECONDS": "0", "RUEDA_PEER_TIMEOUT_SECONDS": "0", "RUEDA_STALL_CHECK_DISABLE": "1"}

FIT = """
import signal, statistics
import keras
import rueda.keras as hvd

hvd.init()
ends = []
class Die(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        ends.append(time.time())
        if int(self.model.optimizer.iterations) >= 20 and hvd.rank() == 1:
            with open("killed", "w") as file:
                file.write(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2), keras.layers.Dense(1)])
model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam(0.001 * hvd.size())), loss="mse")
x = np.ones((16, 4), "float32")
callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
model.fit(x, x.sum(1), batch_size=8, epochs=1, verbose=0, callbacks=callbacks)
print("trained", flush=True)
try:
    model.fit(x, x.sum(1), batch_size=8, epochs=100000, verbose=0, callbacks=[Die()])
except Exception as error:
    after = time.time() - float(open("killed").read())
    step = statistics.median(end - begin for begin, end in zip(ends, ends[1:]))
    print(f"raised {after:.3f} s = {after / step:.1f} steps after", str(error).replace(chr(10), " "), flush=True)
    raise
"""


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_a_rank_killed_in_model_fit_ends_every_rank(run_script, backend):
    job = run_script(FIT, ranks=3, imports=IMPORTS, environment={"KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu", **NO_LIMITS})
    assert job.code != 0 and "killed by signal 9" in job.err, job.out + job.err
    for rank in (0, 2):
        said = job.lines(rank)
        assert said[0] == "trained", job.out + job.err
        found = re.match(r"raised (.* steps) after .*rank 1 \(host .*, pid \d+\)", said[-1])
        assert found, said
        print(f"{backend}: rank {rank} raised {found[1]} after the kill")


def test_torch_numpy_and_jax_share_a_session_and_are_in_flight_together(run_script):
    job = run_script("""
import jax, jax.numpy as jnp
import torch
import rueda.jax, rueda.numpy, rueda.torch
rueda.numpy.init()
size, rank = rueda.jax.size(), rueda.torch.rank()
step = jax.jit(lambda x: rueda.jax.allreduce(x, rueda.jax.Sum, name="of jax"))
for turn in range(20):
    # Ranks begin in different orders, and all three are in flight at once.
    begin = {
        "torch": lambda: rueda.torch.allreduce_async(torch.full((3,), float(turn)), op=rueda.torch.Sum, name="of torch"),
        "numpy": lambda: rueda.numpy.allreduce_async(np.full(3, turn), op=rueda.numpy.Sum, name="of numpy"),
        "jax": lambda: step(jnp.full(3, float(turn))),
    }
    begun = {name: begin[name]() for name in (sorted(begin) if rank == 0 else sorted(begin, reverse=True))}
    assert rueda.torch.synchronize(begun["torch"]).tolist() == [turn * size] * 3
    assert begun["numpy"].wait().tolist() == begun["jax"].tolist() == [turn * size] * 3
both = rueda.torch.allreduce(torch.from_dlpack(jnp.arange(3.0)), op=rueda.torch.Sum)
assert rueda.numpy.allgather(both).tolist() == [0.0, float(size), 2.0 * size] * size
rueda.torch.shutdown()
print(rueda.jax.is_initialized(), rueda.numpy.is_initialized())
""", imports=IMPORTS, environment={"JAX_PLATFORMS": "cpu"})  # fmt: skip
    assert job.code == 0 and job.lines(0) == job.lines(1) == ["False False"], job.out + job.err
