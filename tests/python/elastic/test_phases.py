"""What a worker logs when a plan begins: the others wait for the slowest one, and its line tells what it did meanwhile."""

import re

import pytest
from test_jobs import LOOP, STEPS, TRAINING, job, require_true_states

LOGS = "import logging\nlogging.basicConfig(level=logging.INFO)\n"


def phases(text, plan):
    """What each worker did before its function was called in this plan. None of them logs two lines of one plan."""
    found = re.findall(rf"rueda\.elastic:worker (\d+) begins plan {plan}: (.*)", text)
    assert len(found) == len(dict(found)), text
    return {int(worker): re.sub(r" \d+ ms", "", done).strip() for worker, done in found}


def test_survivors_log_what_they_did_until_they_went_on(tmp_path):
    done = job(tmp_path, LOOP, {0: 10}, training=LOGS + TRAINING)
    require_true_states(done, [1, 2, 3], [4] * 10 + [3] * (STEPS - 10))
    assert phases(done.err, 2) == dict.fromkeys((1, 2, 3), "restored, joined, agreed, reset callbacks run, synced")
    assert not phases(done.err, 1), "nothing had to be joined again"


@pytest.mark.long
def test_a_state_that_is_trained_twice_in_a_plan_logs_its_beginning_once(tmp_path):
    done = job(tmp_path, LOOP + "train(state)\nstate.sync()\ntrain(state)\n", {0: 10}, training=LOGS + TRAINING)
    assert done.code == 0, done.err
    assert phases(done.err, 2) == dict.fromkeys((1, 2, 3), "restored, joined, agreed, reset callbacks run, synced")


@pytest.mark.long
def test_nothing_is_logged_unless_the_program_asks_for_it(tmp_path):
    done = job(tmp_path, LOOP, {0: 10})
    assert done.code == 0 and "begins plan" not in done.out + done.err
