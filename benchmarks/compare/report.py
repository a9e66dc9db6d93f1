"""A run's JSON as a page: a table for each number of ranks, with medians, spreads and ratios, and the files of the plots."""

import json
import pathlib
import subprocess
import sys

from statistics_of import ratio, summary

ALGORITHMS = {"Rueda": "rueda", "Rueda, shared": "rueda", "Open MPI": "mpi", "MPICH": "mpich", "oneCCL": "oneccl", "Gloo": "gloo"}
IDLE = {"idle_core_percent": "percent of a core, idle", "wakeups_per_second": "wake-ups a second, idle",
        "waiting_core_percent": "percent of a core, waiting for a late rank", "pss_growth_by_init_MiB": "MiB of Pss by init",
        "pss_growth_by_batch_MiB": "MiB of Pss by a 64 MiB all-reduce"}  # fmt: skip
OURS = "Rueda"
MOST_BEHIND = 1.03  # Rueda's own choice may take so many times as long as the best fixed one


def samples_of(run, field):
    """By ranks, work and peer: the samples of a field."""
    found = {}
    for row in run["rows"]:
        if field in row:
            sample = {key: row[key] for key in ("round", "quiet", "distance")}
            works = found.setdefault(row["ranks"], {})
            works.setdefault(row["name"], {}).setdefault(row["peer"], []).append({**sample, "value": row[field]})
    return found


def number(value):
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def cell(samples, ours=None):
    """Median, and spread if there are several; beside ours the ratio, a loss of Rueda's in bold; a star: the machine was not
    quiet."""
    found = summary(samples)
    if found is None:
        return "-"
    spread = f" ({number(found['least'])} to {number(found['most'])})" if found["least"] != found["most"] else ""
    text = number(found["median"]) + spread + ("" if found["quiet"] else " *")
    times = ratio(ours, samples) if ours else None
    if times is None:
        return text
    return f"{text}: {times:.2f} times" if times >= 1 else f"{text}: **{times:.2f} times**"


def ours_of(works, name):
    """What a peer is compared with: Rueda's private tensors, as the peers' are. Rueda packs by itself, so that a peer's packed
    set is compared with Rueda's set."""
    return works.get(name.removesuffix("-packed"), {}).get(OURS)


def table(title, works, peers, unit):
    lines = [f"### {title} ({unit})", "", "| what | " + " | ".join(peers) + " |", "|---|" + "---|" * len(peers)]
    for name, found in works.items():
        ours = ours_of(works, name)
        cells = [cell(found.get(peer), None if peer == OURS else ours) for peer in peers]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def choices_table(ranks, works, peers):
    """How far Rueda's own choice is behind the best fixed one."""
    fixed = [peer for peer in peers if peer not in (OURS, "kept")]
    lines = [f"### np {ranks}, behind the best fixed choice", "", "| what | the best | tuned | kept |", "|---|---|---|---|"]
    for name, found in works.items():
        times = {peer: ratio(found.get(OURS), found[peer]) for peer in fixed if found.get(OURS) and found.get(peer)}
        times = {peer: each for peer, each in times.items() if each}
        if not times:
            continue
        best = min(times, key=times.get)
        cells = [best]
        for own in (OURS, "kept"):
            behind = ratio(found[best], found.get(own, []))
            cells.append("-" if behind is None else f"**{behind:.3f} times**" if behind > MOST_BEHIND else f"{behind:.3f} times")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def training_table(run):
    lines = []
    for turn in run["training"]:
        lines += [f"### images a second of ResNet-18, np {turn['ranks']}", "", "| way | images/s (least to most) |", "|---|---|"]
        for name, times in turn["times"]["resnet18"].items():
            rates = [1e3 * turn["images"] / each for each in times]
            lines.append(f"| {name} | {cell([{'value': rate, 'quiet': turn['quiet']} for rate in rates])} |")
        lines.append("")
    return lines


def page(run):
    machine, lines = run["machine"], ["# Compared in one run", ""]
    lines += [f"{machine['processor']}, {machine['cores']} cores, {machine['memory_GiB']} GiB, Linux {machine['kernel']}; "
              f"{run['rounds']} round{'s' if run['rounds'] != 1 else ''} in {run['minutes']:.1f} minutes; load before {machine['load']}, after {run['load_after']}; others used "
              f"{100 * run['foreign_before']:.0f} % of the cores before.", "",
              "Versions: " + "; ".join(f"{peer}: {version}" for peer, version in run["versions"].items()) + ".", ""]  # fmt: skip
    lines += ["A cell is the median of the rounds (least to most), then how many times as long the peer takes as Rueda with private",
              "tensors, in the same rounds with the same distance of cores. **Bold**: Rueda is slower. *: other programs used more than a",
              "tenth of the cores. 'packed': the caller copies all tensors into one and back.", ""]  # fmt: skip
    for peer, why in run["left_out"].items():
        lines.append(f"- {peer} is left out: {why}")
    lines += [f"- {each}" for each in run["failures"]] + [""]
    for ranks, works in samples_of(run, "p50_us").items():
        lines += choices_table(ranks, works, run["peers"]) if run.get("choices") else []
        lines += table(f"np {ranks}, time of a step", works, run["peers"], "us")
    for ranks, works in samples_of(run, "cpu_us").items():
        lines += table(f"np {ranks}, processor time of a step, all ranks", works, run["peers"], "us")
    for ranks in sorted({row["ranks"] for row in run["rows"] if "idle_core_percent" in row}):
        works = {text: samples_of(run, field).get(ranks, {}).get("idle", {}) for field, text in IDLE.items()}
        lines += table(f"np {ranks}, at rest", works, run["peers"], "units in the rows")
    wrong = [f"{row['peer']}, {row['name']}, np {row['ranks']}" for row in run["rows"] if row.get("correct") is False]
    if wrong:
        lines += ["**Wrong results**: " + "; ".join(wrong), ""]
    return "\n".join([*lines, *training_table(run)]) + "\n"


def plot_rows(run, ranks, cold):
    """Rows of the sweep as rueda-perf writes them, which is what scripts/plot-results reads."""
    rows = []
    for row in run["rows"]:
        if row["ranks"] == ranks and row.get("count") == 1 and row.get("correct") and row["name"].endswith("B-cold" if cold else "B"):
            rows.append({"collective": "allreduce", "bytes": row["bytes"], "dtype": "f32", "codec": "none", "ranks": ranks,
                         "algorithm": ALGORITHMS[row["peer"]], "memory": "shared" if row["peer"].endswith("shared") else "private",
                         "p50_us": row["p50_us"], "line_ns": row["line_ns"], "correct": True, "in_place": True, "cold": False,
                         "count": 1})  # fmt: skip
    return rows


def write(run, folder):
    """compare.json, compare.md, and for each number of ranks a plot of hot and of cold memory. Gives the files' names."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "compare.json").write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    (folder / "compare.md").write_text(page(run), encoding="utf-8")
    names = ["compare.json", "compare.md"]
    if run.get("choices"):
        return names
    for ranks in sorted({row["ranks"] for row in run["rows"]}):
        for cold in (False, True):
            rows = plot_rows(run, ranks, cold)
            if len({row["bytes"] for row in rows}) < 2:
                continue
            name = f"allreduce-np{ranks}{'-cold' if cold else ''}"
            libraries = {ALGORITHMS[peer]: version for peer, version in run["versions"].items() if ALGORITHMS[peer] != "rueda"}
            path = folder / f"{name}.json"
            path.write_text(json.dumps({"libraries": libraries, "results": rows}, indent=1) + "\n", encoding="utf-8")
            draw(path, folder / name, ranks, f"{'cold memory, ' if cold else ''}{run['machine']['processor']}")
            names += [path.name, f"{name}-light.svg", f"{name}-dark.svg"]
    return names


def draw(path, name, ranks, machine):
    script = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts" / "plot-results"
    command = [sys.executable, str(script), str(name), str(path), "--np", str(ranks), "--machine", machine]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
