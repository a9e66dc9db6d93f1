"""Pickles go to other hosts over TLS only. Each rank says that it is on a host of its own."""

import os
import stat
import sys

import pytest

import rueda

OBJECTS = """
import os
os.environ["RUEDA_HOSTNAME"] = "host" + os.environ["RUEDA_RANK"]
hvd.init()
assert hvd.local_size() == 1
optimizer = torch.optim.SGD([torch.zeros(2, requires_grad=True)], lr=0.1, momentum=0.9)
calls = [lambda: hvd.broadcast_object("sent", 0), lambda: hvd.allgather_object(hvd.rank()),
         lambda: hvd.broadcast_optimizer_state(optimizer, 0)]
for call in calls:
    try:
        print(call())
    except hvd.UnsupportedError as refused:
        print("refused", refused)
print(hvd.allreduce(torch.ones(1), op=hvd.Sum).item())
"""


def test_over_several_hosts_objects_are_refused_and_the_session_goes_on(run_script):
    job = run_script(OBJECTS)
    assert job.code == 0, job.err
    for rank in range(2):
        *refused, total = job.lines(rank)
        assert total == "2.0"
        assert [line.split("(")[0] for line in refused] == ["refused broadcast_object", "refused allgather_object",
                                                            "refused broadcast_object"]  # fmt: skip
        assert all("set RUEDA_TLS=all (hvdrun --tls all)" in line for line in refused)


@pytest.mark.parametrize("flags, environment", [(["--tls", "all"], {}), ([], {"RUEDA_INSECURE": "1"})])
def test_over_several_hosts_objects_travel_over_tls_or_where_the_user_allows_it(run_script, flags, environment):
    job = run_script(OBJECTS, *flags, environment=environment)
    assert job.code == 0, job.err
    for rank in range(2):
        assert job.lines(rank) == ["sent", "[0, 1]", "None", "2.0"]


def setting_of_tls():
    return os.environ["RUEDA_TLS"]


def test_the_call_of_run_travels_over_tls_whatever_the_setting_of_the_function_is(tmp_path, monkeypatch):
    # The ranks have different settings, with which no session can be made: so that of the call has another on both.
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\n"
                      'test "$RUEDA_RANK" = 0 && export RUEDA_TLS=control || export RUEDA_TLS=all\n'
                      'RUEDA_HOSTNAME=host$RUEDA_RANK exec "$REAL_PYTHON" "$@"\n')  # fmt: skip
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("REAL_PYTHON", sys.executable)
    assert rueda.run(setting_of_tls, num_proc=2, executable=str(python)) == ["control", "all"]
