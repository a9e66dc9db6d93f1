"""A worker joins a training whose ranks are all at one commit: one rank sends its model and optimizer, and only the new worker takes
them."""

import pathlib
import sys

import pytest
from test_jobs import TRAINING, replayed
from test_phases import phases

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from elastic_jobs import PARTS, flags, told  # noqa: E402

STEPS, JOINS = 12, 5

# The list of hosts grows in step JOINS. SYNCED tells what a rank has sent or received, and saved, of large parts. In plan 2
# strike() runs before each step.
JOB = (TRAINING[: TRAINING.index("def tell(")] + PARTS).replace("hvd.init()", "hvd.init(process_sets=SETS)") + f"""
from rueda.torch.elastic import handlers
STEPS, JOINS = {STEPS}, {JOINS}
received, saved = [], []

def counted(kind, name, into, called=None):
    function = getattr(kind, name)
    def call(handler):
        if rueda.elastic.membership().plan > 1:
            into.append(kind.__name__)
            strike_sync(called or name)
        function(handler)
    setattr(kind, name, call)

for kind in (handlers.ModelStateHandler, handlers.OptimizerStateHandler):
    counted(kind, "receive", received)
    counted(kind, "save", saved)
counted(handlers.ModelStateHandler, "_receive_common", received, "receive")  # without the buffers

@hvd.elastic.run
def train(state):
    plan = rueda.elastic.membership().plan
    tell("begins", step=state.step, rank=hvd.rank(), size=hvd.size(), received=received[:], saved=saved[:], digest=plan > 1 and digest(model, optimizer),
         extra=state.extra, mean=getattr(model, "mean", None) is not None and model.mean.item() + 1)
    received.clear(), saved.clear()
    while state.step < STEPS:
        if plan == 1 and state.step == JOINS:
            if hvd.rank() == 0:
                list_slots(hvd.size() + 1)
                await_change(state)
        strike(state, plan)
        one_step(state)
        LEAVE(state)
    tell("ends", step=state.step, sizes=state.sizes, digest=digest(model, optimizer))

PREPARE(state)
train(state)
"""
DEFAULTS = """
SETS = None
def strike(state, plan): pass
def strike_sync(name): pass
def PREPARE(state): pass
def LEAVE(state): state.commit()
"""
BOTH = ["ModelStateHandler", "OptimizerStateHandler"]


@pytest.fixture
def run(run_script):
    def job(changes="", ranks=3, before_state="", hosts="", **more):
        text = JOB.replace("state = hvd.elastic", before_state + "state = hvd.elastic").replace("sizes=[], resets=0)", "sizes=[], extra=hvd.rank())")
        discovery = ["--min-np", "1", "--host-discovery-script", f"cat hosts 2>/dev/null || printf '{hosts}'"] if hosts else flags(ranks)
        done = run_script("import rueda.elastic\n" + DEFAULTS + changes + text, *discovery, "--discovery-interval", "0.1", ranks=ranks, **more)
        assert done.code == 0, done.out + done.err
        ends = told(done, "ends")
        assert ends and all(line["digest"] == replayed(line["sizes"]) and len(line["sizes"]) == STEPS for line in ends), done.out + done.err
        return done

    return job


def beginnings(done, plan):
    """What the ranks of a plan told when it began, by worker. All have the same state."""
    lines = {line["worker"]: line for line in told(done, "begins") if line["plan"] == plan}
    assert len(lines) == next(iter(lines.values()))["size"] and len({(line["step"], line["digest"]) for line in lines.values()}) == 1, done.out
    return lines


def parts_of(done, what, plan=2):
    return [line[what] for _, line in sorted(beginnings(done, plan).items())]


def test_the_root_sends_to_the_new_worker_alone_and_only_that_one_saves(run):
    done = run()
    assert parts_of(done, "received") == [sorted(BOTH), [], [], sorted(BOTH)]
    assert [sorted(each) for each in parts_of(done, "saved")] == [[], [], [], sorted(BOTH)]
    assert parts_of(done, "extra") == [0] * 4  # plain values are small: all take the root's, as ever
    assert beginnings(done, 2)[0]["step"] == JOINS + 1


# The second host grows; the root is on the first one.
SECOND_GROWS = """
def PREPARE(state):
    global list_slots
    def list_slots(count):
        with open("next", "w") as file:
            file.write(f"localhost:1\\n127.0.0.1:{count - 1}\\n")
        os.rename("next", "hosts")
"""
TWO_HOSTS = {"ranks": 2, "hosts": "localhost:1\\n127.0.0.1:1\\n"}


@pytest.mark.long
def test_a_rank_on_the_host_of_the_new_worker_sends_and_what_each_rank_has_made_comes_from_the_root(run):
    done = run(SECOND_GROWS, before_state="model.register_buffer('mean', torch.full((1,), -1.0 - me))\n", **TWO_HOSTS)
    assert parts_of(done, "received") == [[], sorted(BOTH), sorted(BOTH)]
    assert [sorted(each) for each in parts_of(done, "saved")] == [[], [], sorted(BOTH)]
    assert parts_of(done, "extra") == parts_of(done, "mean") == [0] * 3


def test_the_death_of_a_sender_in_the_middle_of_the_sync_leaves_the_root_at_its_commit(run):
    done = run(SECOND_GROWS + """
def strike_sync(name):
    if me == 1 and name == "receive" and received[-1] == "OptimizerStateHandler":
        os.kill(os.getpid(), signal.SIGKILL)
""", **TWO_HOSTS)  # fmt: skip
    plan = min(line["plan"] for line in told(done, "begins") if line["plan"] > 2)
    lines = beginnings(done, plan)
    assert 1 not in lines and {line["step"] for line in lines.values()} == {JOINS + 1}


@pytest.mark.long
def test_a_root_that_is_alone_saves_nothing_either(run):
    done = run(ranks=1)
    assert parts_of(done, "received") == [sorted(BOTH)] * 2 and [sorted(each) for each in parts_of(done, "saved")] == [[], sorted(BOTH)]


# Where the momentum and its commit lie: after the new worker has prepared itself, and when the training begins.
PLACES = """
from rueda.torch.elastic import handlers
def places(handler):
    kept, live = handler._saved["state"], handler.value.state
    return [entry["momentum_buffer"].data_ptr() for entry in [*kept.values(), *live.values()]]

def noted(handler, prepare=handlers.OptimizerStateHandler.prepare):
    prepare(handler)
    noted.places = places(handler)
handlers.OptimizerStateHandler.prepare = noted
def strike(state, plan):
    if plan == 2 and state.step == JOINS + 1 and hasattr(noted, "places"):
        tell("places", before=noted.places, after=places(state._handlers["optimizer"]))
"""


@pytest.mark.long
def test_a_new_worker_has_the_memory_for_the_optimizer_before_it_holds_the_others_up(run):
    [line] = told(run(PLACES, ranks=2), "places")
    assert line["worker"] == 2 and len(line["before"]) == 2 and line["before"] == line["after"]


@pytest.mark.long
def test_reset_callbacks_run_in_the_others_and_not_in_a_new_worker(run):
    done = run("def PREPARE(state): state.register_reset_callbacks([lambda: tell('called back')])", ranks=2)
    assert sorted((line["worker"], line["plan"]) for line in told(done, "called back")) == [(0, 2), (1, 2)], done.out


# As if steps changed parameters by `parameter.data`, which PyTorch does not tell of.
UNSEEN = """
from rueda.torch.elastic import handlers
handlers.ModelStateHandler.is_as_saved = handlers.OptimizerStateHandler.is_as_saved = lambda handler: True
"""


@pytest.mark.parametrize("changes", [
    pytest.param(dict(changes=UNSEEN + "def LEAVE(state): state.commit() if state.step % 4 == 0 else state.check_host_updates()"), id="left behind a commit"),
    pytest.param(dict(changes="""
def LEAVE(state):
    try:
        state.commit()
    except hvd.HostsUpdatedInterrupt:
        model.weight.data.add_(0.0), model.weight.requires_grad_(False).add_(0.0).requires_grad_()
        raise
"""), marks=pytest.mark.long, id="changed since the commit"),
    pytest.param(dict(changes="def strike(state, plan): state._reset_callbacks or state.register_reset_callbacks([list])"), marks=pytest.mark.long, id="reset callbacks"),
    pytest.param(dict(environment={"RUEDA_DYNAMIC_PROCESS_SETS": "0"}), marks=pytest.mark.long, id="no process sets"),
])  # fmt: skip
def test_all_ranks_receive_and_save_if_they_may_differ_or_no_set_can_be_made(run, changes):
    done = run(ranks=2, **changes)
    assert parts_of(done, "received") == [sorted(BOTH)] * 3 and [sorted(each) for each in parts_of(done, "saved")] == [sorted(BOTH)] * 3


# Each rank has a running mean of its own, which the digest leaves out.
BUFFERS = """
import torch
from rueda.torch.elastic import handlers
handlers.ModelStateHandler.mean_saved = lambda handler: handler._saved["mean"].item()
def strike(state, plan):
    tell("means", step=state.step, mean=model.mean.item(), saved=state._handlers["model"].mean_saved())
    model.mean.fill_(10 * plan + me)
    if plan == 2 and state.step == 8 and me == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("victim", [1, pytest.param(0, marks=pytest.mark.long, id="the root")])
def test_buffers_alone_are_sent_to_ranks_that_have_the_model(run, victim):
    done = run(BUFFERS + f"VICTIM = {victim}\n", before_state="model.register_buffer('mean', torch.full((1,), -1.0))\n")
    assert parts_of(done, "received") == [sorted(BOTH), [], [], sorted(BOTH)]
    assert [sorted(each) for each in parts_of(done, "saved")] == [[], [], [], sorted(BOTH)]
    assert parts_of(done, "received", 3) == [[], [], []] and {len(each) for each in parts_of(done, "saved", 3)} == {4}  # of two commits
    for plan, step, mean in ((2, JOINS + 1, 10), (3, 8, 20 + (victim == 0))):
        first = [line for line in told(done, "means") if (line["plan"], line["step"]) == (plan, step)]
        assert first and all((line["mean"], line["saved"]) == (mean, mean) for line in first), first


@pytest.mark.long
def test_after_a_death_behind_the_join_the_commit_of_the_new_worker_is_that_of_the_others(run):
    done = run("""
def strike(state, plan):
    if plan == 2 and me == 1:
        os.kill(os.getpid(), signal.SIGKILL)
""")  # fmt: skip
    assert parts_of(done, "received", 3) == [[], [], []] and beginnings(done, 3)[3]["step"] == JOINS + 1


@pytest.mark.long
@pytest.mark.parametrize("victim", [pytest.param(0, id="the root"), pytest.param(3, id="the new worker")])
def test_a_death_in_the_middle_of_the_sync_leaves_the_others_at_their_commit(run, victim):
    done = run(f"""
def strike_sync(name):
    if me == {victim} and name == "receive" and received[-1] == "OptimizerStateHandler":
        os.kill(os.getpid(), signal.SIGKILL)
""")  # fmt: skip
    plan = min(line["plan"] for line in told(done, "begins") if line["plan"] > 2)
    lines = beginnings(done, plan)
    assert victim not in lines and set(lines) <= {0, 1, 2, 3} and {line["step"] for line in lines.values()} == {JOINS + 1}


@pytest.mark.long
def test_each_rank_logs_what_it_did_when_the_worker_joined(run):
    done = run("import logging\nlogging.basicConfig(level=logging.INFO)\n")
    new = {line["worker"] for line in told(done, "begins")} - {0, 1, 2}
    logged = phases(done.err, 2)
    assert set(logged) == {0, 1, 2} | new
    both = "compared, values received, model received, optimizer received, all received, saved, synced"
    assert all(logged[worker] == f"joined, agreed, reset callbacks run, {both}" for worker in (0, 1, 2)), logged
    assert all(logged[worker] == f"joined, agreed, {both}" for worker in new), logged
