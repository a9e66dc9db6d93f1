"""What becomes of a worker that comes into a running job: collectives before its training are refused by their names, and do
not count."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from elastic_jobs import PARTS, flags, require_refused, require_trained, told  # noqa: E402

# Worker 0 trains alone until worker 1 has come. What is called in the function has the names that it has in a new job.
JOB = """
hvd.init()
model = torch.nn.Sequential(torch.nn.Linear(2, 2), hvd.SyncBatchNorm(2))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.5), named_parameters=model.named_parameters())
weights = torch.nn.ParameterList([torch.ones(2), torch.ones(2)])
for number, weight in enumerate(weights):  # one in a buffer
    hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=0.5), named_parameters=[("w", weight)], gradient_as_buffer_view=number == 1)
one = torch.ones(1)
compiled = torch.compile(lambda x: hvd.allreduce(x, op=hvd.Sum, name="compiled"), backend="eager")
calls = dict(
    allreduce=lambda: hvd.allreduce(one), allreduce_=lambda: hvd.allreduce_(one), allreduce_async=lambda: hvd.allreduce_async(one, name="x"),
    grouped_allreduce=lambda: hvd.grouped_allreduce([one, one]), sparse_allreduce_async=lambda: hvd.sparse_allreduce_async(one.to_sparse(), "s", hvd.Sum),
    allgather=lambda: hvd.allgather(one), broadcast=lambda: hvd.broadcast(one, 0), broadcast_=lambda: hvd.broadcast_(one, 0),
    alltoall=lambda: hvd.alltoall(torch.ones(2)), reducescatter=lambda: hvd.reducescatter(one),
    broadcast_parameters=lambda: hvd.broadcast_parameters(model.state_dict(), 0),
    broadcast_optimizer_state=lambda: hvd.broadcast_optimizer_state(optimizer, 0),
    broadcast_object=lambda: hvd.broadcast_object(1), allgather_object=lambda: hvd.allgather_object(1),
    barrier=hvd.barrier, join=hvd.join, add_process_set=lambda: hvd.add_process_set([0]),
    forward=lambda: model(torch.ones(4, 2)), backward=lambda: weights[0].sum().backward(),
    backward_in_buffers=lambda: weights[1].sum().backward(), compiled=lambda: compiled(one),
)
if rueda.elastic.worker_id() == 1:
    attempt(calls)
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, epoch=0)

@hvd.elastic.run
def train(state):
    grow(state)
    optimizer.zero_grad()
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    hvd.broadcast_parameters(model.state_dict(), 0)
    hvd.broadcast_optimizer_state(optimizer, 0)
    hvd.allreduce(one)
    tell("trained", sizes=hvd.allgather_object(hvd.broadcast_object(hvd.size())))

train(state)
"""
PUBLIC = """allreduce allreduce_ allreduce_async grouped_allreduce sparse_allreduce_async allgather broadcast broadcast_ alltoall reducescatter
broadcast_parameters broadcast_optimizer_state broadcast_object allgather_object barrier join add_process_set forward backward""".split()


# A new worker waits outside in its init(), or is in the next plan as soon as it was started: --admit discovered, the alias's default.
@pytest.mark.parametrize("admission", ["ready", pytest.param("discovered", marks=pytest.mark.long)])
def test_collectives_of_a_new_worker_before_its_training_are_refused_by_name_and_do_not_count(run_script, admission):
    done = run_script(PARTS + JOB, *flags(1), "--admit", admission, ranks=1)
    require_refused(done, {**{name: f"{name}()" for name in PUBLIC}, "backward_in_buffers": "backward()", "compiled": "allreduce()"})
    require_trained(done, sizes=[2, 2])


GROWING = """
os.environ["RUEDA_LOG_LEVEL"] = "debug"
hvd.init()
state = hvd.elastic.TorchState(model=torch.nn.Linear(1, 1))

@hvd.elastic.run
def train(state):
    grow(state)
    hvd.barrier()
    tell("trained")

train(state)
"""


def test_the_shared_memory_of_a_larger_job_is_made_before_its_ranks_meet(run_script):
    done = run_script(PARTS + GROWING, *flags(1), "--admit", "ready", ranks=1)
    require_trained(done)
    for rank in (0, 1):
        assert f"init: the segment of rank {rank} was prepared" in done.err, done.err


# Worker 0 takes a slot from the list, and gives it back once both have heard of that. Both commit once they have heard of that, too.
UNDONE = """
import threading

hvd.init()
state = hvd.elastic.TorchState(model=torch.nn.Linear(1, 1), step=0)
notice_taken_back, take_notices = threading.Condition(), state.take_notices

def telling():
    with notice_taken_back:
        taken = take_notices()
        notice_taken_back.notify_all()
        return taken

state.take_notices = telling

@hvd.elastic.run
def train(state):
    if rueda.elastic.worker_id() == 0:
        list_slots(1)
    await_change(state)
    hvd.barrier()
    if rueda.elastic.worker_id() == 0:
        list_slots(2)
    with notice_taken_back:
        notice_taken_back.wait_for(state._host_messages.empty)
    state.commit()
    tell("committed", notices=rueda.elastic.membership().notices)

train(state)
"""


def test_a_change_that_is_undone_before_a_commit_interrupts_nobody(run_script):
    done = run_script(PARTS + UNDONE, *flags(2), "--discovery-interval", "0.1", ranks=2)
    assert done.code == 0, done.out + done.err
    committed = sorted(told(done, "committed"), key=lambda line: line["worker"])
    assert committed == [dict(what="committed", worker=worker, plan=1, notices=2) for worker in (0, 1)], done.out + done.err
