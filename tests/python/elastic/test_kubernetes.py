"""examples/kubernetes/elastic.yaml: its pods are hosts of the lab (tests/support/netlab.h), each with an address, processes
and an sshd of its own, and its launcher is another one. All commands are the manifest's. kubectl is the real one, the
cluster is a stand-in (cluster.py)."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest
from conftest import _jobs

ROOT = pathlib.Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests" / "chaos"))
import job  # noqa: E402
import lab  # noqa: E402

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")

# What a container's image has: a home of root's own, and files of ssh as a distribution has them.
IMAGE = """
mkdir -p /run/home /run/ssh
sed 's|^root:\\(.*\\):/root:|root:\\1:/run/home:|' /etc/passwd >/run/passwd
mount --bind /run/passwd /etc/passwd
rm /etc/ssh/*
echo 'UsePAM no' >/etc/ssh/sshd_config
cp "$0" /run/ssh/authorized_keys
cp "$1" /run/ssh/id
"""
LAUNCHER, PODS = 0, (1, 2)  # hosts of the lab


def address(pod):
    """As the lab gives it to the host of a pod."""
    return f"10.77.1.{PODS[pod] + 1}"


class Cluster:
    """The manifest's pods and launcher on hosts of the lab."""

    def __init__(self, hosts, folder):
        self.hosts, self.folder, self.running, self.undo = hosts, folder, {}, contextlib.ExitStack()
        documents = yaml.safe_load_all((ROOT / "examples/kubernetes/elastic.yaml").read_text())
        self.documents = {(each["kind"], each["metadata"]["name"]): each for each in documents}
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "id"], check=True)
        for host in (LAUNCHER, *PODS):
            subprocess.run(self.hosts.on(host, ["sh", "-ec", IMAGE, folder / "id.pub", folder / "id"]), check=True)
        self.list()
        server = self.begin(LAUNCHER, [sys.executable, "-B", str(pathlib.Path(__file__).with_name("cluster.py")), str(folder)], stdout=subprocess.PIPE)
        assert server.stdout.readline() == "answers\n"

    def begin(self, host, words, **how):
        """A process on a host, which ends with the cluster."""
        return self.undo.enter_context(contextlib.closing(_Process(self.hosts.on(host, words), **how)))

    def list(self, *pods, ends=()):
        """Has the cluster tell of these pods from now on."""
        listed = [{"name": f"digits-host-{pod}", "address": address(pod), "ends": pod in ends} for pod in pods]
        (self.folder / "next").write_text(json.dumps(listed))
        os.rename(self.folder / "next", self.folder / "pods.json")

    def run_pod(self, pod):
        """Starts the container of a pod."""
        template = self.documents["StatefulSet", "digits-host"]["spec"]["template"]
        assert template["metadata"]["labels"] == {"app": "digits-host"}
        container = template["spec"]["containers"][0]
        assert container["readinessProbe"]["tcpSocket"]["port"] == 2222
        words = ["env", "HOME=/run/home", *container["command"], *container["args"]]
        self.running[pod] = self.begin(PODS[pod], words, stdout=subprocess.DEVNULL)

    def end_pod(self, pod):
        """Sends SIGTERM to the container, and returns its exit code."""
        return self.running[pod].end()

    def launcher(self):
        """The command of the launcher's container with a worker of the tests, and its environment."""
        hosts = self.folder / "hosts.sh"
        hosts.write_text(self.documents["ConfigMap", "digits-hosts"]["data"]["hosts.sh"])
        hosts.chmod(0o555)
        access = {"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:6443"}}],
                  "contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}  # fmt: skip
        (self.folder / "access.json").write_text(json.dumps(access))
        container = self.documents["Job", "digits"]["spec"]["template"]["spec"]["containers"][0]
        assert container["args"][1:] == ["launcher", "python", "/app/train.py"] and [each["name"] for each in container["env"]] == ["HOSTS", "IDENTITY"]
        assert container["env"][1]["value"] == "/run/ssh/id"
        command = [*container["command"], container["args"][0], "launcher", sys.executable, "-B", str(job.HERE / "worker.py")]
        path = f"{pathlib.Path(_jobs.HVDRUN).parent}:/usr/local/bin:/usr/bin:/bin:{pathlib.Path(shutil.which('kubectl')).parent}"
        return command, {"HOSTS": str(hosts), "IDENTITY": "/run/ssh/id", "KUBECONFIG": str(self.folder / "access.json"), "HOME": "/run/home",
                         "PATH": path}  # fmt: skip


class _Process(subprocess.Popen):
    """A process behind the command that enters its host."""

    def __init__(self, words, **how):
        super().__init__(words, stdin=subprocess.DEVNULL, text=True, **how)

    def end(self):
        """Sends SIGTERM, and returns the exit code."""
        (inside,) = pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        os.kill(int(inside), signal.SIGTERM)
        return self.wait(job.PATIENCE)

    def close(self):
        """Leaves nothing; what runs inside ends with its host."""
        self.kill()
        self.wait()
        if self.stdout:
            self.stdout.close()


@pytest.fixture
def cluster(tmp_path):
    """Three hosts, for the launcher and two pods."""
    try:
        hosts = lab.Lab(pathlib.Path(os.environ["ELASTIC_WORKERS"]).with_name("netlab"), 3)
    except lab.Unavailable as error:
        pytest.skip(f"this machine cannot have pods with addresses of their own: {error}")
    with contextlib.closing(hosts):
        made = Cluster(hosts, tmp_path)
        with made.undo:
            yield made


def whereabouts(one):
    """The host of each worker that runs, as hvdrun lists it, and its network namespace."""
    found = {}
    for pid in one.processes():
        try:
            process = pathlib.Path(f"/proc/{pid}")
            variables = dict(each.split("=", 1) for each in (process / "environ").read_text().split("\0") if "=" in each)
            if "RUEDA_WORKER_ID" in variables and "worker.py" in (process / "cmdline").read_text():
                found[int(variables["RUEDA_WORKER_ID"])] = variables["HOROVOD_HOSTNAME"], os.readlink(process / "ns/net")
        except OSError:
            continue  # gone
    return found


def test_the_launcher_of_the_example_follows_pods_with_addresses_of_their_own(tmp_path, cluster):
    cluster.run_pod(0)
    cluster.list(0, 1)  # the second one is not ready
    one = job.Job(cluster.hosts, {}, *cluster.launcher())

    def await_plan(size, after):
        one.until(lambda: any(line["size"] == size and line["plan"] > after and one.complete(line["plan"] - 1) == line["plan"]
                              for line in one.told("plan")), f"a plan of {size}")  # fmt: skip
        return max(line["plan"] for line in one.told("plan") if line["size"] == size)

    try:
        first = await_plan(2, 0)
        assert sorted(host for host, _ in whereabouts(one).values()) == [address(0)] * 2
        cluster.run_pod(1)
        grown = await_plan(4, first)
        places = whereabouts(one)
        assert sorted(places) == sorted(one.members(grown)) and sorted(host for host, _ in places.values()) == [address(0)] * 2 + [address(1)] * 2
        networks = set(places.values())
        assert len(networks) == 2 and len({network for _, network in networks}) == 2  # one for each pod
        cluster.list(0, 1, ends=[1])  # which the script leaves out before the pod hears of it
        shrunk = await_plan(2, grown)
        cluster.list(0, 1)
        grown = await_plan(4, shrunk)
        assert cluster.end_pod(1) == 0  # which the script still lists; the pod ends once its workers have left
        await_plan(2, grown)
        cluster.list(0)
        assert one.end() == 0 and not any("failed" in line for line in one.report), one.report
        assert set((tmp_path / "asked").read_text().splitlines()) == {"app=digits-host"}
    finally:
        one.abandon()
        one.remove()
