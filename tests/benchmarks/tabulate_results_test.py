"""scripts/tabulate-results prints what files of scripts/chaos, scripts/soak and scripts/fuzz hold, a table for each kind."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "scripts", "tabulate-results")
TIMES = {"n": 3, "p50_ms": 7.6, "p95_ms": 9.4, "p99_ms": 35.8, "max_ms": 40.0}
FAULT = {"rounds": 3, "wrong": 1, "raised_after": TIMES, "hvdrun_ended_after": {"n": 0, "p50_ms": None}, "nothing_left_after": TIMES}
ELASTIC = {"load": 4.4, "scenarios": {"kill": {"rounds": 20, "wrong": 0, "goal": "0.15 s", "met": False, "noticed": TIMES, "recovered": None, "ended": {**TIMES, "max_ms": 50}}}}
SOAK = {"preset": "asan", "parts": [{"part": "programs", "done": 50, "table": [
    {"process": "rank 0", "descriptors": [31, 32], "threads": [4, 4], "pss": [100, 90], "pss_of_fifths": [80, 100, 99, 91, 90],
     "allocated": [70, 71], "allocated_of_fifths": [60, 70, 70, 70, 71]}]}]}  # fmt: skip

RESETS = {"resets": 200, "table": [{"process": "hvdrun", "descriptors": [2, 2], "threads": [1, 1], "pss": [9, 12]}]}
FUZZ = {"executions": 3000, "searches": [], "parsers": {"wish": {"executions": 2000, "core_seconds": 0.1, "corpus": 9, "failures": 0},
                                                        "ask": {"executions": 1000, "core_seconds": 0.2, "corpus": 4, "failures": 1}}}  # fmt: skip


class TabulateResults(unittest.TestCase):
    def rows(self, *contents, code=0):
        """The cells of each line of a table, or the sentence of an error."""
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, f"{number}.json") for number in range(len(contents))]
            for path, content in zip(paths, contents):
                with open(path, "w") as file:
                    file.write(content if isinstance(content, str) else json.dumps(content))
            done = subprocess.run([sys.executable, PROGRAM, *paths], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return [line.strip("|").split("|") for line in done.stdout.splitlines()] if code == 0 else done.stdout + done.stderr

    def test_each_kind_of_file_gets_a_table(self):
        one, many = {"program": "c", "fault": "abort", "ranks": 2, "load": 1, **FAULT}, {"program": "jax", "ranks": 4, "load": 2, "faults": {"stop": FAULT}}
        lines = [[cell.strip() for cell in row] for row in self.rows(one, ELASTIC, many, SOAK, RESETS, FUZZ)]
        self.assertIn(["c, abort", "2", "3", "1", "8, 36, 40", "-", "8, 36, 40", "1", "0.json"], lines)
        self.assertIn(["jax, stop", "4", "3", "1", "8, 36, 40", "-", "8, 36, 40", "2", "2.json"], lines)
        self.assertIn(["kill", "20", "0", "8, 9, 40", "-", "8, 9, 50", "0.15 s", "**missed**", "4", "1.json"], lines)
        self.assertIn(["asan, programs", "50", "rank 0", "31 to 32", "4 to 4", "80, 100, 99, 91, 90", "-10", "70 to 71", "+1", "3.json"], lines)
        self.assertIn(["elastic, resets", "200", "hvdrun", "2 to 2", "1 to 1", "9 to 12", "+3", "-", "-", "4.json"], lines)
        self.assertIn(["wish", "2,000", "20,000", "9", "0", "5.json"], lines)
        self.assertIn(["all 2", "3,000", "10,000", "13", "1", "5.json"], lines)
        self.assertEqual(sum(line[0] == "---" for line in lines), 4)

    def test_a_file_of_something_else_is_refused_and_named(self):
        for content, sentence in (({"results": []}, "0.json is not of scripts/chaos, scripts/soak or scripts/fuzz"), ("my thesis", "0.json: Expecting value")):
            found = self.rows(content, code=1)
            self.assertIn(sentence, found)
            self.assertNotIn("|", found)


if __name__ == "__main__":
    unittest.main()
