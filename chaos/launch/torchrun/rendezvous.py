"""torchrun's own command line: one agent for all workers, or one per node with a rendezvous.

With one node it is `--standalone`. With several each node has an agent of its own, and the agents
meet as on several machines: node 0 hosts the c10d store, and node n has the address 127.0.0.10n, by
which torchelastic orders the nodes. A node that joins later comes last.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from chaos.model.plan import Plan

CONF_ENV = "PET_RDZV_CONF"  # torchrun's own variable for its option --rdzv-conf
HOST = 0  # the number of the node that hosts the rendezvous
# torch 2.13: an agent waits so long for workers that it has sent SIGTERM, and meets the others only
# then. A right job may use all of that time, so whatever chaos limits is longer (see
# `find_timeouts`).
SHUTDOWN_ENV, SHUTDOWN_S = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", 30
MEETING_S, LEAVING_S = 60, 15  # for what is left of a restart, or of an end, on a busy machine
# torch 2.13 learns of a lost node after 15 s.
CONF: Mapping[str, str] = {
    "last_call_timeout": "2",  # for more nodes than --nnodes needs
    "keep_alive_interval": "1",
    "keep_alive_max_attempt": "3",  # after so many intervals without a sign a node is dead
}


@dataclass(frozen=True)
class Timeouts:
    """The times that chaos gives torchrun's agents, in seconds, where torch has 600 and 300."""

    #: until agents that wait for others give up
    join: int
    #: until agents that are done, and of which a fault has taken one, no longer wait for it
    exit: int


def find_timeouts(env: Mapping[str, str]) -> Timeouts:
    """Return the times for agents with this environment; none is shorter than torch's shutdown."""
    setting = env.get(SHUTDOWN_ENV, "")
    shutdown_s = int(setting) if setting.isdecimal() else SHUTDOWN_S
    return Timeouts(join=shutdown_s + MEETING_S, exit=shutdown_s + LEAVING_S)


def build_launch_options(plan: Plan, node: int, port: int, env: Mapping[str, str]) -> list[str]:
    """Return torchrun's options for the agent of a node; `env` has the user's settings.

    `port`: where the rendezvous is hosted, 0 for its host itself, which takes a free one.
    """
    job, node_count = plan.job, plan.shape.nodes
    workers_per_node = job.workers // node_count  # workers are spread evenly
    if node_count == 1:
        return ["--standalone", f"--nproc-per-node={workers_per_node}"]
    nodes_min = (job.min_workers or job.workers) // workers_per_node
    return [
        f"--nnodes={node_count if nodes_min == node_count else f'{nodes_min}:{node_count}'}",
        f"--nproc-per-node={workers_per_node}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={find_ip(HOST)}:{port}",
        f"--rdzv-id={plan.slug}",
        f"--rdzv-conf={_build_conf(node, env)}",
        f"--local-addr={find_ip(node)}",
    ]


def max_restarts(plan: Plan) -> int:
    """Return the `--max-restarts` of a plan; torchrun's own default is 0."""
    job = plan.job
    return 0 if job.failure is None or job.restarts_by_command else job.failure.max_failures


def find_ip(node: int) -> str:
    """Return the address of a node on this machine."""
    return f"127.0.0.{101 + node}"


def _build_conf(node: int, env: Mapping[str, str]) -> str:
    """Return chaos's settings of the rendezvous, in which the user's own replace theirs."""
    pairs = (pair.partition("=") for pair in env.get(CONF_ENV, "").split(",") if pair.strip())
    user_settings = {key.strip(): value.strip() for key, _, value in pairs}
    # On one machine every agent would find the endpoint's address to be its own, and try to host.
    join_setting = {"join_timeout": str(find_timeouts(env).join)}
    # The user's own come last and replace chaos's: a job that is tuned to its cluster is tested so.
    conf = {**CONF, **join_setting, "is_host": str(int(node == HOST)), **user_settings}
    return ",".join(f"{key}={value}" for key, value in conf.items())
