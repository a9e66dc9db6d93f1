"""A stand-in for a cluster: as much of Kubernetes' API as `kubectl get pods` asks for. Usage: cluster.py FOLDER

FOLDER/pods.json lists the pods, each with name, address and ends (whether it is about to end), and may be replaced at any
time. A pod is ready if its sshd can be reached, as the readinessProbe of examples/kubernetes/elastic.yaml has it. The
selectors that were asked for go to FOLDER/asked, a line each. Prints a line once it answers, on port 6443.
"""

import http.server
import json
import pathlib
import socket
import sys
import urllib.parse

FOLDER = pathlib.Path(sys.argv[1])
RESOURCES = [{"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get", "list"]}]


def is_ready(address):
    """Whether something answers on the port that the manifest probes."""
    try:
        socket.create_connection((address, 2222), timeout=1).close()
    except OSError:
        return False
    return True


def pods():
    """The pods as the cluster tells of them."""
    items = []
    for each in json.loads((FOLDER / "pods.json").read_text()):
        metadata = {"name": each["name"], "namespace": "default", "labels": {"app": "digits-host"}}
        if each["ends"]:
            metadata["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        conditions = [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": str(is_ready(each["address"]))}]
        items.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"podIP": each["address"], "conditions": conditions}})
    return items


def answer(path, query):
    """What the cluster answers; None if there is no such thing."""
    if path == "/api/v1/namespaces/default/pods":
        with open(FOLDER / "asked", "a") as asked:
            asked.write(urllib.parse.parse_qs(query)["labelSelector"][0] + "\n")
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods()}
    return {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
        "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": RESOURCES},
    }.get(path)


class Questions(http.server.BaseHTTPRequestHandler):
    """Answers one of kubectl's questions."""

    def do_GET(self):
        """The versions and kinds that there are, and the pods."""
        path, _, query = self.path.partition("?")
        found = answer(path, query)
        body = json.dumps(found or {"kind": "Status", "status": "Failure", "code": 404}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing."""


with http.server.ThreadingHTTPServer(("127.0.0.1", 6443), Questions) as server:
    print("answers", flush=True)
    server.serve_forever()
