"""The parts of benchmarks/choices.py: pairs, medians and verdicts of a log. Nothing is timed."""

import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

import choices


def row(chosen, stores, microseconds, class_bytes="65536"):
    values = {"set": "0", "operation": "allreduce", "type": "f32", "codec": "none", "ranks": "2", "hosts": "1", "distance": "near",
              "class_bytes": class_bytes, "short_tensors": "0", "algorithm": "shm_two_shot", "chunk_bytes": "262144",
              "waits": "spin", "lane_slots": "auto", "sockets": "auto"}  # fmt: skip
    return {**values, "stores": stores, "bytes": class_bytes, "microseconds": str(microseconds), "chosen": chosen}


def checked(own_us, other_us, times=20):
    rows = [row("0", "plain", 5), row("1", "plain", own_us)]
    for _ in range(times):
        rows += [row("2", "plain", own_us), row("3", "non-temporal", other_us), row("2", "plain", own_us), row("3", "plain", own_us)]
    return rows


class Choices(unittest.TestCase):
    def test_a_pair_is_the_choice_and_the_way_of_the_next_batch_of_its_class(self):
        rows = [row("2", "plain", 20), row("2", "plain", 99, "131072"), row("3", "non-temporal", 10), row("3", "plain", 1)]
        found = choices.pairs_of(rows)
        self.assertEqual([dict(ways) for ways in found.values()],
                         [{"shm_two_shot, 256 KiB, non-temporal, spin": [(20.0, 10.0, "shm_two_shot, 256 KiB, plain, spin")]}])  # fmt: skip

    def test_a_choice_more_than_three_percent_behind_is_missed(self):
        for own_us, missed in ((10.4, True), (10.2, False), (8, False)):
            lines = choices.verdicts(choices.pairs_of(checked(own_us, 10)))
            self.assertEqual(len(lines), 1)
            _, chosen, best, median, low, _, pairs, beside = lines[0]
            self.assertEqual((chosen, best, pairs, beside), ("shm_two_shot, 256 KiB, plain, spin", "shm_two_shot, 256 KiB, non-temporal, spin", 8, 1))
            self.assertAlmostEqual(median, own_us / 10)
            self.assertEqual(low > choices.MOST_BEHIND, missed)
            self.assertEqual(any("**MISSED**" in line for line in choices.table(choices.judged(lines, 0))), missed)

    def test_a_class_of_few_pairs_is_not_judged(self):
        self.assertEqual(choices.verdicts(choices.pairs_of(checked(20, 10, times=15))), [])

    def test_of_a_choice_that_a_challenger_has_replaced_no_pair_counts(self):
        after = [row("2", "non-temporal", 10), row("3", "plain", 20), row("2", "non-temporal", 10), row("3", "non-temporal", 10)]
        (_, chosen, best, median, *_), = choices.verdicts(choices.pairs_of(checked(20, 10) + after * 30))
        self.assertEqual((chosen, best, median), ("shm_two_shot, 256 KiB, non-temporal, spin", "shm_two_shot, 256 KiB, plain, spin", 0.5))

    def test_pairs_that_met_other_work_do_not_count(self):
        rows = checked(10, 10) + [row(*each) for _ in range(12) for each in (("2", "plain", 500), ("3", "non-temporal", 100))]
        self.assertEqual([line[3] for line in choices.verdicts(choices.pairs_of(rows))], [1])

    def test_whole_jobs_decide_if_they_can_be_started(self):
        (line,) = choices.judged(choices.verdicts(choices.pairs_of(checked(20, 10))), 0)
        self.assertTrue(choices.missed(line))
        self.assertFalse(choices.missed((*line[:-1], (1.02, 1.01, 1.2))))
        self.assertEqual(choices.verdict((*line[:-1], (1.02, 1.01, 1.2))), " undecided")
        self.assertEqual(choices.verdict((*line[:-1], (1.0, 0.99, 1.02))), "")
        self.assertTrue(choices.missed((*line[:-1], (1.05, 1.04, 1.06))))
        self.assertTrue(choices.can_start(line[0]))
        for name, value in (("type", "f64"), ("hosts", "2"), ("operation", "broadcast"), ("set", "1"), ("codec", "fp16"), ("short_tensors", "1")):
            self.assertFalse(choices.can_start(tuple(value if each == name else known for each, known in zip(choices.CLASS, line[0]))))

    def test_a_way_is_told_and_set_alike(self):
        self.assertEqual(choices.settings_of(choices.way({**row("2", "plain", 20), "lane_slots": "2"})),
                         ["--no-autotune", "--allreduce-algorithm", "shm_two_shot", "--chunk-bytes", "256K", "--stores", "plain",
                          "--waits", "spin", "--lane-slots", "2"])  # fmt: skip

    def test_the_range_of_a_median_grows_with_the_spread_and_shrinks_with_the_number(self):
        few = choices.median_of([1 + i / 20 for i in range(20)])
        many = choices.median_of([1 + i / 2000 for i in range(2000)])
        self.assertLessEqual(few[1], few[0])
        self.assertLessEqual(few[0], few[2])
        self.assertLess(many[2] - many[1], few[2] - few[1])
        self.assertEqual(choices.median_of([2.0] * 12), (2.0, 2.0, 2.0))

    def test_a_log_that_says_nothing_is_an_error_and_no_verdict(self):
        header = ",".join(row("2", "plain", 1))
        for text, said in (("", "no class has 16 pairs"), (header, "no class has 16 pairs"), ("a,b\n1,2\n", "no column 'set'"),
                           (header + "\n" + ",".join(row("2", "plain", 1).values()) + "\n" + ",".join(row("3", "plain", "x").values()),
                            "could not convert string to float: 'x'"), ("\xff", "can't decode byte"),
                           (self.log(checked(20, 10), class_bytes="x"), "invalid literal for int()"),
                           (self.log(checked(20, 10)).replace(",3\n", "\n"), "no class has 16 pairs")):  # fmt: skip
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "trials.csv")
                path.write_bytes(text.encode("latin-1"))
                with contextlib.redirect_stderr(io.StringIO()) as heard:
                    self.assertEqual(choices.main(["--read", str(path)]), 2)
            self.assertIn(said, heard.getvalue())

    def test_a_table_that_cannot_be_written_is_an_error_and_no_verdict(self):
        with tempfile.TemporaryDirectory() as folder, open("/dev/full", "w", encoding="utf-8") as full:
            path = pathlib.Path(folder, "trials.csv")
            path.write_text(self.log(checked(10, 10)), encoding="utf-8")
            command = [sys.executable, "-B", choices.__file__, "--read", str(path)]
            ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual((ended.returncode, ended.stderr), (2, "choices: output: No space left on device\n"))

    @staticmethod
    def log(rows, **values):
        return "\n".join([",".join(rows[0]), *(",".join({**row, **values}.values()) for row in rows)]) + "\n"

    def test_wrong_options_end_before_a_job_starts(self):
        for options, said in ((["--np", "2,,4"], "'2,,4' is not a list of positive numbers"), (["--np", "0"], "'0' is not"),
                              (["--keep", "/nowhere/trials.csv"], "there is no folder /nowhere"), (["--keep", "/"], "it is a folder")):  # fmt: skip
            with contextlib.redirect_stderr(io.StringIO()) as heard, self.assertRaises(SystemExit) as end:
                choices.main(options)
            self.assertEqual(end.exception.code, 2)
            self.assertIn(said, heard.getvalue())


if __name__ == "__main__":
    unittest.main()
