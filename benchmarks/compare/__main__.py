"""Compares Rueda with Open MPI, MPICH, oneCCL and Gloo in one run on one host: times, processor time, memory, images a second.

    python3 benchmarks/compare                        # everything, 3 rounds: needs a release build (scripts/demo) and scripts/setup
    python3 benchmarks/compare --install              # before that, brings oneCCL into build/compare and tries to build Horovod
    python3 benchmarks/compare --quick                # two or three minutes
    python3 benchmarks/compare --minutes 30 --np 2    # as many rounds as fit
    python3 benchmarks/compare --only sets,idle --peers rueda,gloo results
    python3 benchmarks/compare --choices              # Rueda's own choice of a way beside each fixed one: 20 minutes

Ctrl-C, or SIGTERM, ends it with the results of the rounds that are over.

The peers take turns of seconds in each round, so that all of them see the same machine. All but Gloo run the same program,
linked with their library. Between turns the round trip of a cache line is measured, and during a turn what others use of
the cores. The run refuses a busy machine unless --busy allows it, and marks turns during which the machine was not quiet.
FOLDER gets compare.json, compare.md and SVG plots. Peers that are missing, fail or hang are named and left out.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import arguments
import machine
import peers
import report
import statistics_of
import turn
import works


class Run:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.rows, self.failures, self.training, self.left_out, self.versions = [], [], [], {}, {}
        self.peers = []
        known = peers.choices() if options.choices else {name: peer for name, peer in peers.all_peers().items() if name in options.peers}
        for peer in known.values():
            self.admit(peer)
        self.line = machine.line_ns(peers.BINARIES, folder)

    def admit(self, peer):
        try:
            peer.prepare()
            self.peers.append(peer)
        except peers.Missing as missing:
            self.left_out[peer.name] = str(missing)
            print(f"compare: {peer.name} is left out: {missing}", flush=True)

    def measure(self, round_, ranks, group):
        """A turn of each peer. Each begins one later than in the round before, so that none is always first."""
        shift = round_ % max(1, len(self.peers))
        for peer in self.peers[shift:] + self.peers[:shift]:
            if peer.shared and ranks == 1:
                continue  # nobody to share with
            watch = machine.Watch()
            try:
                found = self.turn_of(peer, ranks, group)
            except turn.Failed as failure:
                self.failures.append(f"{peer.name}, {group}, np {ranks}, round {round_}: {failure}")
                print(f"compare: {self.failures[-1]}", flush=True)
                continue
            foreign, line = watch.foreign_share(), self.line
            self.line = machine.line_ns(peers.BINARIES, self.folder)
            about = {"peer": peer.name, "round": round_, "foreign": round(foreign, 3), "quiet": foreign <= machine.MOST_FOREIGN,
                     "line_ns": [line, self.line], "distance": statistics_of.distance(line, self.line)}  # fmt: skip
            for row in found:
                if "library" in row:
                    self.versions[peer.name] = row["library"]
                else:
                    self.rows.append({"name": "idle", **row, **about})

    def turn_of(self, peer, ranks, group):
        quick, limit = self.options.quick, self.options.limit
        if group == "idle":
            return peer.idle(ranks, 0.5 if quick else 3.0, self.folder, limit)
        found = [work for work in works.works_of(group, quick) if peer.takes(work)]
        if not found:
            return []
        return peer.time(found, ranks, self.options.seconds, self.folder, limit, group)

    def train(self, round_, ranks):
        """The ways of PyTorch take turns within one job of torch_compare."""
        path = os.path.join(self.folder, "training.json")
        program = str(peers.ROOT / "benchmarks" / "torch_compare.py")
        command = [str(peers.ROOT / ".venv" / "bin" / "python"), program, "--only", "resnet18", "--ranks", str(ranks), "--rounds", "2",
                   "--json", path]  # fmt: skip
        package = {"PYTHONPATH": str(peers.ROOT / "build" / "release" / "python")}
        watch = machine.Watch()
        try:
            turn.run([command], [package], self.folder, self.options.limit)
        except turn.Failed as failure:
            self.failures.append(f"training, np {ranks}, round {round_}: {failure}")
            print(f"compare: {self.failures[-1]}", flush=True)
            return
        found = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        foreign = watch.foreign_share()
        self.training.append({**found, "round": round_, "foreign": foreign, "quiet": foreign <= machine.MOST_FOREIGN})

    def round(self, round_):
        for ranks in self.options.np:
            for group in self.options.only:
                begin = time.monotonic()
                if group == "training":
                    self.train(round_, ranks)
                elif group != "idle" or round_ == 0:
                    self.measure(round_, ranks, group)
                print(f"compare: round {round_}, np {ranks}, {group}: {time.monotonic() - begin:.0f} s", flush=True)

    def drop(self, round_):
        """Forgets a round that has not come to its end."""
        self.rows = [row for row in self.rows if row["round"] != round_]
        self.training = [each for each in self.training if each["round"] != round_]


def merged(training):
    """One entry for each number of ranks: the times of all rounds."""
    found = {}
    for each in training:
        entry = found.setdefault(each["ranks"], {"ranks": each["ranks"], "images": each["images"], "quiet": True, "times": {}})
        entry["quiet"] = entry["quiet"] and each["quiet"]
        for kind, ways in each["times"].items():
            for name, times in ways.items():
                entry["times"].setdefault(kind, {}).setdefault(name, []).extend(times)
    return list(found.values())


def perform(options, folder):
    """All rounds; gives what compare.json holds."""
    described, foreign = machine.described(), machine.foreign_now()
    if foreign > machine.MOST_FOREIGN and not options.busy:
        raise SystemExit(f"compare: other programs use {100 * foreign:.0f} % of the {described['cores']} cores; at most "
                         f"{100 * machine.MOST_FOREIGN:.0f} % may be in use. Wait until they end, or measure with --busy, which marks rows")  # fmt: skip
    run, begin, rounds, longest = Run(options, folder), time.monotonic(), 0, 0.0
    if not run.peers:
        raise SystemExit("compare: no peer can take part")
    while rounds < options.rounds if options.rounds else rounds == 0 or time.monotonic() - begin + longest < 60 * options.minutes:
        before = time.monotonic()
        try:
            run.round(rounds)
        except (KeyboardInterrupt, SystemExit):
            if rounds == 0:
                raise
            run.drop(rounds)
            print(f"compare: stopped; the results are those of {rounds} whole rounds", file=sys.stderr, flush=True)
            break
        rounds, longest = rounds + 1, max(longest, time.monotonic() - before)
    return {"machine": described, "foreign_before": round(foreign, 3), "load_after": [round(each, 2) for each in os.getloadavg()],
            "choices": options.choices, "rounds": rounds, "minutes": (time.monotonic() - begin) / 60, "peers": [peer.name for peer in run.peers],
            "versions": run.versions, "left_out": run.left_out, "failures": run.failures, "training": merged(run.training), "rows": run.rows}  # fmt: skip


def main():
    options = arguments.parse(__doc__, list(peers.all_peers()))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the turn that runs is ended, too
    peers.HOME.mkdir(parents=True, exist_ok=True)
    if options.install:
        try:
            peers.install()
        except (OSError, subprocess.SubprocessError) as error:
            print(f"compare: not everything could be installed: {error}", file=sys.stderr)
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="rueda-compare-", dir=base) as folder:
        found = perform(options, folder)
    for name in report.write(found, options.folder):
        print(options.folder / name)
    return 1 if any(row.get("correct") is False for row in found["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
