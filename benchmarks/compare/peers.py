"""The libraries that are compared: how each is built, found and started. Each peer gives rows for works, or says why not."""

import os
import pathlib
import shutil
import subprocess
import sys

import turn
from works import plan_line

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = pathlib.Path(__file__).resolve().parent
HOME = ROOT / "build" / "compare"  # what this program builds and installs
BINARIES = ROOT / "build" / "release" / "bin"
ONECCL = HOME / "oneccl"
ONE_SHOT_BYTES = 256 << 10  # a one-shot is one piece of shared memory
COMMON = ["ranks/main.cc", "ranks/step.cc", "ranks/plan.cc", "ranks/ranks.cc", "../rueda_perf/buffers.cc", "../rueda_perf/timing.cc"]
FLAGS = ["-std=c++20", "-O2", f"-I{ROOT}", f"-I{ROOT / 'bindings' / 'c'}"]


class Missing(Exception):
    """A peer cannot take part; the sentence says what it needs."""


def build(name, compiler, source, flags, needs):
    """Compiles the ranks of one library unless that is done already; gives the program's path."""
    program = HOME / "bin" / name
    sources = [HERE / each for each in [*COMMON, source]]
    inputs = [*sources, *(HERE / "ranks").glob("*.h"), *needs]
    if program.exists() and all(program.stat().st_mtime > each.stat().st_mtime for each in inputs if each.exists()):
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    new = program.with_suffix(".new")
    done = subprocess.run([compiler, *FLAGS, *map(str, sources), *flags, "-o", str(new)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error" in line or "undefined" in line] or done.stderr.splitlines()[-1:]
        raise Missing(f"its ranks do not compile: {errors[0] if errors else compiler}")
    os.replace(new, program)
    return program


class Peer:
    """A library whose ranks are a program that reads a plan. `shared`: of tensors in memory that all ranks reach."""

    name = ""
    shared = False
    packs = True  # sets are measured packed into one tensor, too
    codecs = False

    def prepare(self):
        """Builds what is needed. Raises Missing."""

    def launch(self, ranks, arguments, folder, group):
        """Commands that run at once, and for each what its environment has besides."""
        raise NotImplementedError

    def takes(self, work):
        return self.packs or not work.packed

    def time(self, works, ranks, seconds, folder, limit_s, group):
        """The rows of the works. Raises turn.Failed."""
        path = os.path.join(folder, "plan")
        lines = [plan_line(work if self.codecs else plain(work), seconds, self.shared) for work in works]
        pathlib.Path(path).write_text("\n".join(lines) + "\n", encoding="ascii")
        return turn.run(*self.launch(ranks, [path], folder, group), folder, limit_s)

    def idle(self, ranks, seconds, folder, limit_s):
        return turn.run(*self.launch(ranks, ["--idle", f"{seconds:g}"], folder, "idle"), folder, limit_s)


def plain(work):
    """The same work without a codec, under the same name: what a library without codecs can do."""
    return type(work)(work.name, work.counts, work.packed, work.cold)


class Rueda(Peer):
    packs = False
    codecs = True

    def __init__(self, shared):
        self.shared = shared
        self.name = "Rueda, shared" if shared else "Rueda"

    def prepare(self):
        for program in ("hvdrun", "rueda-perf"):
            if not (BINARIES / program).exists():
                raise Missing(f"no {program} in {BINARIES}; scripts/demo makes a release build")
        library = next((ROOT / "build" / "release").rglob("librueda.so"), None)
        if library is None:
            raise Missing("no librueda.so in build/release; scripts/demo makes a release build")
        where = str(library.parent)
        self.program = build("rueda", "g++", "ranks/rueda_ranks.cc", [f"-L{where}", "-lrueda", f"-Wl,-rpath,{where}"], [library])

    def launch(self, ranks, arguments, folder, group):
        command = [str(BINARIES / "hvdrun"), "-np", str(ranks), "-H", f"localhost:{ranks}", str(self.program), *arguments]
        return [command], [self.settings(ranks, folder)]

    def settings(self, ranks, folder):
        """What the environment of the ranks has besides."""
        return {}


class Kept(Rueda):
    """Rueda's choices from the rounds before: the first round has none to keep."""

    def __init__(self):
        super().__init__(False)
        self.name = "kept"

    def settings(self, ranks, folder):
        return {"RUEDA_TUNE_FILE": os.path.join(folder, f"choices-{ranks}.json")}


class Fixed(Rueda):
    """One of the ways that Rueda tries on one host, for every all-reduce."""

    def __init__(self, algorithm, chunk_kib, stores):
        super().__init__(False)
        self.algorithm, self.chunk_kib, self.stores = algorithm, chunk_kib, stores
        self.name = f"{algorithm}, {chunk_kib} KiB, {stores}" if algorithm == "two_shot" else f"{algorithm}, {stores}"

    def takes(self, work):
        fits = 4 * sum(work.counts) <= ONE_SHOT_BYTES
        return super().takes(work) and (self.algorithm != "one_shot" or fits)

    def settings(self, ranks, folder):
        return {"RUEDA_AUTOTUNE": "0", "RUEDA_ALLREDUCE_ALGORITHM": f"shm_{self.algorithm}", "RUEDA_STORES": self.stores,
                "RUEDA_CHUNK_BYTES": f"{self.chunk_kib}KiB"}  # fmt: skip


class Mpi(Peer):
    """Debian's packages of an MPI. `kind` is the suffix of its commands."""

    def __init__(self, name, kind, package):
        self.name, self.kind, self.package = name, kind, package

    def prepare(self):
        for program in (f"mpicxx.{self.kind}", f"mpiexec.{self.kind}"):
            if not shutil.which(program):
                raise Missing(f"no {program}; scripts/setup --packages installs {self.package}")
        skip = ["-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX"]
        self.program = build(self.kind, f"mpicxx.{self.kind}", "ranks/mpi_ranks.cc", skip, [])

    # More ranks than cores yield, as Open MPI's guide advises; MPICH yields by itself.
    def launch(self, ranks, arguments, folder, group):
        command = [f"mpiexec.{self.kind}", "-np", str(ranks)]
        if self.kind == "openmpi":
            crowded = "1" if ranks > (os.cpu_count() or 1) else "0"
            command[1:1] = ["--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", crowded]
        files = {name: folder for name in ("TMPDIR", "OMPI_MCA_orte_tmpdir_base", "OMPI_MCA_btl_vader_backing_directory")}
        return [[*command, str(self.program), *arguments]], [files]


class OneCcl(Peer):
    """The wheel of the registry, over libfabric on this host: sockets are faster for small tensors, shared memory for others.

    Its worker thread yields: else it takes a core from a rank.
    """

    name = "oneCCL"

    def prepare(self):
        library = ONECCL / "lib" / "libccl.so"
        if not library.exists():
            raise Missing("not installed; --install brings its wheel (2 GB in build/compare)")
        flags = ["-isystem", str(ONECCL / "include"), f"-L{library.parent}", "-lccl", f"-Wl,-rpath-link,{library.parent}"]
        self.program = build("oneccl", "g++", "ranks/oneccl_ranks.cc", flags, [library])

    def launch(self, ranks, arguments, folder, group):
        meeting = os.path.join(folder, "meeting")
        pathlib.Path(meeting).unlink(missing_ok=True)
        common = {
            "LD_LIBRARY_PATH": str(ONECCL / "lib"), "CCL_ROOT": str(ONECCL), "FI_PROVIDER_PATH": str(ONECCL / "lib"),
            "FI_PROVIDER": "tcp" if group in ("small", "idle") else "shm", "CCL_ATL_SHM": "1",
            "CCL_ATL_TRANSPORT": "ofi", "CCL_PROCESS_LAUNCHER": "none",
            "CCL_YIELD": "sched_yield", "CCL_LOG_LEVEL": "error", "CCL_LOCAL_SIZE": str(ranks), "RUEDA_COMPARE_MEETING": meeting,
            "RUEDA_COMPARE_RANKS": str(ranks), "TMPDIR": folder,
        }  # fmt: skip
        own = [{**common, "CCL_LOCAL_RANK": str(rank), "RUEDA_COMPARE_RANK": str(rank)} for rank in range(ranks)]
        return [[str(self.program), *arguments] for _ in range(ranks)], own


class Gloo(Peer):
    """Gloo in PyTorch, by torch.distributed."""

    name = "Gloo"
    codecs = True

    def prepare(self):
        self.python = ROOT / ".venv" / "bin" / "python"
        if not self.python.exists():
            raise Missing("no .venv; scripts/setup --python makes one with PyTorch")

    def launch(self, ranks, arguments, folder, group):
        meeting = os.path.join(folder, "meeting")
        pathlib.Path(meeting).unlink(missing_ok=True)
        command = [str(self.python), str(HERE / "gloo_ranks.py"), *arguments, "--ranks", str(ranks), "--meeting", meeting]
        return [[*command, "--rank", str(rank)] for rank in range(ranks)], [{"GLOO_SOCKET_IFNAME": "lo"}] * ranks


def install():
    """Brings what the registry has into build/compare. Says in one line what could not be had."""
    if not (ONECCL / "lib" / "libccl.so").exists():
        subprocess.run([sys.executable, "-m", "venv", str(ONECCL)], check=True)
        pip = [str(ONECCL / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "oneccl-devel"]
        if subprocess.run(pip, check=False, timeout=900).returncode != 0:
            print("compare: oneCCL could not be installed; it will be left out", file=sys.stderr)
    try_horovod()


def try_horovod(limit_s=900):
    """Horovod 0.28.1, the newest, has only sources. They are built once, in an environment of their own."""
    folder, verdict = HOME / "horovod", HOME / "horovod-verdict"
    if verdict.exists():
        return
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    environment = {**os.environ, "HOROVOD_WITH_PYTORCH": "1", "HOROVOD_WITHOUT_TENSORFLOW": "1", "HOROVOD_WITHOUT_MXNET": "1"}
    needs = ["torch==2.13.0", "numpy", "packaging", "wheel", "cffi", "cloudpickle", "pyyaml", "psutil"]
    subprocess.run([*pip, *needs], check=False, timeout=900)
    try:
        turn.run([[*pip, "--no-build-isolation", "--no-deps", "horovod==0.28.1"]], [environment], str(HOME), limit_s)
        text = f"it builds; {folder}/bin/python benchmarks/torch_compare.py compares with it"
    except turn.Failed as failure:
        text = str(failure)
    verdict.write_text(text + "\n", encoding="utf-8")
    print(f"compare: Horovod 0.28.1: {text}")


def choices():
    """Rueda as it tunes itself, as it does with a tune file, and as each fixed choice."""
    fixed = [Fixed("two_shot", chunk, stores) for chunk in (256, 128, 64) for stores in ("plain", "non-temporal")]
    fixed += [Fixed("one_shot", 256, stores) for stores in ("plain", "non-temporal")]
    return {peer.name: peer for peer in [Rueda(False), Kept(), *fixed]}


def all_peers():
    return {"rueda": Rueda(False), "rueda-shared": Rueda(True), "openmpi": Mpi("Open MPI", "openmpi", "openmpi-bin and libopenmpi-dev"),
            "mpich": Mpi("MPICH", "mpich", "mpich and libmpich-dev"), "oneccl": OneCcl(), "gloo": Gloo()}  # fmt: skip
