"""`kubernetes`, as far as chaos calls it: its pods are the `ray start --block` of this machine.

The file that PODS names has each pod's address, the pid of its first process, and the notice of its
preStop hook (seconds; 0: it has none). An eviction is real: the hook, then SIGTERM to that process,
and SIGKILL to all of the pod when the grace is over. Calls that change something are lines of the
file that CALLS names.
"""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil

HOOK_MORE_S = 3.0  # more than one poll of Ray Train's


class ApiError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"({status})")
        self.status = status


class CoreV1Api:
    def __init__(self) -> None:
        self._pods: dict[str, list[Any]] = json.loads(Path(os.environ["PODS"]).read_text())

    def list_namespaced_pod(self, *, namespace: str, field_selector: str) -> Any:
        field, _, ip = field_selector.partition("=")
        assert field == "status.podIP"
        found = [name for name, (address, *_) in self._pods.items() if address == ip]
        return SimpleNamespace(items=[self._pod(name, namespace) for name in found])

    def read_namespaced_pod(self, *, name: str, namespace: str) -> Any:
        if not self._processes(name):
            raise ApiError(404)
        return self._pod(name, namespace)

    def create_namespaced_pod_eviction(
        self, *, name: str, namespace: str, body: dict[str, Any]
    ) -> None:
        self._end("evict", name, namespace, body["deleteOptions"]["gracePeriodSeconds"])

    def delete_namespaced_pod(
        self, *, name: str, namespace: str, grace_period_seconds: int
    ) -> None:
        self._end("delete", name, namespace, grace_period_seconds)

    def _end(self, call: str, name: str, namespace: str, grace_s: int) -> None:
        with Path(os.environ["CALLS"]).open("a") as calls:
            calls.write(f"{call} {namespace}/{name} {grace_s}\n")
        _, pid, hook_s = self._pods[name]
        kubelet = [sys.executable, __file__, str(pid), str(grace_s), str(hook_s)]
        subprocess.Popen(kubelet, stdin=subprocess.DEVNULL, start_new_session=True)

    def _pod(self, name: str, namespace: str) -> Any:
        phase = "Running" if self._processes(name) else "Failed"
        metadata = SimpleNamespace(name=name, namespace=namespace, uid=name)
        spec = SimpleNamespace(hostname=socket.gethostname())
        return SimpleNamespace(metadata=metadata, status=SimpleNamespace(phase=phase), spec=spec)

    def _processes(self, name: str) -> list[psutil.Process]:
        return tree(self._pods[name][1])


def tree(pid: int) -> list[psutil.Process]:
    """Return the living processes of a session: a pod ends its processes with its first one."""
    found = []
    for process in psutil.process_iter(["status"]):
        is_alive = process.info["status"] != psutil.STATUS_ZOMBIE
        if is_alive and os.getsid(process.pid) == pid:
            found.append(process)
    return found


def end_pod(pid: int, grace_s: float, hook_s: float) -> None:
    """Do to a pod what its kubelet does."""
    first = psutil.Process(pid)
    hook = [sys.executable, "-m", "ray.scripts.scripts", "drain-node"]
    left_s = grace_s
    if hook_s and grace_s > hook_s:
        raylet = next(p for p in first.children() if p.name().startswith("raylet"))
        told = dict(word.partition("=")[::2] for word in raylet.cmdline())
        words = {
            "--address": told["--gcs-address"],
            "--node-id": told["--node_id"],
            "--reason": "DRAIN_NODE_REASON_PREEMPTION",
            "--reason-message": "eviction",
            "--deadline-remaining-seconds": str(int(hook_s)),
        }
        subprocess.run([*hook, *(w for pair in words.items() for w in pair)], check=True)
        psutil.wait_procs([first], timeout=hook_s + HOOK_MORE_S)
        left_s -= hook_s + HOOK_MORE_S
    first.terminate()
    psutil.wait_procs([first], timeout=left_s)
    for process in tree(pid):
        process.kill()


client = SimpleNamespace(CoreV1Api=CoreV1Api)
config = SimpleNamespace(load_kube_config=lambda: None, ConfigException=ApiError)

if __name__ == "__main__":
    end_pod(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
