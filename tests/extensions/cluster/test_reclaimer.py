"""One contract for all reclaimers: the local one on real processes, the others against fakes."""

import contextlib
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from chaos.errors import UsageError
from chaos.extensions.cluster.reclaim.clouds import AwsInstances, AzureMachines, GoogleInstances
from chaos.extensions.cluster.reclaim.connect import find_machine
from chaos.extensions.cluster.reclaim.local import LocalProcesses
from chaos.extensions.cluster.reclaim.pods import KubernetesPods
from chaos.extensions.cluster.reclaim.reclaimer import (
    Reclaimer,
    convert_permission_errors,
    import_client,
)
from chaos.faults.world import RefusedError
from chaos.plan.permissions import NodeFacts
from tests.extensions.cluster.fakes import (
    ADDRESS,
    Cards,
    Core,
    Ec2,
    Fis,
    Instances,
    Platform,
    VirtualMachines,
)

ROOT = Path(__file__).parents[3]
# A first process that outlives SIGTERM, as a machine outlives its notice, and one below it. It
# listens at the address that it prints, at which others may listen, too.
TREE = (
    "import signal, socket, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
    "held = socket.socket(); held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1);"
    "held.bind(('127.0.0.9', 0)); held.listen();"
    "print(held.getsockname()[1], flush=True); time.sleep(600)"
)


@dataclass
class Case:
    """A reclaimer, a node of its that runs, and one that does not."""

    reclaimer: Reclaimer
    node: str
    missing: str
    platform: Platform | None = None
    host: str = ADDRESS
    port: int = 1
    hostname: str | None = None

    def at(self, host: str | None = None) -> str:
        """Look for the node, or for one at another address."""
        hostname = self.hostname or self.node.rpartition("/")[2]
        return self.reclaimer.find_machine(host or self.host, self.port, hostname)

    @property
    def calls(self) -> list[str]:
        return [] if self.platform is None else self.platform.calls

    def pass_time(self) -> None:
        if self.platform is not None:
            self.platform.pass_time()


def kubernetes() -> Case:
    platform = Platform("jobs/worker-0")
    return Case(KubernetesPods(Core(platform), "jobs"), "jobs/worker-0", "jobs/none", platform)


def aws() -> Case:
    platform = Platform("i-1")
    return Case(AwsInstances(Fis(platform), Ec2(platform), "EXT1"), "i-1", "i-none", platform)


def azure() -> Case:
    platform = Platform("group/vm")
    machines = AzureMachines(
        SimpleNamespace(virtual_machines=VirtualMachines(platform)),
        SimpleNamespace(network_interfaces=Cards(platform)),
        "group",
    )
    return Case(machines, "group/vm", "group/none", platform)


def google() -> Case:
    platform = Platform("p/z/vm")
    return Case(GoogleInstances(Instances(platform), "p", "z"), "p/z/vm", "p/z/none", platform)


CLOUDS = [kubernetes, aws, azure, google]


@pytest.fixture
def processes() -> Iterator[Case]:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    first = subprocess.Popen([sys.executable, "-c", TREE], stdout=subprocess.PIPE)
    assert first.stdout is not None
    port = int(first.stdout.readline())
    below = psutil.Process(first.pid).children()
    yield Case(LocalProcesses(), str(first.pid), str(ended.pid), host="127.0.0.9", port=port)
    for process in below:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    first.kill()
    first.wait()
    first.stdout.close()


@pytest.fixture(params=["local", *CLOUDS], ids=lambda p: p if p == "local" else p.__name__)
def case(request: pytest.FixtureRequest) -> Case:
    if request.param == "local":
        found: Case = request.getfixturevalue("processes")
        return found
    made: Case = request.param()
    return made


def test_a_node_that_was_left_alone_is_there(case: Case) -> None:
    assert not case.reclaimer.is_gone(case.node)
    assert not case.calls


def test_an_announced_node_has_the_notice_that_was_asked_for_at_least(case: Case) -> None:
    given_s = case.reclaimer.announce(case.node, notice_s=12.5)

    assert given_s >= 12.5
    assert not case.reclaimer.is_gone(case.node)


def test_an_announced_node_goes_by_itself_or_is_taken(case: Case) -> None:
    case.reclaimer.announce(case.node, notice_s=1)
    case.pass_time()

    assert case.reclaimer.is_gone(case.node) == case.reclaimer.takes_announced
    if not case.reclaimer.takes_announced:
        case.reclaimer.take(case.node)
    assert case.reclaimer.is_gone(case.node)


def test_a_node_that_is_taken_is_gone(case: Case) -> None:
    case.reclaimer.take(case.node)

    assert case.reclaimer.is_gone(case.node)


@pytest.mark.parametrize(
    "do", [lambda r, node: r.announce(node, notice_s=1), lambda r, node: r.take(node)]
)
def test_what_is_gone_is_neither_announced_nor_taken(
    case: Case, do: Callable[[Reclaimer, str], object]
) -> None:
    case.reclaimer.take(case.node)
    for node in (case.node, case.missing):
        done = list(case.calls)
        with pytest.raises(ProcessLookupError):
            do(case.reclaimer, node)
        assert case.calls == done
        assert case.reclaimer.is_gone(node)


def test_a_name_of_another_form_is_refused(case: Case) -> None:
    with pytest.raises(UsageError, match="named"):
        case.reclaimer.is_gone("no/such/name/here")


def test_a_node_is_found_by_its_address(case: Case) -> None:
    assert case.at() == case.node
    assert not case.calls


def test_no_node_is_found_where_there_is_none(case: Case) -> None:
    if case.platform is not None:
        case.platform.names = []
    with pytest.raises(RefusedError, match=r"no node at 192\.0\.2\.1"):
        case.at("192.0.2.1")


def test_of_several_nodes_at_an_address_none_is_chosen_unless_a_hostname_tells_them_apart(
    case: Case,
) -> None:
    with another_at(case):
        if case.reclaimer.name in {"local", "aws"}:
            with pytest.raises(RefusedError, match="several nodes at"):
                case.at()
        else:
            assert case.at() == case.node


@contextlib.contextmanager
def another_at(case: Case) -> Iterator[None]:
    """Let another node have the same address."""
    if case.platform is not None:
        case.platform.names.append(case.missing)
        yield
        return
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind((case.host, case.port))
        held.listen()
        yield


@pytest.mark.parametrize("make", [kubernetes, azure, google])
def test_a_node_of_another_network_with_the_same_address_is_not_it(
    make: Callable[[], Case],
) -> None:
    case = make()
    case.hostname = "elsewhere"

    with pytest.raises(RefusedError, match="with the hostname elsewhere"):
        case.at()


@pytest.mark.parametrize("do", ["announce", "take"])
def test_an_instance_that_the_template_does_not_name_is_left_alone(do: str) -> None:
    platform = Platform("i-1")
    fis = Fis(platform, targets=({"resourceArns": ["x/i-2"]},))
    instances = AwsInstances(fis, Ec2(platform), "EXT1")

    with pytest.raises(RefusedError, match="i-1 alone"):
        instances.take("i-1") if do == "take" else instances.announce("i-1", notice_s=1)
    assert not platform.calls


def test_a_pod_may_state_a_hostname_and_a_machine_may_have_a_domain() -> None:
    pods = KubernetesPods(Core(Platform("jobs/worker-0"), hostname="w"), "jobs")
    instances = GoogleInstances(Instances(Platform("p/z/vm")), "p", "z")

    assert pods.find_machine(ADDRESS, 1, "w") == "jobs/worker-0"
    assert instances.find_machine(ADDRESS, 1, "vm.c.p.internal") == "p/z/vm"


def test_two_nodes_at_one_address_of_this_machine_are_two_trees(processes: Case) -> None:
    node = NodeFacts("n1", processes.host, 1, port=processes.port)
    other = NodeFacts("n2", processes.host, 1, port=1, is_head=True)

    assert find_machine(processes.reclaimer, node, [node, other]) == processes.node


@pytest.mark.parametrize("make", CLOUDS)
@pytest.mark.parametrize(
    "do",
    [
        lambda case: case.at(),
        lambda case: case.reclaimer.announce(case.node, notice_s=1),
        lambda case: case.reclaimer.take(case.node),
        lambda case: case.reclaimer.is_gone(case.node),
    ],
    ids=["at", "announce", "take", "is_gone"],
)
def test_without_rights_it_is_refused_and_nothing_is_done(
    make: Callable[[], Case], do: Callable[[Case], object]
) -> None:
    case = make()
    assert case.platform is not None
    case.platform.is_closed = True

    reason = r"does not allow it: (the API's own reason|an error occurred)"
    with pytest.raises(RefusedError, match=reason), convert_permission_errors(case.reclaimer):
        do(case)
    assert not case.calls


@pytest.mark.parametrize("make", [aws, azure, google])
def test_a_cloud_is_not_asked_for_more_notice_than_it_gives(make: Callable[[], Case]) -> None:
    case = make()
    with pytest.raises(RefusedError, match="of notice"):
        case.reclaimer.announce(case.node, notice_s=121)
    assert not case.calls


@pytest.mark.parametrize(
    ("fis", "calls"),
    [
        ({"actions": ("aws:ec2:stop-instances",)}, 0),
        ({"targets": ({"resourceTags": {"a": "b"}},)}, 0),
        ({"targets": ({"resourceArns": ["x/i-1", "x/i-2"]},)}, 0),
        ({"status": "failed"}, 1),
    ],
)
def test_an_experiment_interrupts_the_named_instance_alone(
    fis: dict[str, object], calls: int
) -> None:
    platform = Platform("i-1")
    fake = Fis(platform)
    for name, value in fis.items():
        setattr(fake, name, value)

    with pytest.raises(RefusedError):
        AwsInstances(fake, Ec2(platform), "EXT1").announce("i-1", notice_s=120)
    assert len(platform.calls) == calls


def test_a_pod_that_a_budget_keeps_is_refused() -> None:
    platform = Platform("jobs/worker-0")
    with pytest.raises(RefusedError, match="disruption budget"):
        KubernetesPods(Core(platform, is_guarded=True), "jobs").announce(
            "jobs/worker-0", notice_s=1
        )


def test_another_pod_of_the_same_name_is_not_the_one_that_went() -> None:
    core = Core(Platform("jobs/worker-0"))
    pods = KubernetesPods(core, "jobs")
    pods.announce("jobs/worker-0", notice_s=1.2)
    core.uid = "2"

    assert core.platform.calls == ["evict 2"]
    assert pods.is_gone("jobs/worker-0")


def test_an_instance_that_would_migrate_is_not_maintained() -> None:
    platform = Platform("p/z/vm")
    with pytest.raises(RefusedError, match="no Spot instance"):
        GoogleInstances(Instances(platform, model="STANDARD"), "p", "z").announce(
            "p/z/vm", notice_s=1
        )
    assert not platform.calls


def test_a_client_that_is_missing_is_named_with_its_extra() -> None:
    with pytest.raises(UsageError, match=r"\[reclaim-aws\]'"):
        import_client("no_such_client", extra="reclaim-aws")


def test_the_page_says_which_adaptors_were_seen_for_real() -> None:
    page = (ROOT / "docs/launcher-reference.md").read_text(encoding="utf-8")
    rows = dict(
        re.findall(
            r"^\| .*`chaos\.extensions\.cluster\.reclaim\.\w+\.(\w+)` \|.*\| ([\w ]+) \|$",
            page,
            re.MULTILINE,
        )
    )

    made: list[type[Reclaimer]] = [
        LocalProcesses,
        KubernetesPods,
        AwsInstances,
        AzureMachines,
        GoogleInstances,
    ]
    assert rows == {adaptor.__name__: adaptor.evidence for adaptor in made}
