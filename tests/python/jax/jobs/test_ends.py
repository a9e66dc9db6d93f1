"""How jobs with JAX end: by themselves, by a rank that dies, and by wrong use."""

import subprocess
import sys

import pytest

from rueda.jax import versions


def test_programs_in_flight_at_exit_run_to_their_end(run_jax):
    job = run_jax("""
hvd.init()
def program(x):
    for i in range(10):
        x = hvd.allreduce(jnp.tanh(x @ x), hvd.Average, name=f"layer.{i}")
    return x
x = jnp.ones((400, 400)) * 1e-3
result = jax.jit(program)(x)
if hvd.rank() == 1:
    result.block_until_ready()
    print("has", result.shape)
""")
    assert job.code == 0, job.err
    assert job.lines(1) == ["has (400, 400)"]


def test_a_rank_that_is_killed_ends_the_others_programs(run_jax):
    job = run_jax("""
hvd.init()
step = jax.jit(lambda x: hvd.allreduce(x, hvd.Sum, name="step"))
jax.block_until_ready(step(jnp.ones(3)))
if hvd.rank() == 1:
    os.kill(os.getpid(), 9)
try:
    jax.block_until_ready(step(jnp.ones(3)))
except Exception as error:
    ours = hvd.error_of(error)
    print(type(ours).__name__, "rank 1" in str(ours), flush=True)
    raise
""")
    assert job.code != 0 and job.lines(0) == ["PeerLostError True"], job.out + job.err


@pytest.mark.skipif(not versions.HAS_FUTURES, reason="without futures JAX waits in the call itself")
def test_an_exception_while_a_program_waits_for_others_ends_the_job(run_jax):
    job = run_jax("""
hvd.init()
hvd.barrier()
if hvd.rank() == 0:
    waiting = jax.jit(lambda x: hvd.allreduce(x @ x, name="alone"))(jnp.ones((400, 400)))  # large, or JAX waits in the call
    raise KeyError("a mistake on rank 0")
jax.block_until_ready(jax.jit(lambda x: hvd.allreduce(x, name="other"))(jnp.ones(3)))
""")
    assert job.code != 0 and "a mistake on rank 0" in job.err


def test_operations_before_init_and_after_shutdown_say_so(run_jax):
    job = run_jax("""
try:
    hvd.allreduce(jnp.ones(2))
except hvd.NotInitializedError as error:
    print(error)
hvd.init()
program = jax.jit(lambda x: hvd.allreduce(x, hvd.Sum, name="x"))
print(program(jnp.ones(1)))
pair = hvd.add_process_set([0, 1])
within = jax.jit(lambda x: hvd.allreduce(x, hvd.Sum, name="x", process_set=pair))
print(within(jnp.ones(1)))
hvd.shutdown()
for call in (program, lambda x: hvd.allreduce(x)):
    try:
        jax.block_until_ready(call(jnp.ones(1)))
    except Exception as error:
        print(hvd.error_of(error))
hvd.init()
print(program(jnp.ones(1)))
try:
    jax.block_until_ready(within(jnp.ones(1)))
except Exception as error:
    print(hvd.error_of(error))
""")
    assert job.code == 0, job.err
    not_yet = "Rueda is not initialised: call init() first"
    ended = "Rueda has been shut down: call init() again"
    traced = "this program was traced with a process set of a session that has ended"
    lines = job.lines(0)
    assert lines[:-1] == [not_yet, "[2.]", "[2.]", ended, not_yet, "[2.]"] and lines[-1].startswith(traced), lines


def test_a_process_that_was_forked_is_told_so(run_jax):
    job = run_jax("""
import warnings
warnings.simplefilter("ignore")
hvd.init()
child = os.fork()
if child == 0:
    try:
        hvd.allreduce(jnp.ones(2))
    except hvd.NotInitializedError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(hvd.allreduce(jnp.ones(1), hvd.Sum))
""")
    assert job.code == 0, job.err
    assert "was forked from rank 0" in job.lines(0)[0] and job.lines(0)[1] == "[2.]"


def test_arrays_of_numpy_and_jax_share_one_session(run_jax):
    job = run_jax("""
import rueda.numpy
rueda.numpy.init()
print(hvd.is_initialized(), hvd.allreduce(jnp.ones(1), hvd.Sum), rueda.numpy.allreduce(np.ones(1), op=rueda.numpy.Sum))
hvd.shutdown()
print(rueda.numpy.is_initialized())
""")
    assert job.code == 0 and job.lines(1) == ["True [2.] [2.]", "False"], job.err


def test_processes_of_jax_distributed_use_it_beside_jax_s_own_collectives(run_jax):
    job = run_jax("""
import socket
hvd.init()
with socket.socket() as taken:
    taken.bind(("127.0.0.1", 0))
    port = taken.getsockname()[1]
port = hvd.broadcast_object(port)
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"127.0.0.1:{port}", hvd.size(), hvd.rank())
own = jnp.full((1, 2), hvd.rank() + 1.0)
print(hvd.allreduce(own, hvd.Sum), jax.jit(lambda x: hvd.allreduce(x, hvd.Sum, name="x"))(own))
everyone = jax.sharding.NamedSharding(jax.sharding.Mesh(np.array(jax.devices()), "r"), jax.sharding.PartitionSpec("r"))
array = jax.make_array_from_single_device_arrays((2, 2), everyone, [own])
print(jax.jit(jnp.sum)(array))
hvd.shutdown()
jax.distributed.shutdown()
""")
    for rank in (0, 1):
        said = [line for line in job.lines(rank) if not line.startswith("[Gloo]")]
        assert job.code == 0 and said == ["[[3. 3.]] [[3. 3.]]", "6.0"], job.out + job.err


def test_a_jax_that_is_missing_or_too_old_is_named(tmp_path):
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("raise ImportError('there is none')\n")
    text = "import sys; sys.path.insert(0, sys.argv[1]); import rueda.jax"
    done = subprocess.run([sys.executable, "-c", text, str(tmp_path)], capture_output=True, text=True)
    assert "rueda.jax needs JAX 0.4.31 or later, which cannot be imported: there is none" in done.stderr
    old = "import jax; jax.__version__ = '0.4.30'; import rueda.jax"
    done = subprocess.run([sys.executable, "-c", old], capture_output=True, text=True)
    assert "jax 0.4.30 is installed; rueda.jax needs 0.4.31 or later" in done.stderr
