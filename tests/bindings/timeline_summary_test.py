"""What rueda-timeline says of a timeline whose numbers are known."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop()


def negotiation(rank, name, batch, submitted, agreed):
    """Of a tensor with a thread of its own."""
    thread = 1 + 2 * sum(name.encode())
    return [
        {"ph": "M", "pid": rank, "tid": thread, "name": "thread_name", "args": {"name": name, "op": "allreduce", "set": 0}},
        {"ph": "X", "pid": rank, "tid": thread, "name": "negotiate allreduce", "ts": submitted, "dur": agreed - submitted,
         "args": {"batch": batch, "bytes": 4000}},
    ]  # fmt: skip


def unthreaded(rank, name, batch, submitted, agreed):
    facts = {"op": "allreduce", "set": 0, "batch": batch, "bytes": 4000}
    common = {"pid": rank, "tid": 2, "cat": "negotiate", "id": f"{rank}{name}{batch}", "name": name}
    return [dict(common, ph="b", ts=submitted, args=facts), dict(common, ph="e", ts=agreed)]


def batch(rank, number, begin, length):
    return [
        {"ph": "b", "pid": rank, "tid": 2, "cat": "queue", "id": str(number), "name": "queue", "ts": begin - 10},
        {"ph": "e", "pid": rank, "tid": 2, "cat": "queue", "id": str(number), "name": "queue", "ts": begin},
        {"ph": "X", "pid": rank, "tid": 2, "name": "ring", "ts": begin, "dur": length,
         "args": {"op": "allreduce", "set": 0, "batch": number, "tensors": 1, "bytes": 2000000, "first": "w"}},
        {"ph": "X", "pid": rank, "tid": 3, "name": "pack", "ts": begin, "dur": length, "args": {"busy_us": length / 4}},
        {"ph": "X", "pid": rank, "tid": 16, "name": "device exchange", "ts": begin, "dur": length, "args": {"busy_us": length / 2}},
    ]  # fmt: skip


class Summary(unittest.TestCase):
    def summarise(self, *files):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for number, text in enumerate(files):
                paths.append(os.path.join(folder, str(number)))
                with open(paths[-1], "w", encoding="utf-8") as file:
                    file.write(text)
            done = subprocess.run([sys.executable, PROGRAM, "summary", *paths], capture_output=True, text=True)
        return done

    def events(self):
        """Rank 1 submits 300 us after rank 0, three times of four; "slow" comes 2 ms late on rank 0."""
        events = []
        for number in range(4):
            at = 1000 * number
            late = number < 3
            events += negotiation(0, "w", number, at + (0 if late else 300), at + 400)
            events += negotiation(1, "w", number, at + (300 if late else 0), at + 400)
        events += unthreaded(0, "slow", 4, 6000, 6100) + unthreaded(1, "slow", 4, 4000, 6100)
        return events + batch(0, 0, 410, 100) + batch(1, 0, 410, 200)

    def test_it_says_where_the_time_went_and_who_was_late_how_often(self):
        done = self.summarise(json.dumps(self.events()))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "2 ranks, 6.1 ms from the first operation to the last end.")
        self.assertEqual(lines[1], "Rank 0: 5 tensors in 1 batches, 2.0 MB.")
        self.assertIn("  moved data for 100 us (1.6 %): ring 100 us", lines)
        self.assertIn("  moved data for 200 us (3.3 %): ring 200 us", lines)
        self.assertIn("  of that: pack 25 us, device exchange 50 us", lines)
        self.assertIn("  had batches that waited for the lane for 10 us (0.2 %)", lines)
        self.assertIn("  had tensors that waited for agreement for 1.4 ms (23.0 %)", lines)  # rank 0: 3 x 400, 100, 100
        self.assertIn("Of 5 tensors that several ranks submitted,", lines)
        self.assertIn("  rank 1 was the last 3 times (60 %), by 300 us on average and 300 us at most", lines)
        self.assertIn("  rank 0 was the last 2 times (40 %), by 1.15 ms on average and 2 ms at most", lines)
        self.assertEqual(lines[-1], "From the first rank to the last most time passed for: slow (2 ms), w (1.2 ms)")

    def test_several_files_of_one_job_are_read_as_one(self):
        events = self.events()
        parts = [json.dumps([event for event in events if event["pid"] == rank]) for rank in range(2)]
        self.assertEqual(self.summarise(*parts).stdout, self.summarise(json.dumps(events)).stdout)

    def test_in_an_elastic_job_workers_are_named_and_each_plan_is_read_for_itself(self):
        files = []
        for plan, workers in ((1, (0, 1)), (2, (0, 2))):
            names = [{"ph": "M", "pid": rank, "name": "process_name", "args": {"name": "", "worker": worker, "plan": plan}}
                     for rank, worker in enumerate(workers)]  # fmt: skip
            files.append(json.dumps(names + self.events()))
        lines = self.summarise(*files).stdout.splitlines()
        self.assertEqual(lines[0], "4 ranks of 2 plans, 6.1 ms from the first operation to the last end.")
        for worker, rank, plan in ((0, 0, 1), (1, 1, 1), (0, 0, 2), (2, 1, 2)):
            self.assertIn(f"Worker {worker} (rank {rank} of plan {plan}): 5 tensors in 1 batches, 2.0 MB.", lines)
        self.assertIn("Of 10 tensors that several ranks submitted,", lines)
        self.assertIn("  worker 2 (rank 1 of plan 2) was the last 3 times (30 %), by 300 us on average and 300 us at most", lines)

    def test_a_timeline_without_operations_says_so(self):
        self.assertIn("no operation", self.summarise("[]").stdout)

    def test_what_is_no_timeline_is_an_error_that_names_the_file(self):
        for text in ("", "{}", "[1]", '[{"ph": "e", "pid": 0}]'):
            done = self.summarise(text)
            self.assertEqual(done.returncode, 1, text)
            self.assertIn("is not a timeline of Rueda", done.stderr)


if __name__ == "__main__":
    unittest.main()
