"""run() calls a function on ranks and returns what they return."""

import contextlib
import io
import os
import signal
import subprocess
import sys

import pytest

import rueda


def test_results_come_in_rank_order():
    assert rueda.run(divmod, args=(7, 2), num_proc=3) == [(3, 1)] * 3


SCRIPT = """
import sys
import numpy
import rueda
import rueda.numpy as hvd

def work(base, extra=0):
    hvd.init()
    total = float(hvd.allreduce(numpy.array([1.0]), op=hvd.Sum)[0])
    if base < 0 and hvd.rank() == 1:
        raise ValueError("rank 1 does not like %d" % base)
    hvd.barrier()
    return base + extra + hvd.rank(), total

if __name__ == "__main__":
    try:
        print("results", rueda.run(work, (int(sys.argv[1]),), {"extra": 5}, num_proc=2))
    except RuntimeError as error:
        print("failed", "ValueError: rank 1 does not like -1" in str(error))
"""


@pytest.mark.parametrize("base, prints", [(10, "results [(15, 2.0), (16, 2.0)]"), (-1, "failed True")])
def test_a_function_of_the_main_script_runs_and_a_failing_rank_s_traceback_is_raised(tmp_path, base, prints):
    (tmp_path / "main.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "main.py", str(base)], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == prints, done.stderr


UNGUARDED = """
import rueda

def work(base):
    import rueda
    rueda.init()
    return base + rueda.rank(), lambda: base  # functions, too, by value

print("started")
print("results", [(number, function()) for number, function in rueda.run(work, (10,), num_proc=2)])
"""

# As much of cloudpickle as UNGUARDED needs.
BY_VALUE = """
import io, marshal, pickle, types

def make(code, cells):
    space = {"__builtins__": __builtins__, "__name__": "__main__"}
    return types.FunctionType(marshal.loads(code), space, "f", None, tuple(map(types.CellType, cells)))

class Pickler(pickle.Pickler):
    def reducer_override(self, value):
        if not isinstance(value, types.FunctionType) or value.__module__ != "__main__":
            return NotImplemented
        return make, (marshal.dumps(value.__code__), [cell.cell_contents for cell in value.__closure__ or ()])

def dump(value, file):
    Pickler(file).dump(value)

def dumps(value):
    file = io.BytesIO()
    dump(value, file)
    return file.getvalue()
"""


def run_unguarded(folder, cloudpickle):
    """The result of UNGUARDED with this text as the module cloudpickle; None leaves the installed module."""
    (folder / "main.py").write_text(UNGUARDED)
    if cloudpickle is not None:
        (folder / "cloudpickle.py").write_text(cloudpickle)
    return subprocess.run([sys.executable, "main.py"], capture_output=True, text=True, cwd=folder, timeout=120)


@pytest.mark.parametrize("cloudpickle", [BY_VALUE, None], ids=["a stand-in", "cloudpickle"])
def test_with_cloudpickle_ranks_do_not_run_the_main_script_and_send_functions_back(tmp_path, cloudpickle):
    if cloudpickle is None:
        pytest.importorskip("cloudpickle")
    done = run_unguarded(tmp_path, cloudpickle)
    assert done.stdout == "started\nresults [(10, 10), (11, 10)]\n", done.stdout + done.stderr


def test_without_cloudpickle_a_rank_whose_import_calls_run_again_says_what_to_do(tmp_path):
    done = run_unguarded(tmp_path, "raise ImportError")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("run(): rank ") and "`if __name__ == \"__main__\":`" in last and "cloudpickle" in last, done.stderr
    assert done.stderr.count("calls run() again") == 1 and done.returncode == 1, done.stderr


def test_older_names_of_arguments_are_taken():
    with pytest.deprecated_call():
        assert rueda.run(divmod, (7, 2), np=2, network_interfaces=["lo", "eth*"]) == [(3, 1)] * 2
    with pytest.deprecated_call(), pytest.raises(ValueError, match="num_proc=2 and np=3"):
        rueda.run(divmod, (7, 2), num_proc=2, np=3)


@pytest.mark.parametrize("count", [0, -1, 65537, True, 2.0, "2", None])
def test_a_number_of_ranks_that_cannot_be_is_refused_before_anything_starts(count):
    with pytest.raises(ValueError, match="num_proc is .*from 1 to 65536"):
        rueda.run(print, num_proc=count)


WAITING = """
import signal
import sys
import threading
import rueda

def work():
    print("here", flush=True)
    threading.Event().wait()

def interrupted(*_):
    raise KeyboardInterrupt

if __name__ == "__main__":
    if sys.argv[1] == "handler":
        signal.signal(signal.SIGTERM, interrupted)
    rueda.run(work, num_proc=2)
"""


@pytest.mark.parametrize("how, number", [("no", signal.SIGTERM), ("no", signal.SIGKILL), ("handler", signal.SIGTERM)])
def test_the_ranks_go_with_the_caller_and_leave_no_file(tmp_path, how, number):
    (tmp_path / "main.py").write_text(WAITING)
    (tmp_path / "temporary").mkdir()
    environment = dict(os.environ, TMPDIR=str(tmp_path / "temporary"))
    caller = subprocess.Popen([sys.executable, "main.py", how], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              cwd=tmp_path, env=environment)  # fmt: skip
    with caller:
        assert "here" in caller.stdout.readline() and "here" in caller.stdout.readline()
        caller.send_signal(number)
        caller.stdout.read()  # to its end: hvdrun, which has it as its stderr, leaves when no rank is left
    assert os.listdir(tmp_path / "temporary") == []


def test_large_calls_and_results_travel_whole():
    text = bytes(range(256)) * 40_000
    assert rueda.run(bytes.__add__, (text, b"end"), num_proc=2) == [text + b"end"] * 2


@pytest.mark.parametrize("leave, cause", [(sys.exit, "SystemExit: 0\n"), (os._exit, "ended before it returned")])
def test_a_rank_that_ends_with_code_0_before_it_returns_is_named(leave, cause):
    with pytest.raises(RuntimeError, match="rank 0 ended before it returned") as raised:
        rueda.run(leave, (0,), num_proc=1)
    assert str(raised.value).endswith(cause)


def test_a_rank_that_a_signal_kills_is_an_error():
    with pytest.raises(RuntimeError, match="hvdrun ended with code 137"):
        rueda.run(signal.raise_signal, (signal.SIGKILL,), num_proc=2)


@pytest.mark.parametrize("verbose", [False, True])
def test_what_ranks_print_comes_to_the_caller_s_sys_stdout(capfd, verbose):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        print("before")
        assert rueda.run(print, ("caf\u00e9",), num_proc=1, verbose=verbose) == [None]
    assert printed.getvalue() == "before\n[0]<stdout>:caf\u00e9\n"
    assert capfd.readouterr().out == ""


def test_the_job_goes_on_where_the_caller_s_stdout_takes_nothing(capfd):
    class Full:
        def write(self, text):
            raise OSError("no space left")

    with contextlib.redirect_stdout(Full()):
        assert rueda.run(print, ("lost",), num_proc=2) == [None] * 2
    assert capfd.readouterr().err == "run(): the ranks' output is being lost: no space left; the job goes on\n"


PRINTING = """
import os
import sys
import rueda

def work(how):
    print("a line")
    os.write(1, b"bytes \\xff\\n")
    sys.stdout.write("no end")
    if how == "closed":
        sys.stdout.close()
    elif how == "elsewhere":
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    elif how == "long":
        sys.stdout.write("." * (64 * 1024 - 7))
    elif how == "not blocking":
        os.set_blocking(1, False)
    return how * 10000

if __name__ == "__main__":
    assert rueda.run(work, (sys.argv[1],), num_proc=1, output_filename="files") == [sys.argv[1] * 10000]
"""


@pytest.mark.parametrize("how", ["open", "closed", "elsewhere", "long", "not blocking"])
def test_output_stays_as_the_function_leaves_it_and_does_not_meet_the_result(tmp_path, how):
    (tmp_path / "main.py").write_text(PRINTING)
    done = subprocess.run([sys.executable, "main.py", how], capture_output=True, cwd=tmp_path)
    left = b"no end" + b"." * (64 * 1024 - 7 if how == "long" else 0)
    file = (tmp_path / "files/rank.0/stdout").read_bytes()
    assert done.returncode == 0 and file == b"a line\nbytes \xff\n" + left + b"\n", done.stderr
    if how != "long":  # that one hvdrun cuts, in the middle of the end of the line
        assert done.stdout == b"[0]<stdout>:a line\n[0]<stdout>:bytes \xff\n[0]<stdout>:no end\n"


# What hvdrun would have of ssh: a shell for the last word, with other temporary files.
SSH = """#!/bin/sh
for command; do :; done
exec unshare {flags} sh -c 'mount -t tmpfs none "$TMPDIR" && exec sh -c "$0"' "$command"
"""

ACROSS = """
import os
import sys
import numpy
import rueda
import rueda.numpy as hvd

def work(fails):
    hvd.init()
    hosts = int(hvd.allreduce(numpy.array([hvd.cross_size()]), op=hvd.Max)[0])
    if fails == hvd.rank():
        raise ValueError("not on " + os.environ["RUEDA_HOSTNAME"])
    return os.environ["RUEDA_HOSTNAME"], hosts, os.listdir(os.environ["TMPDIR"])

if __name__ == "__main__":
    open(os.path.join(os.environ["TMPDIR"], "of-the-caller"), "w").close()
    where = {sys.argv[1]: sys.argv[2], **({"min_num_proc": 2} if "elastic" in sys.argv else {})}
    try:
        print("results", rueda.run(work, (int(sys.argv[3]),), num_proc=2, **where))
    except RuntimeError as error:
        print("failed", str(error).splitlines()[-1])
"""


@pytest.fixture
def run_across(tmp_path):
    """Runs ACROSS. The host "another" is a mount namespace of this one, in which TMPDIR is another folder."""
    flags = ["--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--mount"]
    if subprocess.run(["unshare", *flags, "true"]).returncode != 0:
        pytest.skip("no mount namespaces here")
    if not subprocess.run(["hostname", "-I"], capture_output=True).stdout.split():
        pytest.skip("no address but loopback, at which another host could find a job")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ssh").write_text(SSH.format(flags=" ".join(flags)))
    (tmp_path / "bin/ssh").chmod(0o755)
    (tmp_path / "temporary").mkdir()
    (tmp_path / "main.py").write_text(ACROSS)
    (tmp_path / "hosts.txt").write_text("localhost\nanother\n")
    environment = dict(os.environ, TMPDIR=str(tmp_path / "temporary"), PATH=f"{tmp_path}/bin:{os.environ['PATH']}")

    def run(*words):
        command = [sys.executable, "main.py", *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=120)

    return run


HERE, THERE = ("localhost", 2, ["of-the-caller"]), ("another", 2, [])


@pytest.mark.parametrize("flag, hosts, kind, ranks", [
    ("hosts", "localhost:1,another:1", "plain", [HERE, THERE]),
    ("hosts", "another:1,localhost:1", "plain", [THERE, HERE]),
    ("hostfile", "hosts.txt", "plain", [HERE, THERE]),
    ("hosts", "localhost:1,another:1", "elastic", [HERE, THERE]),
])  # fmt: skip
def test_ranks_of_other_hosts_need_no_folder_of_the_caller_s(run_across, flag, hosts, kind, ranks):
    done = run_across(flag, hosts, "-1", kind)
    assert done.stdout == f"results {ranks}\n", done.stderr


def test_the_traceback_of_a_rank_on_another_host_is_raised(run_across):
    done = run_across("hosts", "localhost:1,another:1", "1")
    assert done.stdout == "failed ValueError: not on another\n", done.stderr
