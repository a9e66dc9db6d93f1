"""Pickles go to other hosts over TLS only. Each rank says that it is on a host of its own."""

import os
import stat
import subprocess
import sys

import pytest

import rueda

OBJECTS = """
import collections, os
os.environ["RUEDA_HOSTNAME"] = "host" + os.environ["RUEDA_RANK"]
hvd.init()
assert hvd.local_size() == 1

class Own:
    def __eq__(self, other):
        return isinstance(other, Own)

def attempt(call):
    try:
        return call()
    except hvd.UnsupportedError as refused:
        return "refused " + str(refused)

print(attempt(lambda: hvd.broadcast_object("sent", 0)))
print(attempt(lambda: hvd.allgather_object(hvd.rank())))
data = collections.OrderedDict(epoch=3, parts=[(1, 2.5, None), {b"x", True}, 2j, {"dtype": torch.bfloat16}])
assert hvd.broadcast_object(data, 0) == data
weight = torch.zeros(2, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1 * (1 + hvd.rank()), momentum=0.9)
if hvd.rank() == 0:
    weight.grad = torch.ones(2)
    optimizer.step()
hvd.broadcast_optimizer_state(optimizer, 0)
print(optimizer.param_groups[0]["lr"], optimizer.state[weight]["momentum_buffer"].tolist())
own = [lambda: hvd.broadcast_object(Own(), 1) == Own(), lambda: hvd.allgather_object(Own() if hvd.rank() == 1 else 1)[1] == Own()]
for call in own:
    print(attempt(call))
print(hvd.allreduce(torch.ones(1), op=hvd.Sum).item())
"""
STATE = "0.1 [1.0, 1.0]"


def test_over_several_hosts_data_travel_and_other_objects_are_refused_on_all_ranks(run_script):
    job = run_script(OBJECTS)
    assert job.code == 0, job.err
    for rank in range(2):
        assert job.lines(rank)[:3] == ["sent", "[0, 1]", STATE]
        assert job.lines(rank)[-1] == "2.0"  # the session goes on
        for call, line in zip(["broadcast_object", "allgather_object"], job.lines(rank)[3:5]):
            assert line.startswith(f"refused {call}(): rank 1 gave a Own that is more than data: it needs __main__.Own; such pickles")
            assert "set RUEDA_TLS=all (hvdrun --tls all)" in line


def test_a_rank_that_reads_data_calls_nothing_that_a_pickle_names(run_script):
    # What a machine between the hosts could put in a pickle's place: the rank that reads it does not trust the one that sent it.
    job = run_script("""
import copyreg, os, pickle
os.environ["RUEDA_HOSTNAME"] = "host" + os.environ["RUEDA_RANK"]
hvd.init()
from rueda import object_bytes
from rueda.torch.object_bytes import TensorSlot
class Evil:
    def __reduce__(self):
        return os.system, ("echo it ran",)
copyreg.add_extension("os", "system", 200)
pickle.loads(b"\\x82\\xc8.")  # from now on pickle knows it without asking
slot = b"crueda.torch.object_bytes\\nTensorSlot\\n"  # the class, whose attributes all slots would have
changed = [b"\\x82\\xc8.", b"(", b"\\x80\\x04K", b"]K\\x01K\\x02b.", slot + b"(N}Vtensor\\nK\\x01stb."]
for evil in [pickle.dumps(each, 4) for each in [Evil(), [Evil()], {"key": Evil()}, os.popen, Evil]] + changed:
    try:
        object_bytes.decode(object_bytes.PICKLE + evil, "broadcast_object", 1)
        print("loaded")
    except hvd.UnsupportedError as refused:
        print("refused", "a pickle that needs" in str(refused))
assert callable(TensorSlot.tensor)
""")
    assert job.code == 0, job.err
    for rank in range(2):
        assert job.lines(rank) == ["refused True"] * 10


@pytest.mark.parametrize("flags, environment", [(["--tls", "all"], {}), ([], {"RUEDA_INSECURE": "1"})])
def test_over_several_hosts_objects_travel_over_tls_or_where_the_user_allows_it(run_script, flags, environment):
    job = run_script(OBJECTS, *flags, environment=environment)
    assert job.code == 0, job.err
    for rank in range(2):
        assert job.lines(rank) == ["sent", "[0, 1]", STATE, "True", "True", "2.0"]


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


def test_bytes_of_an_operation_that_failed_may_be_garbage_of_a_cycle():
    """As those that a traceback refers to, which the program keeps. With the buffer of a BytesIO Python 3.11 crashes."""
    text = """
import gc, rueda
from rueda import object_bytes
from rueda._native import ffi
rueda.init()
def make_garbage():
    data, _ = object_bytes.encode({"a": 1})
    held = [data, ffi.from_buffer(data)]
    held.append(held)
make_garbage()
gc.collect()
print("alive")
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "alive\n", "")
