"""What ranks written in Python say about themselves."""

import json
import os
import subprocess
import sys

import pytest

import rueda
from conftest import NUMPY

STUCK = {
    "threading.Event().wait()": "script.py:6 in load_batch, which is in threading.py:",
    "exec('while True: pass')": "<string>:1 in <module>",
    "ctypes.PyDLL(None).pause()": "it did not answer within 1 s",  # keeps the GIL
}


@pytest.mark.parametrize("call", STUCK)
def test_a_stall_report_says_where_the_missing_rank_is_stuck_and_can_end_the_job(run_script, call):
    job = run_script(f"""
import ctypes, threading
def load_batch(): {call}
hvd.init()
hvd.allreduce(numpy.ones(3), name="first")
if hvd.rank() == 1:
    load_batch()
hvd.allreduce(numpy.ones(3), name="second")
""", "--stall-check-warning-time-seconds", "0.5", "--stall-check-shutdown-time-seconds", "1", imports=NUMPY)  # fmt: skip
    assert job.code != 0
    assert "stall for" in job.err and 'allreduce "second": submitted by rank 0' in job.err and "not by rank 1" in job.err
    assert 'has nothing in flight; its last was allreduce "first"' in job.err
    assert STUCK[call] in job.err
    assert "CollectiveTimeoutError: RUEDA_STALL_SHUTDOWN_TIME_SECONDS (1 s) has passed" in job.err.replace("rueda.errors.", "")


def test_a_timeline_is_started_and_stopped_while_the_job_runs_and_summed_up_in_words(run_script, tmp_path):
    job = run_script("""
hvd.init()
for part in ("one", "two"):
    hvd.start_timeline(part + ".json", mark_cycles=True)
    hvd.barrier()
    for step in range(10):
        hvd.allreduce(numpy.ones(1000), name=f"{part}.{step}")
    hvd.barrier()
    hvd.stop_timeline()
    hvd.barrier()
try:
    hvd.start_timeline("no/such/folder/t.json")
    print("nothing wrong here")
except hvd.HorovodInternalError as error:
    print("no/such/folder" in str(error))
hvd.barrier()
""", imports=NUMPY)  # fmt: skip
    assert job.code == 0, job.err
    assert job.lines(0) == ["True"] and job.lines(1) == ["nothing wrong here"]  # rank 0 writes for all
    for part in ("one", "two"):
        path = tmp_path / f"{part}.json"
        names = {(event["pid"], event["args"]["name"]) for event in json.loads(path.read_text()) if event["name"] == "thread_name"}
        assert {(rank, f"{part}.{step}") for rank in range(2) for step in range(10)} <= names
        program = os.path.join(os.path.dirname(rueda.__file__), "timeline_summary.py")
        said = subprocess.run([sys.executable, program, "summary", path], capture_output=True, text=True, check=True).stdout
        assert said.startswith("2 ranks, ") and "was the last" in said
