"""run() of an elastic job: the function survives the death of workers, and what is left of them returns its results."""

import fcntl
import pathlib
import pickle
import signal
import subprocess
import sys

import pytest

import rueda
from rueda import run_answers, run_elastic

HELPERS = pathlib.Path(__file__).with_name("elastic_calls.py")

SCRIPT = """
import sys

import rueda
import elastic_calls

if __name__ == "__main__":
    print("results", rueda.run(getattr(elastic_calls, sys.argv[1]), eval(sys.argv[2]), **eval(sys.argv[3])))
"""


@pytest.fixture
def called(tmp_path):
    """Calls run() with a function of elastic_calls.py in a process of its own, and returns that one's end. args: as text."""
    (tmp_path / "elastic_calls.py").write_text(HELPERS.read_text())
    (tmp_path / "main.py").write_text(SCRIPT)

    def call(function, args, **how):
        command = [sys.executable, "main.py", function, args, repr(how)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=240)

    return call


@pytest.mark.parametrize("least, returns", [
    pytest.param(2, [[0, 0, 2], [2, 1, 2]], id="the others go on"),
    pytest.param(3, [[0, 0, 3], [2, 1, 3], [3, 2, 3]], id="a new worker gets the call as well"),
])  # fmt: skip
def test_results_are_those_of_the_ranks_of_the_last_plan(called, least, returns):
    text = "'x' * 300_000"  # in several variables
    done = called("train", f"(1, {text})", num_proc=3, min_num_proc=least)
    assert done.stdout == f"results {[(*each, 12, 300_000) for each in returns]}\n", done.stdout + done.stderr
    assert "worker 1 (host localhost" in done.stderr  # hvdrun's report comes to descriptor 2


def test_results_are_in_the_order_of_ranks_and_earlier_plans_come_last():
    answers = run_answers.Answers("mark", lambda lines: None, False)
    for worker, (place, result) in {0: (b"1 0\n", "left early"), 1: (b"3 1\n", "second"), 7: (b"3 0\n", "first")}.items():
        answers.results[worker] = place + pickle.dumps(result)
    assert run_elastic.Elastic(4, {"min_num_proc": 3}, None).results(0, answers) == ["first", "second", "left early"]
    assert run_elastic.Elastic(4, {"min_num_proc": 1}, None).results(0, answers) == ["first"]


def test_of_several_failures_the_first_of_the_last_plan_is_raised():
    answers = run_answers.Answers("mark", lambda lines: None, False)
    answers.failures.update({0: "1 0\nsurvived", 2: "4 1\nthe cause", 1: "4 0\na consequence"})
    with pytest.raises(RuntimeError, match=r"\Arun\(\): hvdrun ended with code 5:\nthe cause\Z"):
        run_elastic.Elastic(4, {"min_num_proc": 3}, None).results(5, answers)


@pytest.mark.parametrize("die", [False, True])
def test_a_worker_that_is_removed_is_no_failure_and_has_no_result(called, tmp_path, die):
    (tmp_path / "hosts").write_text("localhost:3\n")
    done = called("shrink", f"({die},)", num_proc=3, min_num_proc=2, host_discovery_script="cat hosts")
    assert die or done.stdout == "results [(0, 2), (1, 2)]\n", done.stdout + done.stderr
    assert "SystemExit" not in done.stderr and ("RuntimeError: run(): hvdrun ended with code 137:" in done.stderr) is die, done.stderr


def test_a_job_that_fails_raises_hvdrun_s_reason_and_the_traceback(called):
    done = called("refuse", "(1,)", num_proc=2, min_num_proc=1, reset_limit=0)
    error = done.stderr.partition("RuntimeError: run(): hvdrun ended with code 1:\n")[2].rstrip().splitlines()
    assert error[0].startswith("hvdrun: worker 1 (host localhost, pid ") and error[0].endswith("failed: exited with code 1, in plan 1"), done.stderr
    assert error[1].startswith("hvdrun: the job failed: the job was reset more than 0 times (--reset-limit)")
    assert error[2] == "Traceback (most recent call last):" and error[-1] == "ValueError: worker 1 refuses"


def test_fewer_results_than_min_num_proc_are_an_error(called):
    done = called("end_early", "()", num_proc=2, min_num_proc=2)
    assert "RuntimeError: run(): only 1 of at least 2 workers (min_num_proc) returned a result:\nhvdrun: worker 1 " in done.stderr, done.stderr


@pytest.mark.parametrize("module, has", [("rueda", False), ("horovod", True)])
def test_the_alias_starts_elastic_jobs_with_the_defaults_of_horovodrun(tmp_path, module, has):
    (tmp_path / "elastic_calls.py").write_text(HELPERS.read_text())
    text = f"import {module}, elastic_calls; print({module}.run(elastic_calls.words_of_hvdrun, num_proc=2, min_num_proc=1))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=tmp_path, timeout=240)
    words = done.stdout.strip()
    assert "'-np', '2'" in words and ("'--horovod-defaults'" in words) is has, done.stdout + done.stderr


@pytest.mark.parametrize("module, has", [("rueda", False), ("horovod", True)])
def test_the_alias_s_error_for_a_job_that_fails_has_horovod_s_text(tmp_path, module, has):
    (tmp_path / "elastic_calls.py").write_text(HELPERS.read_text())
    text = f"import {module}, elastic_calls; {module}.run(elastic_calls.refuse, (1,), num_proc=2, min_num_proc=1, reset_limit=0)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=tmp_path, timeout=240)
    error = done.stderr.partition("RuntimeError: run(): hvdrun ended with code 1:\n")[2]
    assert ("Horovod detected that one or more processes exited with non-zero status" in error) is has, done.stderr
    assert "the job was reset more than 0 times" in error and error.rstrip().endswith("ValueError: worker 1 refuses")


def test_older_names_and_the_least_number_alone_are_taken(called):
    done = called("words_of_hvdrun", "()", np=2, min_np=1, max_np=3, cooldown_range=(2, 9))
    assert all(words in done.stdout for words in ("'-np', '2'", "'--min-np', '1'", "'--max-np', '3'", "'--blacklist-cooldown-range', '2', '9'"))
    assert done.stderr.count("DeprecationWarning") == 3, done.stderr
    assert "'-np', '2', '--min-np', '2'" in called("words_of_hvdrun", "()", min_num_proc=2).stdout


@pytest.mark.parametrize("how, sentence", [
    (dict(num_proc=2, min_num_proc=3), "min_num_proc is 3; give a whole number from 1 to 2"),
    (dict(num_proc=4, min_num_proc=2, max_num_proc=3), "max_num_proc is 3; give a whole number from 4 to 65536"),
    (dict(num_proc=2, min_num_proc=1, reset_limit=-1), "reset_limit is -1; give a whole number from 0"),
    (dict(num_proc=2, min_num_proc=1, cooldown_range=5), "cooldown_range is 5; give two whole numbers of seconds"),
    (dict(num_proc=2, min_num_proc=1, cooldown_range=(9, 2)), r"cooldown_range\[0\] is 9; give a whole number from 1 to 2"),
    (dict(num_proc=2, max_num_proc=3), r"run\(max_num_proc=...\) is for elastic jobs; give min_num_proc= or host_discovery_script="),
    (dict(num_proc=2, min_num_proc=1, use_mpi=True), "cannot start elastic jobs"),
    (dict(num_proc=2, min_num_proc=1, args=(b"x" * (1 << 20),)), "those of an elastic job may have 1048576"),
])  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_starts(how, sentence):
    with pytest.raises(ValueError, match=sentence):
        rueda.run(print, **how)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_workers_go_with_the_caller(tmp_path, number):
    (tmp_path / "elastic_calls.py").write_text(HELPERS.read_text())
    text = "import rueda, elastic_calls; rueda.run(elastic_calls.wait, num_proc=2, min_num_proc=1)"
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, cwd=tmp_path) as caller:
        assert "here" in caller.stdout.readline() and "here" in caller.stdout.readline()
        caller.send_signal(number)
    with open(tmp_path / "alive") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)  # until the last worker has ended
