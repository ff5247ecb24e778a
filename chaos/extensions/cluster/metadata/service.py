"""The server of an emulated instance metadata service, at a loopback address, for one run.

It finds the node that asks by the socket of the request: a worker of the run, or a process below
one, is on its worker's node. All others have no notice.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import Any

import psutil

from chaos.extensions.cluster.metadata.answer import (
    CONTENT_TYPES,
    MetadataRequest,
    MetadataResponse,
    Notice,
    answer_request,
    compute_wait_s,
    format_iso,
    is_acknowledgement,
)
from chaos.faults.world import Target
from chaos.launch.cluster_extension import MetadataService
from chaos.model.event import MetadataAsked
from chaos.model.scenario import Cloud
from chaos.probe.address import METADATA_ENV
from chaos.run.clock import Clock, elapsed_seconds
from chaos.run.journal import Journal

LOOPBACK = "127.0.0.1"
POLL_S = 0.1
EVENTS_MAX = 64  # a job may ask for any path


class CloudMetadata(MetadataService):
    """The service of one run, at a free port of the loopback address, until it is closed.

    `group` returns the present worker of each rank. Every request is a line of the file `log`: the
    time, the node that asked, the request and the status. The first of a node for a path, and the
    first that is answered with its notice, is an event of the journal.
    """

    def __init__(
        self,
        cloud: Cloud,
        clock: Clock,
        group: Callable[[], Mapping[int, Target]],
        log: Path,
        journal: Journal,
    ) -> None:
        self.cloud = cloud
        self._clock = clock
        self._group = group
        self._log = log
        self._journal = journal
        self._recorded: set[tuple[str | None, str, bool]] = set()
        self._notices: dict[str, Notice] = {}
        self._guard = threading.Lock()
        self._closed = threading.Event()
        self._server = _Server((LOOPBACK, 0), _build_handler(self))
        threading.Thread(target=self._server.serve_forever, daemon=True, name="metadata").start()

    def variables(self) -> dict[str, str]:
        host = f"{LOOPBACK}:{self._server.server_address[1]}"
        url = f"http://{host}"
        cloud_variables = {
            "aws": {"AWS_EC2_METADATA_SERVICE_ENDPOINT": url},
            "gcp": {"GCE_METADATA_HOST": host, "GCE_METADATA_IP": host},
            "azure": {},
        }
        return {METADATA_ENV: url, **cloud_variables[self.cloud]}

    def post(self, node_id: str, *, deadline_ns: int) -> None:
        now_s = self._clock.wall_ns() / 1e9
        left_s = -elapsed_seconds(deadline_ns, self._clock)
        self._notices[node_id] = Notice(node_id, now_s, now_s + left_s)

    def close(self) -> None:
        with self._guard:
            self._closed.set()
        self._server.shutdown()
        self._server.server_close()

    def serve(self, request: MetadataRequest, port: int) -> MetadataResponse:
        """Return the answer to a request from a local port; waits where the request asks for it."""
        node_id = self._await_change(request, port)
        notice, now_s = self._notice(node_id), self._clock.wall_ns() / 1e9
        response = answer_request(self.cloud, request, notice, now_s)
        if notice is not None and is_acknowledgement(self.cloud, request, notice):
            self._notices[notice.node_id] = replace(notice, is_started=True)
        words = f"{request.method} {request.target} {response.status}"
        line = f"{format_iso(now_s)} {node_id or '-'} {words}\n"
        # Whether a job has seen its notice is what differs from the answer without one: a path may
        # be the same in both.
        default_response = answer_request(self.cloud, request, None, now_s)
        with self._guard, suppress(OSError):  # a full disk must not change the answer
            self._record(
                node_id,
                request,
                response,
                has_notice=response.is_ok and response != default_response,
            )
            with self._log.open("a", encoding="utf-8") as log:
                log.write(line)
        return response

    def _record(
        self,
        node_id: str | None,
        request: MetadataRequest,
        response: MetadataResponse,
        *,
        has_notice: bool,
    ) -> None:
        key = node_id, request.path, has_notice
        is_token = request.method == "PUT"
        if is_token or key in self._recorded or len(self._recorded) >= EVENTS_MAX:
            return
        if not self._closed.is_set():  # the journal may be closed by then
            self._recorded.add(key)
            description = f"{request.method} {request.path}"
            self._journal.add(
                MetadataAsked(
                    node_id=node_id,
                    request=description,
                    status=response.status,
                    has_notice=has_notice,
                )
            )

    def _await_change(self, request: MetadataRequest, port: int) -> str | None:
        node_id = find_node(port, self._group())
        earlier_notice, since_ns = self._notice(node_id), self._clock.now_ns()
        limit_s = compute_wait_s(self.cloud, request, earlier_notice)
        while elapsed_seconds(since_ns, self._clock) < limit_s and not self._closed.is_set():
            self._clock.sleep(POLL_S)
            # A worker may ask before its group is known, and wait for a change with the very
            # request.
            node_id = node_id or find_node(port, self._group())  # of a group that was just started
            if self._notice(node_id) != earlier_notice:
                break
        return node_id

    def _notice(self, node_id: str | None) -> Notice | None:
        return None if node_id is None else self._notices.get(node_id)


def find_node(port: int, group: Mapping[int, Target]) -> str | None:
    """Return the node of the worker that has a socket at a port, itself or by a process below.

    None where no worker has: the driver, another program, or a worker whose group is not known yet.
    """
    # By the socket and not by an address of each node's own: the variables of the clouds' clients
    # are one for all workers. First the workers themselves, as looking below each takes longer.
    workers = [(worker.pid, worker.node_id) for worker in group.values()]
    for pid, node_id in workers:
        if _has_port(pid, port):
            return node_id
    for pid, node_id in workers:
        with suppress(psutil.Error):
            if any(
                _has_port(process.pid, port)
                for process in psutil.Process(pid).children(recursive=True)
            ):
                return node_id
    return None


def _has_port(pid: int, port: int) -> bool:
    with suppress(psutil.Error):
        connections = psutil.Process(pid).net_connections("tcp4")
        return any(connection.laddr.port == port for connection in connections)
    return False


class _Server(ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128  # all ranks may ask at once
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that is gone: its node may just have been lost."""


def _build_handler(service: CloudMetadata) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 30.0

        def _serve(self) -> None:
            size = self.headers.get("Content-Length", "0")
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(int(size[:6])) if size.isdigit() else b""
            request = MetadataRequest(self.command, self.path, headers, body)
            response = service.serve(request, self.client_address[1])
            self.send_response(response.status)
            content = response.body.encode()
            kind, size = CONTENT_TYPES[service.cloud], f"{len(content)}"
            fixed_headers = {"Content-Type": kind, "Content-Length": size}
            for name, value in {**response.headers, **fixed_headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = _serve  # noqa: N815 - the library's names

        def log_message(self, *_: object) -> None:
            """Print nothing: the service writes a line of its own."""

    return Handler
