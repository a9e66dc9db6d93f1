"""A process that is forked from a rank: what tells of the job answers, what would take part in it raises at once."""

FORKED = """
import os, sys
import numpy
import rueda.numpy
hvd.init()
some = hvd.add_process_set([0])
model, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
buffered = hvd.DistributedOptimizer(torch.optim.SGD(other.parameters(), lr=0.1), gradient_as_buffer_view=True)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
optimizer.zero_grad()
rows, peer = torch.ones(2), 1 - hvd.rank()
done = hvd.allreduce_async(rows)
hvd.barrier()
hvd.poll(done)
early = hvd.allreduce_async(rows, name="early") if hvd.rank() == 0 else None
child = os.fork()
"""

OPERATIONS = """
def step():
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()

calls = {
    "allreduce": lambda: hvd.allreduce(rows), "allreduce_": lambda: hvd.allreduce_(rows),
    "grouped_allreduce": lambda: hvd.grouped_allreduce([rows]), "broadcast": lambda: hvd.broadcast(rows, 0),
    "broadcast_": lambda: hvd.broadcast_(rows, 0), "allgather": lambda: hvd.allgather(rows),
    "grouped_allgather": lambda: hvd.grouped_allgather([rows]), "alltoall": lambda: hvd.alltoall(rows),
    "reducescatter": lambda: hvd.reducescatter(rows), "reducescatter_": lambda: hvd.reducescatter_(rows),
    "grouped_reducescatter": lambda: hvd.grouped_reducescatter([rows]),
    "sparse": lambda: hvd.sparse_allreduce_async(rows.to_sparse(), None), "send": lambda: hvd.send(rows, peer),
    "recv": lambda: hvd.recv(rows, peer), "barrier": hvd.barrier, "join": hvd.join, "add": lambda: hvd.add_process_set([1]),
    "remove": lambda: hvd.remove_process_set(some), "broadcast_object": lambda: hvd.broadcast_object(1),
    "allgather_object": lambda: hvd.allgather_object(1), "parameters": lambda: hvd.broadcast_parameters(model.state_dict(), 0),
    "state": lambda: hvd.broadcast_optimizer_state(optimizer, 0),
    "optimizer": lambda: hvd.DistributedOptimizer(torch.optim.SGD(other.parameters(), lr=0.1)),
    "step": step, "synchronize": optimizer.synchronize, "step of buffers": buffered.step, "a result": done.wait,
    "a result to come": (early or done).wait, "norm": lambda: hvd.SyncBatchNorm(2)(torch.ones(3, 2)),
    "numpy": lambda: rueda.numpy.allreduce(numpy.ones(1)), "stats": hvd.stats, "dump": hvd.dump,
    "timeline": lambda: hvd.start_timeline("timeline.json"), "stop": hvd.stop_timeline,
    "init": hvd.init, "init of all": lambda: hvd.init([0, 1]), "init of sets": lambda: hvd.init(process_sets=[some]),
}
if child == 0:
    for name, call in calls.items():
        try:
            call()
            print(name, "did not raise", flush=True)
        except hvd.NotInitializedError as error:
            if f"process {os.getpid()} was forked from rank {1 - peer} (process {os.getppid()})" not in str(error):
                print(name, error, flush=True)
    print("child", hvd.rank(), hvd.size(), hvd.is_initialized(), some.rank(), flush=True)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
early = early or hvd.allreduce_async(rows, name="early")
assert early.wait().tolist() == done.wait().tolist() == [1.0, 1.0]
hvd.barrier()
"""

SHUTDOWN = """
if child == 0:
    hvd.shutdown()
    hvd.shutdown()
    try:
        hvd.rank()
    except ValueError as error:
        print("child", hvd.is_initialized(), "init" in str(error), flush=True)
    hvd.init()
    print("job of children", hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), flush=True)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
early = early or hvd.allreduce_async(rows, name="early")
assert early.wait().tolist() == [1.0, 1.0]
hvd.barrier()
"""


def test_operations_raise_and_queries_answer(run_script):
    job = run_script(FORKED + OPERATIONS)
    assert job.code == 0, job.err
    assert (job.lines(0), job.lines(1)) == (["child 0 2 True 0"], ["child 1 2 True -1"])


def test_a_shutdown_ends_the_answers_and_children_of_all_ranks_may_be_a_job_of_their_own(run_script):
    job = run_script(FORKED + SHUTDOWN)
    assert job.code == 0, job.err
    assert job.lines(0) == job.lines(1) == ["child False True", "job of children 2.0"]
