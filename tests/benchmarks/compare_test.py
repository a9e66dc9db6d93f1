"""The parts of benchmarks/compare: arguments, plans, statistics, tables, and turns that fail or hang. Nothing is timed."""

import contextlib
import importlib.util
import io
import math
import os
import select
import sys
import tempfile
import types
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "benchmarks", "compare"))

import arguments
import machine
import peers
import report
import statistics_of
import turn
import works

PEERS = ["rueda", "mpich", "gloo"]


def sample(round_, value, quiet=True, distance="near"):
    return {"round": round_, "value": value, "quiet": quiet, "distance": distance}


class Arguments(unittest.TestCase):
    def refused(self, *words):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), self.assertRaises(SystemExit) as ended:
            arguments.parse("", PEERS, list(words))
        self.assertEqual(ended.exception.code, 2)
        return errors.getvalue()

    def test_wrong_words_end_in_a_sentence_that_names_them(self):
        self.assertIn("'two' is not a list of numbers of ranks; write --np 1,2,4", self.refused("--np", "two"))
        self.assertIn("'0,2' has a number of ranks that is not from 1 to 64", self.refused("--np", "0,2"))
        self.assertIn("'nccl' is not a peer; choose from rueda, mpich, gloo", self.refused("--peers", "rueda,nccl"))
        self.assertIn("'big' is not a group; choose from small, middle", self.refused("--only", "big"))
        self.assertIn("'0' is not a number from 1 to 1000", self.refused("--rounds", "0"))
        self.assertIn("'nan' is not a number from 0.1 to 10000", self.refused("--minutes", "nan"))
        self.assertIn("--rounds and --minutes do not go together", self.refused("--rounds", "2", "--minutes", "3"))

    def test_quick_means_two_ranks_one_round_and_no_training(self):
        options = arguments.parse("", PEERS, ["--quick"])
        self.assertEqual((options.np, options.rounds), ([2], 1))
        self.assertNotIn("training", options.only)
        options = arguments.parse("", PEERS, [])
        self.assertEqual((options.np, options.rounds, options.only), ([1, 2, 4, 8], 3, works.GROUPS))


class Stopped(unittest.TestCase):
    """Ctrl-C in a run of many rounds."""

    def performed(self, stops_in):
        where = importlib.util.spec_from_file_location("compare_program", os.path.join(ROOT, "benchmarks", "compare", "__main__.py"))
        program = importlib.util.module_from_spec(where)
        where.loader.exec_module(program)

        class Run(program.Run):
            def __init__(self, options, folder):
                self.rows, self.failures, self.training, self.left_out, self.versions = [], [], [], {}, {}
                self.peers = [types.SimpleNamespace(name="rueda")]

            def round(self, round_):
                self.rows.append({"round": round_})
                self.training.append({"round": round_, "ranks": 2, "images": 1, "quiet": True, "times": {}})
                if round_ == stops_in:
                    raise KeyboardInterrupt

        options = arguments.parse("", PEERS, ["--rounds", "5"])
        with mock.patch.object(program, "Run", Run), mock.patch.object(machine, "foreign_now", return_value=0.0):
            with contextlib.redirect_stderr(io.StringIO()) as said:
                found = program.perform(options, "")
        self.assertIn("the results are those of 2 whole rounds", said.getvalue())
        return found

    def test_it_keeps_the_rounds_that_are_over(self):
        found = self.performed(stops_in=2)
        self.assertEqual((found["rounds"], [row["round"] for row in found["rows"]]), (2, [0, 1]))
        self.assertEqual(len(found["training"]), 1)

    def test_it_ends_as_ever_if_no_round_is_over(self):
        with self.assertRaises(KeyboardInterrupt):
            self.performed(stops_in=0)


class Choices(unittest.TestCase):
    def test_choices_have_peers_of_their_own(self):
        options = arguments.parse("", PEERS, ["--choices"])
        self.assertEqual((options.np, options.only, options.seconds), ([2, 4], ["middle", "large"], 1))
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            arguments.parse("", PEERS, ["--choices", "--peers", "rueda"])

    def test_each_fixed_choice_forbids_tuning_and_names_one_way(self):
        ways = [peer.settings(2, "folder") for peer in peers.choices().values()]
        fixed = [way for way in ways if way.get("RUEDA_AUTOTUNE") == "0"]
        self.assertEqual((len(ways), len(fixed)), (10, 8))
        self.assertEqual(len({tuple(sorted(way.items())) for way in fixed}), 8)
        self.assertEqual(ways[0], {})
        self.assertNotEqual(peers.choices()["kept"].settings(2, "f"), peers.choices()["kept"].settings(4, "f"))

    def test_a_one_shot_is_given_no_more_than_a_slot(self):
        one_shot = next(peer for name, peer in peers.choices().items() if name.startswith("one_shot"))
        self.assertTrue(one_shot.takes(works.Work("fits", (65536,))))
        self.assertFalse(one_shot.takes(works.Work("does not", (65537,))))


class Works(unittest.TestCase):
    def test_bert_base_has_199_tensors_and_110_million_numbers(self):
        shapes = works.bert_base_shapes()
        self.assertEqual((len(shapes), sum(math.prod(shape) for shape in shapes)), (199, 109_482_240))

    def test_a_line_of_a_plan_has_the_tensors_in_order(self):
        work = works.Work("some", (64, 64, 64, 8, 64), packed=True, codec="bf16")
        self.assertEqual(works.plan_line(work, 0.25), "some packed hot private bf16 0.25 64*3,8,64")
        self.assertEqual(works.plan_line(works.Work("cold", (2,), cold=True), 1, shared=True), "cold each cold shared none 1 2")

    def test_the_sweep_goes_from_8_bytes_to_256_mebibytes(self):
        sizes = [4 * work.counts[0] for group in ("small", "middle", "large") for work in works.works_of(group, False) if work.cold]
        self.assertEqual((sizes[0], sizes[-1], sizes), (8, 256 << 20, sorted(sizes)))


class Statistics(unittest.TestCase):
    def test_turns_of_a_busy_machine_count_only_if_there_are_no_others(self):
        both = [sample(0, 10), sample(1, 900, quiet=False), sample(2, 12)]
        self.assertEqual(statistics_of.summary(both), {"median": 11, "least": 10, "most": 12, "samples": 2, "quiet": True})
        self.assertEqual(statistics_of.summary(both[1:2])["quiet"], False)
        self.assertIsNone(statistics_of.summary([]))

    def test_a_ratio_is_of_one_round_and_one_distance(self):
        ours = [sample(0, 10), sample(1, 20), sample(2, 10, distance="changed"), sample(3, 10, distance="far")]
        theirs = [sample(0, 30), sample(1, 20), sample(2, 90, distance="changed"), sample(3, 90), sample(4, 90)]
        self.assertEqual(statistics_of.ratio(ours, theirs), 2)
        self.assertIsNone(statistics_of.ratio(ours[3:], theirs[3:]))

    def test_the_distance_of_cores_is_that_of_both_round_trips(self):
        found = [statistics_of.distance(*pair) for pair in ((90, 80), (500, 320), (227, 333), (90, 500), (90, 0))]
        self.assertEqual(found, ["near", "far", "far", "changed", "unknown"])


class Table(unittest.TestCase):
    def test_a_loss_is_bold_and_a_busy_turn_has_a_star(self):
        ours = [sample(0, 10)]
        self.assertEqual(report.cell([sample(0, 25)], ours), "25: 2.50 times")
        self.assertEqual(report.cell([sample(0, 5)], ours), "5: **0.50 times**")
        self.assertEqual(report.cell([sample(0, 1234, quiet=False)]), "1,234 *")
        self.assertEqual(report.cell([sample(0, 25), sample(1, 27)]), "26 (25 to 27)")
        self.assertEqual(report.cell([]), "-")

    def test_a_packed_set_is_compared_with_ruedas_set(self):
        found = {"set": {"Rueda": [sample(0, 10)]}, "set-packed": {"MPICH": [sample(0, 5)]}}
        lines = report.table("np 2", found, ["Rueda", "MPICH"], "us")
        self.assertIn("| set-packed | - | 5: **0.50 times** |", lines)

    def test_a_choice_more_than_three_percent_behind_the_best_fixed_one_is_bold(self):
        found = {"tie": {"Rueda": [sample(0, 10.2)], "kept": [sample(0, 10)], "a": [sample(0, 10)], "b": [sample(0, 12)]},
                 "loss": {"Rueda": [sample(0, 11)], "a": [sample(0, 12)], "b": [sample(0, 10)]}, "none": {"Rueda": [sample(0, 1)]}}  # fmt: skip
        lines = report.choices_table(2, found, ["Rueda", "kept", "a", "b"])
        self.assertIn("| tie | a | 1.020 times | 1.000 times |", lines)
        self.assertIn("| loss | b | **1.100 times** | - |", lines)
        self.assertFalse(any("none" in line for line in lines))

    def test_the_plots_get_right_results_of_the_sweep_alone(self):
        row = {"ranks": 2, "count": 1, "correct": True, "name": "8B", "peer": "MPICH", "bytes": 8, "p50_us": 1.0, "line_ns": [90, 90]}
        others = [{**row, **other} for other in ({"correct": False}, {"name": "8B-cold"}, {"name": "8B-fp16"}, {"ranks": 4})]
        found = report.plot_rows({"rows": [row, *others]}, 2, False)
        self.assertEqual([(each["algorithm"], each["p50_us"]) for each in found], [("mpich", 1.0)])


class Turns(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_python(self, code, limit_s):
        return turn.run([[sys.executable, "-c", code]], [{}], self.folder.name, limit_s)

    def test_rows_are_found_behind_a_launchers_words(self):
        self.assertEqual(self.run_python("print('[0]<stdout>:compare {\"a\": 1}')\nprint('else')", 60), [{"a": 1}])

    def test_a_peer_that_fails_gives_its_last_words(self):
        with self.assertRaisesRegex(turn.Failed, "ended with code 1: no network"):
            self.run_python("raise SystemExit('no network')", 60)

    def test_a_peer_that_hangs_is_ended_with_what_left_its_group(self):
        path = os.path.join(self.folder.name, "pid")
        code = ("import os, signal\nif os.fork() == 0:\n    os.setsid()\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                f"    open({path + '.new'!r}, 'w').write(str(os.getpid()))\n    os.rename({path + '.new'!r}, {path!r})\n"
                "signal.pause()")  # fmt: skip
        for limit in (2, 20, 200):  # a slow machine may need longer until there is something to end
            with self.assertRaisesRegex(turn.Failed, f"took longer than {limit} s and was ended"):
                self.run_python(code, limit)
            if os.path.exists(path):
                break
        with open(path, encoding="ascii") as file:
            pid = int(file.read())
        with contextlib.suppress(ProcessLookupError):  # its new parent has buried it
            death = os.pidfd_open(pid)
            self.addCleanup(os.close, death)
            # A killed process loses its memory first and may be at work on the rest of its end for a while.
            self.assertEqual(select.select([death], [], [], 60)[0], [death], "what left its group is alive")


if __name__ == "__main__":
    unittest.main()
