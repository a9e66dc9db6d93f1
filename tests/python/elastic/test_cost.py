"""What a training pays in each step for being able to lose a worker, and what is sent after one is lost."""

import pytest
from test_jobs import LOOP, TRAINING, job, require_true_states

STEPS = 24  # of test_jobs

# costs(): what a call sends and copies, as counts of operations, bytes and copies of the model or the optimizer.
COSTS = """
from rueda.torch.elastic import handlers
copies = []

def counting(save):
    return lambda self: (copies.append(type(self).__name__), save(self))[1]

for handler in (handlers.ModelStateHandler, handlers.OptimizerStateHandler):
    handler.save = counting(handler.save)

def costs(call):
    before, copied = hvd.stats(), len(copies)
    call()
    after = hvd.stats()
    return after["tensors"]["finished"] - before["tensors"]["finished"], after["bytes"] - before["bytes"], len(copies) - copied

@hvd.elastic.run
def train(state):
    while state.step < STEPS:
        step, safety = costs(lambda: one_step(state)), costs(state.SAFETY)
        assert step == (1, 24, 0) and safety == EXPECTED, (state.step, step, safety)
    return "trained"

tell(state, returned=train(state))
"""


def require_cost(folder, safety, expected, training=TRAINING):
    done = job(folder, COSTS.replace("SAFETY", safety).replace("EXPECTED", expected), ranks=2, training=training)
    require_true_states(done, [0, 1], [2] * STEPS)


def test_a_commit_costs_an_all_reduce_of_8_bytes_and_a_copy_of_the_state(tmp_path):
    require_cost(tmp_path, "commit", "(1, 8, 2)")


@pytest.mark.long
def test_in_step_mode_a_step_costs_an_all_reduce_of_8_bytes_and_no_copy(tmp_path):
    require_cost(tmp_path, "check_host_updates", "(1, 8, 0)", TRAINING.replace("resets=0)", "resets=0, step_mode=True)"))


# How often each worker takes the state of another one: in the beginning, and after a death if it must.
COUNTING = """
import threading
received = []
receive = state._receive
state._receive = lambda: (received.append(state.step), receive())
BEFORE
""" + LOOP.replace("returned=train(state)", "returned=train(state), received=received")


def require_received(folder, expected, before="", text=COUNTING):
    done = job(folder, text.replace("BEFORE", before), {2: 10})
    workers = require_true_states(done, [0, 1, 3], [4] * 10 + [3] * (STEPS - 10))
    assert all(len(each["received"]) == expected for each in workers.values()), workers


def test_ranks_that_go_back_to_the_same_commit_send_each_other_nothing(tmp_path):
    require_received(tmp_path, 1)


@pytest.mark.long
def test_what_a_reset_callback_changes_is_made_equal_and_saved(tmp_path):
    require_received(tmp_path, 2, "state.register_reset_callbacks([lambda: setattr(state, 'resets', state.resets + 1)])")


# Worker 2 dies once worker 1 has saved its state, so that nothing breaks before.
SAVING = COUNTING.replace("            die()\n", """
            while not os.path.exists("saved"):
                threading.Event().wait(0.01)
            die()
        if state.step == 10 and me == 1 and len(calls) == 1:
            state.save()
            open("saved", "w").close()
""")


@pytest.mark.long
def test_ranks_that_have_saved_something_else_than_their_commit_take_the_state_of_one(tmp_path):
    require_received(tmp_path, 2, text=SAVING)
