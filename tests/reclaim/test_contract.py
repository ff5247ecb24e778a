"""One contract for all reclaimers: the local one on real processes, the others against fakes."""

import contextlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from chaos.errors import UsageError
from chaos.faults.world import RefusedError
from chaos.reclaim.clouds import AwsInstances, AzureMachines, GoogleInstances
from chaos.reclaim.local import LocalProcesses
from chaos.reclaim.pods import KubernetesPods
from chaos.reclaim.port import Reclaimer, client, reclaim
from tests.reclaim.fakes import Core, Ec2, Fis, Instances, Platform, VirtualMachines

ROOT = Path(__file__).parents[2]
# A first process that outlives SIGTERM, as a machine outlives its notice, and one below it.
TREE = (
    "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
    "print(flush=True); time.sleep(600)"
)


@dataclass
class Case:
    """A reclaimer, a node of its that runs, and one that does not."""

    reclaimer: Reclaimer
    node: str
    missing: str
    calls: list[str] = field(default_factory=list)
    pass_time: Callable[[], None] = lambda: None


def kubernetes() -> Case:
    platform = Platform("jobs/worker-0")
    pods = KubernetesPods(Core(platform))
    return Case(pods, "jobs/worker-0", "jobs/none", platform.calls, platform.pass_time)


def aws() -> Case:
    platform = Platform("i-1")
    instances = AwsInstances(Fis(platform), Ec2(platform), "EXT1")
    return Case(instances, "i-1", "i-none", platform.calls, platform.pass_time)


def azure() -> Case:
    platform = Platform("group/vm")
    machines = AzureMachines(SimpleNamespace(virtual_machines=VirtualMachines(platform)))
    return Case(machines, "group/vm", "group/none", platform.calls, platform.pass_time)


def google() -> Case:
    platform = Platform("p/z/vm")
    instances = GoogleInstances(Instances(platform))
    return Case(instances, "p/z/vm", "p/z/none", platform.calls, platform.pass_time)


CLOUDS = [kubernetes, aws, azure, google]


@pytest.fixture
def processes() -> Iterator[Case]:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    first = subprocess.Popen([sys.executable, "-c", TREE], stdout=subprocess.PIPE)
    assert first.stdout is not None
    first.stdout.readline()
    below = psutil.Process(first.pid).children()
    yield Case(LocalProcesses(), str(first.pid), str(ended.pid))
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


def test_a_report_says_what_was_seen_and_how_far_to_trust_it(case: Case) -> None:
    seen = reclaim(case.reclaimer, case.node, notice_s=0.1, sleep=lambda _: case.pass_time())

    assert seen.is_gone
    assert f"an adaptor that was seen {case.reclaimer.seen}" in str(seen)


def test_a_node_that_stays_is_reported(processes: Case) -> None:
    case = aws()
    seen = reclaim(case.reclaimer, case.node, notice_s=1, within_s=3, sleep=lambda _: None)

    assert not seen.is_gone
    assert "is still there" in str(seen)
    assert processes.reclaimer.seen == "for real"


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
        KubernetesPods(Core(platform, is_guarded=True)).announce("jobs/worker-0", notice_s=1)


def test_another_pod_of_the_same_name_is_not_the_one_that_went() -> None:
    core = Core(Platform("jobs/worker-0"))
    pods = KubernetesPods(core)
    pods.announce("jobs/worker-0", notice_s=1.2)
    core.uid = "2"

    assert core.platform.calls == ["evict 2"]
    assert pods.is_gone("jobs/worker-0")


def test_an_instance_that_would_migrate_is_not_maintained() -> None:
    platform = Platform("p/z/vm")
    with pytest.raises(RefusedError, match="no Spot instance"):
        GoogleInstances(Instances(platform, model="STANDARD")).announce("p/z/vm", notice_s=1)
    assert not platform.calls


def test_a_client_that_is_missing_is_named_with_its_extra() -> None:
    with pytest.raises(UsageError, match=r"ray-train-chaos\[reclaim-aws\]"):
        client("no_such_client", extra="reclaim-aws")


def test_the_page_says_which_adaptors_were_seen_for_real() -> None:
    page = (ROOT / "docs/reclaim.md").read_text(encoding="utf-8")
    rows = dict(
        re.findall(r"^\| `chaos\.reclaim\.\w+\.(\w+)` \|.*\| ([\w ]+) \|$", page, re.MULTILINE)
    )

    made: list[type[Reclaimer]] = [
        LocalProcesses,
        KubernetesPods,
        AwsInstances,
        AzureMachines,
        GoogleInstances,
    ]
    assert rows == {adaptor.__name__: adaptor.seen for adaptor in made}
