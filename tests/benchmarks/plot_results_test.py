"""scripts/plot-results draws what a file holds: each series with its points where the axes put them, for light and dark pages."""

import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "scripts", "plot-results")
SVG = "{http://www.w3.org/2000/svg}"

SIZES = [1 << 10, 1 << 14, 1 << 18, 1 << 22]
LIMIT = 8.0  # GB/s
NAMES = ("shm", "shared", "mpi", "gloo")


def entry(algorithm, size, p50, **others):
    plain = {"collective": "allreduce", "bytes": size, "dtype": "f32", "codec": "none", "algorithm": algorithm, "ranks": 2,
             "p50_us": p50, "line_ns": [90.0, 90.0], "correct": True, "in_place": True, "cold": False, "count": 1}
    return {**plain, **others}


def time_of(algorithm, size):
    """Microseconds, from a formula: a latency and a bandwidth of each series' own."""
    latency, bandwidth = {"shm": (5, 6e3), "shared": (3, 7e3), "mpi": (20, 2e3), "gloo": (90, 1e3)}[algorithm]
    return latency + size / bandwidth


RESULT = {
    "limit_GBps": LIMIT,
    "peer": {"name": "mpi", "library": "Some MPI 1.0"},
    "gloo": {"library": "PyTorch 0.1"},
    "results": [entry("shm_one_shot" if size < 1 << 16 else "shm_two_shot", size, time_of("shm", size)) for size in SIZES]
    + [entry("shm_shared", size, time_of("shared", size), memory="shared") for size in SIZES]
    + [entry("mpi", size, time_of("mpi", size)) for size in SIZES]
    + [entry("gloo", size, time_of("gloo", size)) for size in SIZES]
    # None of these belongs into the figure.
    + [entry("shm_two_shot", 1 << 12, 1e6, **other) for other in (
        {"count": 161}, {"cold": True}, {"in_place": False}, {"codec": "fp16"}, {"collective": "broadcast"}, {"correct": False})],
}


class PlotResults(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run_on(self, result, *flags):
        with open(self.path("sweep.json"), "w", encoding="utf-8") as file:
            json.dump(result, file)
        command = [sys.executable, "-B", PROGRAM, self.path("figure"), self.path("sweep.json"), *flags]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def figure(self, theme, result=RESULT, flags=()):
        done = self.run_on(result, *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return ET.parse(self.path(f"figure-{theme}.svg")).getroot()

    def panel(self, figure, kind):
        """The group of a panel, and a function from bytes and value to where they lie, by the panel's frame and its bounds."""
        group = next(g for g in figure.iter(f"{SVG}g") if g.get("class") == kind)
        frame = next(r for r in group.iter(f"{SVG}rect") if r.get("class") == "panel")
        left, top, width, height = (float(frame.get(key)) for key in ("x", "y", "width", "height"))
        values = [time_of(name, size) for name in NAMES for size in SIZES]
        if kind == "bandwidth":
            values = [size / (time_of(name, size) * 1e3) for name in NAMES for size in SIZES] + [LIMIT]
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

        def place(size, value):
            along = (math.log2(size) - math.log2(SIZES[0])) / (math.log2(SIZES[-1]) - math.log2(SIZES[0]))
            up = (math.log10(value) - low) / (high - low)
            return left + width * along, top + height * (1 - up)

        return group, place

    def series(self, group):
        return {g.get("data-series"): g for g in group.iter(f"{SVG}g") if g.get("class") == "series"}

    def test_each_series_has_its_points_where_the_formula_puts_them(self):
        for theme in ("light", "dark"):
            figure = self.figure(theme)
            for kind in ("bandwidth", "latency"):
                group, place = self.panel(figure, kind)
                series = self.series(group)
                self.assertEqual(list(series), ["Rueda", "Rueda, shared", "MPI", "Gloo", "Memory limit"])
                for name, algorithm in zip(series, NAMES):
                    found = [(float(c.get("cx")), float(c.get("cy"))) for c in series[name].iter(f"{SVG}circle")]
                    self.assertEqual(len(found), len(SIZES), name)
                    for size, point in zip(SIZES, found):
                        time = time_of(algorithm, size)
                        expected = place(size, time if kind == "latency" else size / (time * 1e3))
                        self.assertAlmostEqual(point[0], expected[0], delta=0.01, msg=f"{name} at {size}")
                        self.assertAlmostEqual(point[1], expected[1], delta=0.01, msg=f"{name} at {size}")

    def test_the_limit_is_level_in_bandwidth_and_proportional_to_bytes_in_latency(self):
        figure = self.figure("light")
        group, place = self.panel(figure, "bandwidth")
        (path,) = self.series(group)["Memory limit"].iter(f"{SVG}path")
        begin, end = place(SIZES[0], LIMIT), place(SIZES[-1], LIMIT)
        self.assertEqual(path.get("d"), f"M{begin[0]:.2f} {begin[1]:.2f}L{end[0]:.2f} {end[1]:.2f}")
        group, place = self.panel(figure, "latency")
        (path,) = self.series(group)["Memory limit"].iter(f"{SVG}path")
        begin = place(LIMIT * 1e3, 1)  # 1 us, the bottom of the axis, is reached at that many bytes
        end = place(SIZES[-1], SIZES[-1] / (LIMIT * 1e3))
        self.assertEqual(path.get("d"), f"M{begin[0]:.2f} {begin[1]:.2f}L{end[0]:.2f} {end[1]:.2f}")

    def test_title_legend_and_axes_say_what_is_drawn(self):
        figure = self.figure("dark", flags=["--machine", "a <small> machine"])
        texts = ["".join(t.itertext()) for t in figure.iter(f"{SVG}text")]
        for expected in ("allreduce, np 2, a <small> machine", "Rueda", "Rueda, shared", "MPI (Some MPI 1.0)", "Gloo (PyTorch 0.1)",
                         "Memory limit (8 GB/s)", "GB/s", "\u00b5s", "4 KiB", "1 MiB"):
            self.assertIn(expected, texts)
        self.assertEqual(texts.count("bytes of the tensor"), 2)

    def test_light_and_dark_differ_in_colours_only(self):
        light, dark = self.figure("light"), self.figure("dark")
        colours = ("fill", "stroke")
        both = list(zip(light.iter(), dark.iter()))
        self.assertEqual(len(both), len(list(light.iter())))
        for one, other in both:
            self.assertEqual({k: v for k, v in one.items() if k not in colours}, {k: v for k, v in other.items() if k not in colours})
        self.assertNotEqual(light.find(f"{SVG}rect").get("fill"), dark.find(f"{SVG}rect").get("fill"))

    def test_the_median_of_rows_of_one_size_is_drawn_and_far_rows_can_be_left_out(self):
        entries = [entry("ring", 1 << 10, 10), entry("ring", 1 << 20, 100), entry("ring", 1 << 20, 300), entry("ring", 1 << 20, 900)]
        entries.append(entry("ring", 1 << 22, 5000, line_ns=[90.0, 500.0]))
        titles = [t.text for t in self.figure("light", {"results": entries}).iter(f"{SVG}title")]
        self.assertIn("Rueda: 1 MiB, 300", titles)
        self.assertIn("Rueda: 4 MiB, 5000", titles)
        titles = [t.text for t in self.figure("light", {"results": entries}, ["--near"]).iter(f"{SVG}title")]
        self.assertNotIn("Rueda: 4 MiB, 5000", titles)

    def test_the_peers_of_a_comparison_have_lines_and_libraries(self):
        entries = [entry(name, size, 10 + size) for name in ("ring", "mpich", "oneccl") for size in SIZES]
        figure = self.figure("light", {"libraries": {"mpich": "MPICH 1.0", "oneccl": "oneCCL 2.0"}, "results": entries})
        self.assertEqual(list(self.series(self.panel(figure, "latency")[0])), ["Rueda", "MPICH", "oneCCL"])
        texts = ["".join(t.itertext()) for t in figure.iter(f"{SVG}text")]
        self.assertIn("MPICH (MPICH 1.0)", texts)
        self.assertIn("oneCCL (oneCCL 2.0)", texts)

    def test_files_that_do_not_fit_are_refused_with_a_sentence(self):
        both = {"results": [entry("ring", 1024, 10), entry("ring", 1024, 20, ranks=4)]}
        self.assertIn("entries of 2, 4 ranks; choose one with --np", self.run_on(both).stderr)
        self.assertEqual(self.run_on(both, "--np", "4").returncode, 0)
        self.assertIn("no file has an entry of allreduce", self.run_on({"results": []}).stderr)
        done = subprocess.run([sys.executable, "-B", PROGRAM, self.path("figure"), self.path("none.json")], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot read", done.stderr)


if __name__ == "__main__":
    unittest.main()
