"""Compares Rueda with what TensorFlow and JAX bring along, in one run, and prints ratios.

    build/frameworks/tf-newest/bin/python benchmarks/framework_compare tensorflow      # scripts/test-frameworks --make tf-newest
    build/frameworks/jax-newest/bin/python benchmarks/framework_compare jax --rounds 9 --json jax.json

Needs rueda in that Python: PYTHONPATH=build/release/python, or pip install bindings/python. What is measured, in
milliseconds per step:

    gradients   161 arrays with the shapes of ResNet-50's parameters (102 MB) are averaged, in one compiled function
    training    a step of a perceptron with 4 layers of 1024 on 32 rows for each rank: forward, backward, average, SGD

The peers are tf.distribute.MultiWorkerMirroredStrategy with its ring of gRPC, and JAX's processes of jax.distributed with
Gloo. All peers live in one job and take turns, so that each sees the same machine. "alone" is the same step without any
communication; "net" is what a peer takes beyond it. Each peer's results are compared with the others' before.
"""

import argparse
import importlib
import json
import os
import statistics
import sys

from jobs import printed_by


def parse():
    parser = argparse.ArgumentParser(prog="framework_compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=["tensorflow", "jax"])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7, help="turns of each peer; the median of them is shown")
    parser.add_argument("--seconds", type=float, default=0.5, help="least time of a turn")
    parser.add_argument("--shrink", type=int, default=1, help="divides the sizes of all arrays, to try the program")
    parser.add_argument("--json", metavar="FILE", help="where to write what is shown, with the times of each round")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)  # this process is a rank of the job
    return parser.parse_args()


def measured(options):
    """What a job measures: versions, and by workload and peer the milliseconds of each round."""
    from rueda.programs import path_of

    command = [path_of("hvdrun"), "-np", str(options.ranks), "-H", f"localhost:{options.ranks}", sys.executable,
               os.path.dirname(os.path.abspath(__file__)), *sys.argv[1:], "--rank"]  # fmt: skip
    return printed_by(command, "framework_compare")


def rows_of(peers):
    """The lines of a workload's table. The framework's own peer is the last one."""
    medians = {name: statistics.median(rounds) for name, rounds in peers.items()}
    alone, theirs = medians["alone"], list(medians.values())[-1]
    for name, value in medians.items():
        row = {"peer": name, "ms": value, "least": min(peers[name]), "most": max(peers[name])}
        if name != "alone":
            row.update(net=value - alone, times=theirs / value, net_times=(theirs - alone) / (value - alone) if value > alone else None)
        yield row


def show(result):
    load = " ".join(f"{each:.1f}" for each in result["load_before"])
    print(f"{result['ranks']} ranks, {result['versions']}, {result['cores']} cores, load before {load}, median of {result['rounds']} rounds")
    for kind, rows in result["table"].items():
        print(f"\n{kind:<36} {'ms':>9} {'least':>9} {'most':>9} {'net':>9} {'theirs':>9} {'net':>9}")
        for row in rows:
            line = f"{row['peer']:<36} {row['ms']:>9.2f} {row['least']:>9.2f} {row['most']:>9.2f}"
            if "net" in row:
                line += f" {row['net']:>9.2f} {row['times']:>8.2f}x"
                line += f" {row['net_times']:>8.2f}x" if row["net_times"] is not None else f" {'-':>9}"
            print(line)


def main():
    options = parse()
    if options.rank:
        importlib.import_module(options.framework + "_peers").run(options)
        return
    load = os.getloadavg()
    job = measured(options)
    result = {
        "ranks": options.ranks, "rounds": options.rounds, "seconds": options.seconds, "shrink": options.shrink,
        "cores": len(os.sched_getaffinity(0)), "load_before": load, "versions": job["versions"],
        "table": {kind: list(rows_of(peers)) for kind, peers in job["times"].items()}, "times": job["times"],
    }  # fmt: skip
    show(result)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
