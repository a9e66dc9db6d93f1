"""An ElasticSampler in jobs whose workers come, leave and die in the middle of an epoch: which samples each rank has read."""

import collections
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from elastic_jobs import PARTS, flags, told  # noqa: E402

SAMPLES, EPOCHS, BATCH = 101, 2, 3  # the ranks never divide what is left, so each epoch ends with padding

JOB = f"""
from torch.utils.data import DataLoader
SAMPLES, EPOCHS, BATCH = {SAMPLES}, {EPOCHS}, {BATCH}
hvd.init()
me = rueda.elastic.worker_id()
sampler = hvd.elastic.ElasticSampler(range(SAMPLES), seed=5)
state = hvd.elastic.TorchState(model=torch.nn.Linear(1, 1), sampler=sampler, epoch=0, batches=0)

@hvd.elastic.run
def train(state):
    tell("begins", batches=state.batches, rank=hvd.rank(), size=hvd.size())
    while state.epoch < EPOCHS:
        for number, batch in enumerate(DataLoader(range(SAMPLES), sampler=sampler, batch_size=BATCH)):
            tell("read", epoch=state.epoch, batch=state.batches, indices=batch.tolist())
            strike(state)
            hvd.allreduce(torch.ones(1), op=hvd.Sum)
            sampler.record_batch(number, BATCH)
            state.batches += 1
            if state.batches % COMMITS == 0:
                state.commit()
                tell("committed", batches=state.batches)
        state.epoch += 1
        sampler.set_epoch(state.epoch)
"""

# A worker of the first plan strikes in its fifth batch: rank 0 changes the list of hosts and waits for the notice, which the
# next commit tells; worker 1 dies.
LISTS = """
COMMITS = {commits}
def strike(state):
    if state.batches == 4 and rueda.elastic.membership().plan == 1 and hvd.rank() == 0:
        list_slots({slots})
        await_change(state)
train(state)
"""
DIES = """
COMMITS = {commits}
def strike(state):
    if state.batches == 4 and me == 1:
        os.kill(os.getpid(), signal.SIGKILL)
train(state)
"""


def job(run_script, text, ranks):
    done = run_script(PARTS + JOB + text, *flags(ranks), "--discovery-interval", "0.1", ranks=ranks)
    assert done.code == 0, done.out + done.err
    return done


def beginnings(done):
    """The number of the first batch of each plan, and the plan's size. All ranks say the same."""
    found = {}
    for line in told(done, "begins"):
        assert found.setdefault(line["plan"], (line["batches"], line["size"])) == (line["batches"], line["size"]), done.out
    for plan, (_, size) in found.items():
        assert sorted(line["rank"] for line in told(done, "begins") if line["plan"] == plan) == list(range(size)), done.out
    return dict(sorted(found.items()))


def kept_and_lost(done):
    """How often each sample of an epoch was read in batches that the training kept, and which were read in others."""
    plans = beginnings(done)
    kept, lost = [collections.Counter() for _ in range(EPOCHS)], [collections.Counter() for _ in range(EPOCHS)]
    for line in told(done, "read"):
        later = [batches for plan, (batches, _) in plans.items() if plan > line["plan"]]
        is_kept = all(line["batch"] < batches for batches in later)
        (kept if is_kept else lost)[line["epoch"]].update(line["indices"])
    return kept, lost


def padding(plans, kept_batches):
    """How many samples come again so that all ranks read equally many. kept_batches: of one epoch, {plan: how many}."""
    *before, last = sorted(kept_batches)
    done = sum(kept_batches[plan] * BATCH * plans[plan][1] for plan in before)
    return (done - SAMPLES) % plans[last][1]


def require_each_sample_once(done):
    """Of the batches that the training kept, apart from the padding. Returns which samples were read in others."""
    plans, (kept, lost) = beginnings(done), kept_and_lost(done)
    for epoch, counts in enumerate(kept):
        assert sorted(counts) == list(range(SAMPLES)), (epoch, counts)
        of_epoch = [line for line in told(done, "read") if line["epoch"] == epoch]
        ends = {plan: min([batches for later, (batches, _) in plans.items() if later > plan], default=None) for plan in plans}
        batches = {plan: {line["batch"] for line in of_epoch if line["plan"] == plan and (ends[plan] is None or line["batch"] < ends[plan])}
                   for plan in plans}  # fmt: skip
        again = sum(counts.values()) - SAMPLES
        assert again == padding(plans, {plan: len(numbers) for plan, numbers in batches.items() if numbers}), (epoch, again, plans)
        assert max(counts.values()) <= 2
    return lost


@pytest.mark.parametrize("commits", [pytest.param(1, marks=pytest.mark.long), 2])
@pytest.mark.parametrize("ranks, slots", [pytest.param(4, 3, id="one leaves"), pytest.param(4, 2, id="two leave"), pytest.param(2, 3, id="one comes")])
def test_a_planned_change_in_the_middle_of_an_epoch_lets_each_sample_be_read_once(run_script, ranks, slots, commits):
    done = job(run_script, LISTS.format(commits=commits, slots=slots), ranks)
    assert [size for _, size in beginnings(done).values()] == [ranks, slots]
    lost = require_each_sample_once(done)
    assert not any(lost), lost


@pytest.mark.parametrize("commits", [pytest.param(1, marks=pytest.mark.long), 3])
def test_a_death_in_the_middle_of_an_epoch_repeats_only_samples_of_uncommitted_batches(run_script, commits):
    done = job(run_script, DIES.format(commits=commits), 4)
    plans = beginnings(done)
    assert [size for _, size in plans.values()][:2] == [4, 3]
    committed = max(line["batches"] for line in told(done, "committed") if line["plan"] == 1)
    assert plans[2][0] == committed == 4 // commits * commits
    lost = require_each_sample_once(done)
    read = [line for line in told(done, "read") if line["plan"] == 1 and line["batch"] >= committed]
    assert lost[0] == sum((collections.Counter(line["indices"]) for line in read), collections.Counter()) and not lost[1]
    assert 1 in {line["worker"] for line in read} and max(line["batch"] for line in read) == 4
