"""Step mode in jobs of real processes: workers are killed in and out of the step. No step that a survivor has finished is lost,
and the state is that of a replay in one process, bit for bit."""

import random

import pytest
from test_jobs import TRAINING, job, require_true_states, told

STEPS = 24  # of test_jobs

# One sample for each rank and step. What is set before the step is taken back if that fails.
STEPPING = TRAINING.replace("sizes=[], resets=0)", "sizes=[], tried=0, part=0, sampler=sampler, step_mode=True)").replace(
    "state = hvd.elastic", "sampler = hvd.elastic.ElasticSampler(range(1000))\nstate = hvd.elastic") + """
import random, threading
finished = [0]

def lost(state):
    most = max(hvd.allgather_object(finished[0], "finished"))
    assert state.step >= most and state.tried == state.step and state.part == 0, (state.step, most, state.tried, state.part)
    assert sampler.processed_num == sum(state.sizes), (sampler.processed_num, state.sizes)

def die_at(moment):
    if MOMENTS.get(str(me)) == [state.step, moment]:
        die()

def advance(state):
    state.step += 1
    state.sizes = state.sizes + [hvd.size()]
    sampler.record_batch(0, 1)
    finished[0] = state.step

def one_step(state):
    state.tried += 1
    optimizer.zero_grad()
    hook = model.weight.register_hook(lambda _: die_at("backward"))
    model(inputs(state.step, hvd.rank())).sum().backward()
    hook.remove()
    optimizer.synchronize()
    die_at("reduced")
    with optimizer.skip_synchronize():
        optimizer.step()
    die_at("updated")
    advance(state)
"""

LOOP = """
@hvd.elastic.run
def train(state):
    calls.append(state.step)
    lost(state)
    while state.step < STEPS:
        one_step(state)
        state.check_host_updates()
    return "trained"

tell(state, returned=train(state))
"""

# From the first step on: before that the states differ, and the lowest rank's counts.
AT_ANY_MOMENT = """
timer = threading.Timer(SECONDS.get(str(me), 0), die)
timer.daemon = True
""" + LOOP.replace("    lost(state)\n", "    lost(state)\n    str(me) in SECONDS and timer.ident is None and timer.start()\n")


def stepping(folder, text, ranks=4, moments=(), seconds=(), steps=STEPS, training=STEPPING):
    settings = {str(worker): list(value) if isinstance(value, tuple) else value for worker, value in dict(moments or seconds).items()}
    source = f"MOMENTS = {settings if moments else {}!r}\nSECONDS = {settings if seconds else {}!r}\n" + text
    return job(folder, source, ranks=ranks, training=training, steps=steps)


def require_replayed(done, survivors, steps=STEPS):
    assert done.code == 0, done.out + done.err
    sizes = next(iter(told(done).values()))["sizes"]
    assert len(sizes) == steps and sizes == sorted(sizes, reverse=True), sizes
    return require_true_states(done, survivors, sizes), sizes


def test_workers_die_at_each_moment_of_the_step_and_no_finished_step_is_lost(tmp_path):
    moments = {0: (5, "backward"), 2: (9, "reduced"), 3: (13, "updated")}
    workers, sizes = require_replayed(stepping(tmp_path, LOOP, 5, moments), [1, 4])
    assert all(each["calls"] == 4 and each["returned"] == "trained" for each in workers.values())
    assert sizes[:5] == [5] * 5 and sizes[5:9] == [4] * 4 and sizes[10:13] == [3] * 3 and sizes[14:] == [2] * (STEPS - 14)


def in_two_passes(text):
    return text.replace("        state.check_host_updates()\n", "").replace("@hvd", PASSES + "@hvd", 1)


# A step has two backward passes, the program counts them in its state, and says nothing between its steps.
PASSES = """
optimizer.set_backward_passes_per_step(2)

def one_step(state):
    while state.part < 2:
        if state.part == 0:
            optimizer.zero_grad()
        die_at(f"pass {state.part}")
        model(inputs(state.step, hvd.rank()) * (state.part == 0)).sum().backward()
        state.tried += state.part == 0
        state.part += 1
    optimizer.step()
    state.part = 0
    advance(state)

"""


def test_a_step_of_two_passes_is_taken_whole_or_not_at_all(tmp_path):
    _, sizes = require_replayed(stepping(tmp_path, in_two_passes(LOOP), 3, {0: (7, "pass 1")}), [1, 2])
    assert sizes == [3] * 7 + [2] * (STEPS - 7)


# All gradients of step 10 are reduced. Worker 1 alone updates its parameters, then the job breaks.
AHEAD = LOOP.replace("        one_step(state)\n", """
        if state.step == 10 and len(calls) == 1:
            state.tried += 1
            optimizer.zero_grad()
            model(inputs(state.step, hvd.rank())).sum().backward()
            optimizer.synchronize()
            if me == 1:
                with optimizer.skip_synchronize():
                    optimizer.step()
                advance(state)
                state._steps.pass_point()  # as a check does, which the others do not reach
            raise hvd.HorovodInternalError("as a program raises it")
        one_step(state)
""")


@pytest.mark.long
def test_the_state_of_the_only_rank_that_has_finished_a_step_counts(tmp_path):
    done = stepping(tmp_path, AHEAD)
    require_true_states(done, [0, 1, 2, 3], [4] * STEPS)


def test_if_that_rank_dies_before_it_has_sent_its_state_the_others_lose_no_other_step(tmp_path):
    done = stepping(tmp_path, "state.register_reset_callbacks([lambda: die() if me == 1 else None])\n" + AHEAD, 3)
    require_true_states(done, [0, 2], [3] * 10 + [2] * (STEPS - 10))


@pytest.mark.long
def test_if_nobody_is_between_two_steps_the_last_commit_counts_and_a_warning_says_so(tmp_path):
    text = LOOP.replace("        one_step(state)\n        state.check_host_updates()\n", """
        state.tried += 1
        optimizer.zero_grad()
        model(inputs(state.step, hvd.rank())).sum().backward()
        optimizer.step()
        if state.step == 10 and me == 2:
            die()
        hvd.barrier()  # where values do not belong to the parameters
        advance(state)
        finished[0] = 0
        if state.step % 4 == 0:
            state.commit()
""")
    done = stepping(tmp_path, text)
    require_true_states(done, [0, 1, 3], [4] * 8 + [3] * (STEPS - 8))
    assert "the rank that is furthest was not between two steps, so all go back to the last commit" in done.err


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("change", [str, in_two_passes], ids=["with checks", "two passes"])
def test_workers_that_die_at_any_moment_take_no_finished_step_with_them(tmp_path, seed, change):
    chance = random.Random(seed)
    victims = chance.sample(range(5), 3)
    seconds = {victim: chance.uniform(0, 1.5) for victim in victims}
    require_replayed(stepping(tmp_path, change(AT_ANY_MOMENT), 5, seconds=seconds, steps=3000), sorted(set(range(5)) - set(victims)), 3000)


# Two optimizers under one loss scale. In step 6 the scale skips the second one's step. The program says nothing between steps.
SCALED = STEPPING.replace("state = hvd.elastic", """head = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.constant_(head.weight, float(hvd.rank()))
other = hvd.DistributedOptimizer(torch.optim.SGD(head.parameters(), lr=1.0), named_parameters=[("head", head.weight)], op=hvd.Sum)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
state = hvd.elastic""", 1).replace("step_mode=True", "head=head, other=other, scaler=scaler, step_mode=True") + """
def update(stepped):
    stepped.synchronize()
    scaler.unscale_(stepped)
    with stepped.skip_synchronize():
        scaler.step(stepped)

def one_step(state):
    optimizer.zero_grad()
    die_at("backward")
    scaler.scale(model(inputs(state.step, hvd.rank())).sum()).backward()
    state.tried += 1  # what changes before the first gradient counts as done
    update(optimizer)
    other.zero_grad()
    scaler.scale(head(torch.ones(1, 1)).sum() * (float("inf") if state.step == 6 else 1.0)).backward()
    update(other)
    scaler.update()
    advance(state)
"""


@pytest.mark.long
def test_a_step_that_a_loss_scale_has_skipped_does_not_end_the_points(tmp_path):
    text = LOOP.replace("        state.check_host_updates()\n", "") + """
taken = sum(size for step, size in enumerate(state.sizes) if step != 6)
assert head.weight.item() == -taken and scaler.get_scale() == 512.0, (head.weight, state.sizes, scaler.get_scale())
"""
    _, sizes = require_replayed(stepping(tmp_path, text, 3, {1: (12, "backward")}, training=SCALED), [0, 2])
    assert sizes == [3] * 12 + [2] * (STEPS - 12)
