"""How ranks written in Python end, and what interrupts them."""

import os
import socket
import subprocess
import sys

import pytest
from conftest import NUMPY


def test_a_process_without_a_launcher_is_a_job_of_one_rank(tmp_path):
    text = "import torch, rueda.torch as hvd\nhvd.init()\nprint(hvd.size(), hvd.allreduce(torch.ones(2)).tolist())"
    assert subprocess.run([sys.executable, "-c", text], capture_output=True, text=True).stdout == "1 [1.0, 1.0]\n"


def test_an_exit_without_shutdown_is_clean_also_with_operations_in_flight(run_script):
    job = run_script("""
hvd.init()
lost = hvd.allreduce_async_(torch.ones(1000), name=f"of rank {hvd.rank()} alone")
hvd.barrier()  # no rank is behind when the first one leaves
print("done")
""")
    assert (job.code, job.err) == (0, "")
    assert job.lines(0) == job.lines(1) == ["done"]


def test_an_exception_on_one_rank_ends_the_job_and_is_told_last(run_script):
    job = run_script("""
hvd.init()
hvd.barrier()
if hvd.rank() == 1:
    raise KeyError("the learning rate of rank 1")
hvd.allreduce(numpy.ones(1))
""", ranks=3, imports=NUMPY)  # fmt: skip
    assert job.code == 1
    report = job.err[job.err.index("hvdrun: the first to fail") :]
    assert "rank 1" in report.splitlines()[0]
    assert "KeyError: 'the learning rate of rank 1'" in report


def test_the_code_of_who_leaves_in_the_middle_is_the_jobs(run_script):
    job = run_script("""
import sys
hvd.init()
hvd.barrier()
if hvd.rank() == 1:
    sys.exit(3)
hvd.allreduce(numpy.ones(1))
""", ranks=3, imports=NUMPY)  # fmt: skip
    assert job.code == 3, job.err
    report = job.err[job.err.index("hvdrun: the first to fail") :]
    assert "rank 1" in report.splitlines()[0] and "exited with code 3" in report.splitlines()[0]


def test_who_shuts_down_behind_an_error_is_named_though_others_fail_of_that_first(run_script):
    job = run_script("""
hvd.init()
try:
    for step in range(50):
        hvd.allreduce(numpy.ones(10), name="x")
        if step == 20 and hvd.rank() == 1:
            raise ValueError("bad data")
finally:
    hvd.shutdown()
""", ranks=3, imports=NUMPY)  # fmt: skip
    report = job.err[job.err.index("hvdrun: the first to fail") :]
    assert "rank 1" in report.splitlines()[0] and "ValueError: bad data" in report, job.err


@pytest.mark.parametrize("sends", ["os.kill(os.getpid(), signal.SIGINT)", "signal.pthread_kill(threading.get_ident(), signal.SIGINT)"],
                         ids=["to the process", "to another thread"])  # fmt: skip
def test_an_interrupt_ends_an_init_that_waits_for_others(sends):
    text = f"""
import os, signal, threading
import rueda.numpy as hvd
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs have none
try:
    threading.Timer(0.3, lambda: {sends}).start()
    hvd.init()
except KeyboardInterrupt:
    print("interrupted", hvd.is_initialized())
"""
    with socket.socket() as reserved:  # no other program gets the port; the rank, which reuses addresses, may listen there
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        alone = {"RUEDA_RANK": "0", "RUEDA_SIZE": "2", "RUEDA_STORE_ADDR": "127.0.0.1:%d" % reserved.getsockname()[1]}
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120,
                              env=dict(os.environ, RUEDA_INIT_TIMEOUT_SECONDS="10000", **alone))  # fmt: skip
    assert (done.stdout, done.returncode) == ("interrupted False\n", 0), done.stderr


def test_a_forked_child_is_no_rank_and_says_so(run_script):
    job = run_script("""
import os
hvd.init()
hvd.barrier()
child = os.fork()
if child == 0:
    try:
        hvd.allreduce(numpy.ones(1))
    except hvd.HorovodInternalError as error:
        print("child:", "fork" in str(error), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(hvd.allreduce(numpy.ones(1), op=hvd.Sum)[0])
""", imports=NUMPY)
    assert job.code == 0, job.err
    assert job.lines(0) == job.lines(1) == ["child: True", "2.0"]


def test_a_forked_child_that_calls_nothing_ends_without_a_word(run_script):
    job = run_script("""
import os, sys
hvd.init()
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
hvd.barrier()
""", imports=NUMPY)
    assert job.code == 0 and "rueda" not in job.err


def test_survivors_of_a_killed_rank_are_told_who_it_was(run_script):
    job = run_script("""
import os, signal
hvd.init()
hvd.barrier()
if hvd.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    hvd.allreduce(numpy.ones(1))
except hvd.PeerLostError as error:
    print("rank 1" in str(error), flush=True)
    raise
""", ranks=3, imports=NUMPY)  # fmt: skip
    assert job.code != 0
    assert job.lines(0) == job.lines(2) == ["True"]
    assert "rank 1" in job.err[job.err.index("hvdrun: the first to fail") :].splitlines()[0]
