"""Parts of scripts for elastic jobs whose own workers change the list of hosts, for tests of every framework."""

import json
import re


def flags(slots, least=1):
    """The flags of hvdrun for a job that begins with so many slots of this machine."""
    return "--min-np", str(least), "--host-discovery-script", f"cat hosts 2>/dev/null || echo localhost:{slots}"


# Needs `hvd` for a framework.
PARTS = """
import json, os, signal
import rueda.elastic

def list_slots(count):
    \"\"\"Has the discovery script print so many slots from now on; never half of a line.\"\"\"
    with open("next", "w") as file:
        file.write(f"localhost:{count}\\n")
    os.rename("next", "hosts")

def await_change(state):
    \"\"\"Waits for a notice of the next plan. The next check of the state tells of it.\"\"\"
    state._host_messages.put(state._host_messages.get())

def grow(state):
    \"\"\"Commits until the second worker has come.\"\"\"
    while hvd.size() == 1:
        list_slots(2)
        await_change(state)
        state.commit()

def tell(what, **more):
    os.write(1, json.dumps(dict(what=what, worker=rueda.elastic.worker_id(), plan=rueda.elastic.membership().plan, **more)).encode() + b"\\n")  # in one piece

def attempt(calls):
    \"\"\"Calls each of {name: function}, and tells how it was refused.\"\"\"
    for name, call in calls.items():
        try:
            call()
            tell("passed", call=name)
        except Exception as error:
            tell("refused", call=name, kind=type(error).__name__, why=str(error))
"""


def told(done, what):
    """The lines of one kind that workers have told, in the order of arrival."""
    lines = [json.loads(found[1]) for line in done.out.splitlines() if (found := re.match(r"\[\d+\]<stdout>:(\{.*)", line))]
    return [line for line in lines if line["what"] == what]


REFUSED = "this process is a new worker of a running job; the others are in the middle of their training"


def require_refused(done, names):
    """Every call was refused once, by the name in {call: name}, in the worker that came into the job."""
    assert done.code == 0 and not told(done, "passed"), done.out + done.err
    refused = told(done, "refused")
    assert [line["call"] for line in refused] == list(names) and {line["worker"] for line in refused} == {1}, done.out + done.err
    for line in refused:
        assert f"{names[line['call']]}: {REFUSED}" in line["why"], line


def require_trained(done, in_plan=2, **values):
    """Both workers have trained together in this plan, and no round failed before; each has told these values."""
    trained = sorted(told(done, "trained"), key=lambda line: line["worker"])
    assert trained == [dict(what="trained", worker=worker, plan=in_plan, **values) for worker in (0, 1)], done.out + done.err


def require_warmed_up(done, **values):
    """The new worker has told these values in its warm-up, and was refused there to take a step with others, which is compiled."""
    (warmed,) = told(done, "warmed up")
    assert warmed == {**warmed, "worker": 1, **values}, done.out + done.err
    (refused,) = told(done, "refused")
    assert refused["call"] == "step" and f"a compiled operation: {REFUSED}" in refused["why"], refused
