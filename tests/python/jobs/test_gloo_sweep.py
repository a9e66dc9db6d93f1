"""benchmarks/gloo_sweep.py measures Gloo and writes what rueda-perf would."""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[3]


def test_a_sweep_of_gloo_has_an_entry_for_each_size_with_every_field_of_rueda_perf(tmp_path):
    file = tmp_path / "gloo.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "gloo_sweep.py"), "--alone", "--min", "1K", "--max", "4K", "--seconds", "0.01"]
    done = subprocess.run([*command, "--json", str(file)], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    written = json.loads(file.read_text())
    assert written["gloo"]["library"].startswith("PyTorch ")
    assert [entry["bytes"] for entry in written["results"]] == [1024, 4096]
    with open(ROOT / "docs" / "results" / "2-core-vm" / "sweep-np2.json", encoding="utf-8") as ours:
        fields = set(json.load(ours)["results"][0])
    for entry in written["results"]:
        assert set(entry) == fields
        assert (entry["algorithm"], entry["ranks"], entry["correct"]) == ("gloo", 2, True)
        assert 0 < entry["p50_us"] <= entry["p99_us"] <= entry["max_us"]
