"""A job whose hvdrun is killed goes on as a new job, from the commits on disk, to the state of a job that nothing ended."""

import fcntl
import json
import os
import subprocess
import sys

from conftest import TORCH, _jobs
from test_jobs import LOOP, STEPS, TRAINING, replayed

# Worker 0 kills hvdrun behind the commit of step 10 and waits for its own end. A shared lock is held until a worker ends.
BEGIN = f"""
import fcntl, os, signal
STEPS, VICTIMS, RESUMED = {STEPS}, {{}}, os.path.exists("ended")
alive = open("alive", "w")
fcntl.flock(alive, fcntl.LOCK_SH)
"""
END_OF_HVDRUN = """
        if state.step == 10 and me == 0 and not RESUMED:
            os.kill(int(open("pid").read()), signal.SIGKILL)
            signal.pause()
"""


def test_a_new_job_goes_on_where_the_one_of_a_killed_hvdrun_was(tmp_path):
    training = TRAINING.replace("resets=0)", 'resets=0, checkpoint="commits")')
    assert training != TRAINING
    (tmp_path / "script.py").write_text(TORCH + BEGIN + training + LOOP.replace("        state.commit()\n", "        state.commit()\n" + END_OF_HVDRUN)
                                        .replace("train(state))", "train(state), began=calls[0])"))  # fmt: skip
    command = ["sh", "-c", 'echo $$ >pid; exec "$@"', "sh", _jobs.HVDRUN, "-np", "2", "--min-np", "2", sys.executable, "script.py"]

    def run():
        return subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=tmp_path, env={**os.environ, "RUEDA_TIMEOUT_SECONDS": "120"})

    assert run().returncode == -9
    with open(tmp_path / "alive", "w") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)  # no worker of that job is left
    assert max(os.listdir(tmp_path / "commits")) == "000001-000000000010.checkpoint"
    (tmp_path / "ended").write_text("")
    done = run()
    told = [json.loads(line.partition(":")[2]) for line in done.stdout.splitlines() if "{" in line]
    assert done.returncode == 0 and len(told) == 2, done.stdout + done.stderr
    assert all(each["digests"] == [replayed([2] * STEPS)] and each["step"] == STEPS for each in told), told
    assert [each["began"] for each in told] == [10, 10]
