"""init() with a communicator of mpi4py's, under mpirun."""

import importlib.util
import os
import subprocess
import sys

import pytest

import rueda

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed: scripts/setup does")

SCRIPT = """
from mpi4py import MPI
import numpy
import rueda.numpy as hvd
world = MPI.COMM_WORLD
half = world.Split(world.rank % 2, -world.rank)
for turn in range(2):
    hvd.init(comm=half)
    hvd.init(comm=half)
    total = int(hvd.allreduce(numpy.array([10.0 ** world.rank]), op=hvd.Sum)[0])
    try:
        hvd.init(comm=world)
    except ValueError as error:
        told = "rank %d of a communicator of 4, but this process is already rank" % world.rank in str(error)
    hvd.shutdown()
print(world.gather((half.rank, half.size, total, told)), flush=True)
"""


def mpirun(ranks, text):
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    words = ["mpirun", "--oversubscribe", "--bind-to", "none", "--map-by", "slot", "--timeout", "300", "-np", str(ranks)]
    return subprocess.run([*words, sys.executable, "-c", text], capture_output=True, text=True, timeout=400, env=dict(os.environ, **root))


def test_the_ranks_of_a_communicator_are_the_job_in_its_order():
    done = mpirun(4, SCRIPT)
    assert done.returncode == 0, done.stderr
    halves = [(1, 2, 101, True), (1, 2, 1010, True), (0, 2, 101, True), (0, 2, 1010, True)]
    assert str(halves) in done.stdout, done.stdout + done.stderr


PART = """
import os, numpy
import rueda.numpy as hvd
me = int(os.environ["OMPI_COMM_WORLD_RANK"])
part = [[2, 0], [1, 3]][me % 2]
for turn in range(2):
    hvd.init(part)
    hvd.init(part)
    total = int(hvd.allreduce(numpy.array([10.0 ** me]), op=hvd.Sum)[0])
    try:
        hvd.init([0])
    except ValueError as error:
        told = "process set" in str(error)
    job = (hvd.rank(), hvd.size())
    hvd.shutdown()
hvd.init([3, 1, 2, 0])
print(f"{hvd.rank()} of {hvd.size()}, then {job} {total} {told}.", flush=True)
hvd.shutdown()
try:
    hvd.init([3 - me])
except ValueError as error:
    print("left out:", error, flush=True)
"""


def test_a_list_of_some_ranks_is_a_job_of_its_own():
    done = mpirun(4, PART)
    assert done.returncode == 0, done.stderr
    for rank, (job, total) in enumerate([((1, 2), 101), ((0, 2), 1010), ((0, 2), 101), ((1, 2), 1010)]):
        assert f"{rank} of 4, then {job} {total} True." in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("left out:") == 4, done.stdout + done.stderr


def test_a_communicator_that_is_none_is_refused():
    done = mpirun(1, "from mpi4py import MPI\nimport rueda.numpy as hvd\nhvd.init(comm=MPI.COMM_NULL)")
    assert done.returncode != 0 and "MPI_COMM_NULL" in done.stderr, done.stderr


def test_a_launcher_that_knows_nothing_of_mpi_makes_no_jobs_of_one():
    text = "from mpi4py import MPI\nimport rueda.numpy as hvd\nhvd.init(comm=MPI.COMM_WORLD)"
    hvdrun = os.path.join(os.path.dirname(rueda.__file__), "bin", "hvdrun")
    done = subprocess.run([hvdrun, "-np", "2", sys.executable, "-c", text], capture_output=True, text=True, timeout=400)
    assert done.returncode != 0
    assert "reports that it started 1 rank, but the variables of hvdrun say 2" in done.stderr, done.stderr


def test_a_process_that_nobody_launched_is_a_job_of_one_with_mpi_imported():
    text = "from mpi4py import MPI\nimport rueda.numpy as hvd\nhvd.init()\nprint(hvd.size(), MPI.COMM_WORLD.size)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=400)
    assert done.stdout == "1 1\n", done.stderr
