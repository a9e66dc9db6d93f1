"""examples/kubernetes/elastic.yaml: its launcher grows and shrinks with the pods that kubectl lists. kubectl is the real one; the
cluster is a stand-in that knows two pods, whose addresses are of this machine."""

import http.server
import json
import pathlib
import shutil
import sys
import threading
import urllib.parse

import pytest
from conftest import _jobs

ROOT = pathlib.Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests" / "chaos"))
import job  # noqa: E402

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")

RESOURCES = [{"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get", "list"]}]


def pod(name, address, ready=True, ends=False):
    """A pod as the cluster tells of it."""
    metadata = {"name": name, "namespace": "default", "labels": {"app": "digits-host"}, **({"deletionTimestamp": "2030-01-01T00:00:00Z"} if ends else {})}
    conditions = [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "True" if ready else "False"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"podIP": address, "conditions": conditions}}


class Cluster(http.server.ThreadingHTTPServer):
    """As much of a cluster as `kubectl get pods` asks for. pods: what it tells; asked: the selectors of the questions."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Questions)
        self.pods, self.asked = [], set()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Questions(http.server.BaseHTTPRequestHandler):
    """Answers one of kubectl's questions."""

    def do_GET(self):
        """The versions and kinds that there are, and the pods."""
        path, _, query = self.path.partition("?")
        answers = {
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
            "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": RESOURCES},
            "/api/v1/namespaces/default/pods": {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": self.server.pods},
        }
        if path.endswith("/pods"):
            self.server.asked.add(urllib.parse.parse_qs(query)["labelSelector"][0])
        body = json.dumps(answers.get(path, {"kind": "Status", "status": "Failure", "code": 404})).encode()
        self.send_response(200 if path in answers else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing."""


@pytest.fixture
def cluster():
    """A stand-in, for the time of a test."""
    with Cluster() as server:
        yield server
        server.shutdown()


def launcher(folder, cluster):
    """The command of the manifest's launcher with a worker of the tests, and its environment."""
    documents = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all((ROOT / "examples/kubernetes/elastic.yaml").read_text())}
    assert documents["StatefulSet", "digits-host"]["spec"]["template"]["metadata"]["labels"] == {"app": "digits-host"}
    hosts = folder / "hosts.sh"
    hosts.write_text(documents["ConfigMap", "digits-hosts"]["data"]["hosts.sh"])
    hosts.chmod(0o555)
    access = {"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{cluster.server_port}"}}],
              "contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}  # fmt: skip
    (folder / "access.json").write_text(json.dumps(access))
    (folder / "id").touch(0o600)
    container = documents["Job", "digits"]["spec"]["template"]["spec"]["containers"][0]
    assert container["args"][1:] == ["launcher", "python", "/app/train.py"] and [each["name"] for each in container["env"]] == ["HOSTS", "IDENTITY"]
    command = [*container["command"], container["args"][0], "launcher", sys.executable, "-B", str(job.HERE / "worker.py")]
    path = f"{pathlib.Path(_jobs.HVDRUN).parent}:/usr/local/bin:/usr/bin:/bin:{pathlib.Path(shutil.which('kubectl')).parent}"
    return command, {"HOSTS": str(hosts), "IDENTITY": str(folder / "id"), "KUBECONFIG": str(folder / "access.json"), "HOME": str(folder), "PATH": path}


def test_the_launcher_of_the_example_follows_the_pods(tmp_path, cluster):
    first, second = pod("digits-host-0", "127.0.0.1"), pod("digits-host-1", "127.0.0.2", ready=False)
    cluster.pods = [first, second]
    room = job.Room()
    room.close()  # the job runs outside of it, where the cluster is
    one = job.Job(room, {}, *launcher(tmp_path, cluster))
    try:
        one.until(one.complete, "the first plan")
        assert len(one.members(one.complete())) == 2
        cluster.pods = [first, pod("digits-host-1", "127.0.0.2")]
        one.until(lambda: one.complete(one.told("plan")[0]["plan"]), "the plan with the second pod")
        grown = next(plan for plan in range(2, 9) if len(one.members(plan)) >= 3)
        one.until(lambda: max(len(one.members(plan)) for plan in range(9)) == 4, "a plan with both workers of the second pod")
        cluster.pods = [first, pod("digits-host-1", "127.0.0.2", ends=True)]
        one.until(lambda: [line for line in one.told("plan") if line["size"] == 2 and line["plan"] > grown], "the plan without the second pod")
        assert one.end() == 0 and not any("failed" in line for line in one.report), one.report
        assert cluster.asked == {"app=digits-host"}
    finally:
        one.abandon()
        one.remove()
