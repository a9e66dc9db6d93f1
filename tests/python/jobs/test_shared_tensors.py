"""Tensors in shared memory over the life of a session: what a second session of the same processes does with them."""


def test_gradient_buffers_move_into_the_memory_of_a_new_session(run_script):
    ended = run_script("""
hvd.init()
model = torch.nn.Linear(200, 200)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(),
                                     gradient_as_buffer_view=True)

def in_place():
    return sum(row["batches"] for row in hvd.stats()["algorithms"] if row["name"] == "shm_shared")

for session in range(3):
    for step in range(3):
        optimizer.zero_grad()
        model(torch.full((1, 200), float(hvd.rank() + step))).sum().backward()
        optimizer.step()
        assert torch.allclose(model.weight.grad, torch.full((200, 200), 0.5 + step)), (session, step)
    print("in place" if in_place() > 0 else "copied", flush=True)
    hvd.shutdown()
    hvd.init()
kept = hvd.zeros(50_000).fill_(1)
hvd.shutdown()
kept += 1
assert (kept == 2).all()
print("kept", flush=True)
""")
    assert ended.code == 0, ended.err
    for rank in (0, 1):
        assert ended.lines(rank) == ["in place"] * 3 + ["kept"]


def test_everything_works_with_copies_if_sharing_is_off(run_script):
    ended = run_script("""
hvd.init()
tensor = hvd.zeros(50_000).add_(hvd.rank())
hvd.allreduce_(tensor, op=hvd.Sum)
assert (tensor == 1).all() and hvd.stats()["memory_bytes"]["shared_tensors"] == 0
print("done", flush=True)
""", environment={"RUEDA_SHARED_TENSORS": "0"})  # fmt: skip
    assert ended.code == 0, ended.err
    assert [ended.lines(rank) for rank in (0, 1)] == [["done"], ["done"]]
