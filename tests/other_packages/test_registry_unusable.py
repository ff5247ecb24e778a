"""What a package registers and cannot be used is told by name, never passed over."""

import re
from pathlib import Path
from typing import Any

import pytest

from chaos.plugins import load_registered_faults
from chaos.registry import EXTENSIONS_ENV, EXTENSIONS_OFF, load_registry
from tests.other_packages.conftest import EXAMPLES, install, run

GOOD = (EXAMPLES / "chaos_peers.py").read_text()


def read(folder: Path, monkeypatch: pytest.MonkeyPatch, *, name: str = "x_fault", text: str) -> str:
    """Install one fault and give what is wrong with it; empty where it can be used."""
    module = f"{folder.name}_{name}".replace("-", "_")
    install(folder, {"chaos.faults": {name: f"{module}:KillPeers"}}, **{module: text})
    monkeypatch.syspath_prepend(folder)
    registry = load_registered_faults(taken_names=["kill_worker"], place_words=["epoch", "seconds"])
    assert len(registry.usable) + len(registry.unusable) == 1
    return "".join(map(str, registry.unusable))


def test_a_fault_that_can_be_used_is_registered_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(tmp_path, monkeypatch, text=GOOD) == ""

    (found,) = load_registered_faults(taken_names=(), place_words=()).usable
    assert (found.name, found.package) == ("x_fault", "chaos-example 1.0")
    assert found.extension.__name__ == "KillPeers"


@pytest.mark.parametrize(
    ("changed", "into", "why"),
    [
        ("class KillPeers", "raise SystemExit\nclass KillPeers", "cannot be loaded: SystemExit"),
        ("import Fault", "import Fualt", "it cannot be loaded: ImportError: cannot import name"),
        ("class KillPeers", "class Kill", "it cannot be loaded: AttributeError"),
        ("KillPeers(Fault)", "KillPeers", "a fault is a subclass of chaos.faults.base.Fault"),
        (
            "def inject(self",
            "def hit(self",
            "it has no method inject(self, world, target, release)",
        ),
        ("release: WorkerRelease)", "*rest: WorkerRelease)", "it has no method inject"),
        ("    rank: ClassVar[None] = None\n", "", "it has no rank"),
        ('    ends_attempt = "always"\n', "", "it does not state whether it ends"),
        ('    family = "worker"\n', "", "it does not state its family"),
        (
            "    signal:",
            "    seconds: float = 1.0\n    signal:",
            "seconds would be taken for a place",
        ),
        ('Literal["KILL", "TERM"] = "KILL"', "World", "it cannot be loaded: PydanticSchema"),
    ],
)
def test_what_is_no_fault_is_told_with_its_package_and_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str, into: str, why: str
) -> None:
    assert changed in GOOD

    said = read(tmp_path, monkeypatch, text=GOOD.replace(changed, into))

    assert said.startswith("chaos-example 1.0 registers `x_fault = ")
    assert ":KillPeers` in chaos.faults: " in said
    assert why in said


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("kill_worker", "chaos has that name itself"),
        ("Kill-Peers", "a name here looks like [a-z][a-z0-9_]*"),
    ],
)
def test_a_name_that_cannot_be_used_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str
) -> None:
    assert why in read(tmp_path, monkeypatch, name=name, text=GOOD)


def test_of_two_packages_with_one_name_neither_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("chaos-one", "chaos-two"):
        install(tmp_path, {"chaos.faults": {"twice": "any:Thing"}}, package=package)
    monkeypatch.syspath_prepend(tmp_path)

    registry = load_registered_faults(taken_names=(), place_words=())

    assert registry.usable == ()
    assert [each.package for each in registry.unusable] == ["chaos-one 1.0", "chaos-two 1.0"]
    assert {each.problem for each in registry.unusable} == {"2 packages register that name"}


def test_the_processes_of_a_job_load_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, {"chaos.faults": {"x": "raises:Thing"}}, raises="raise SystemExit")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(EXTENSIONS_ENV, EXTENSIONS_OFF)

    def never(_: str, what: Any) -> str | None:
        raise AssertionError(what)

    registry = load_registry(
        "chaos.faults", name_pattern=re.compile(".*"), taken_names=(), find_flaw=never
    )

    assert not registry.usable
    assert not registry.unusable


CHECK = (EXAMPLES / "chaos_saves.py").read_text()
BROKEN = {
    "chaos.faults": {"kill_worker": "chaos_peers:KillPeers", "late": "no_module:Late"},
    "chaos.checks": {
        "trajectory": "chaos_saves",
        "every-save": "chaos_saves",
        "no-check": "no_check",
        "no-kinds": "no_kinds",
    },
}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("words", [("run", "x.chaos.yaml"), ("list", "checks"), ("rejudge", "x")])
def test_every_command_refuses_to_begin_and_names_all_that_is_wrong(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    no_check = '"""Does it?"""\nNAME = "no-check"\n'
    no_kinds = CHECK.replace("every-epoch-saved", "no-kinds").replace("KINDS = ", "KINDS = 1, ")
    install(
        tmp_path,
        BROKEN,
        chaos_peers=GOOD,
        chaos_saves=CHECK,
        no_check=no_check,
        no_kinds=no_kinds,
    )

    done = run(tmp_path, "chaos", *words, packages=tmp_path)

    assert done.code == 3
    head = "chaos-example 1.0 registers"
    for told in (
        f"{head} `kill_worker = chaos_peers:KillPeers` in chaos.faults: chaos has that name itself",
        f"{head} `late = no_module:Late` in chaos.faults: it cannot be loaded: ModuleNotFoundError",
        f"{head} `trajectory = chaos_saves` in chaos.checks: chaos has that name itself",
        f"{head} `every-save = chaos_saves` in chaos.checks: it is to be a module whose NAME is",
        "'every-save', and NAME is 'every-epoch-saved'",
        f"{head} `no-check = no_check` in chaos.checks: it has no function check(analysis)",
        f"{head} `no-kinds = no_kinds` in chaos.checks: KINDS is to have each kind of its findings",
        "Mend the package or uninstall it",
    ):
        assert told in done.said


FIRST = """
import chaos

@chaos.scenario(script="job.py", workers=2, faults=[chaos.kill_peers(epoch=1, step=2)])
def test_x(result): pass
"""


@pytest.mark.timeout(180)
def test_pytest_collects_with_the_packages_fault_and_refuses_a_broken_one(tmp_path: Path) -> None:
    (tmp_path / "job.py").touch()
    (tmp_path / "test_first.py").write_text(FIRST)
    (tmp_path / "x.chaos.yaml").write_text(
        "scenario: x\njob: {script: job.py, workers: 2}\n"
        "faults:\n  - {at: {epoch: 1, step: 1}, kill_peers: {}}\n"
    )
    plugin = ("-p", "no:chaos", "-p", "chaos.extensions.pytest_plugin", "-p", "no:randomly")
    words = ("pytest", *plugin, "--collect-only", "-q")
    good = install(
        tmp_path / "good", {"chaos.faults": {"kill_peers": "peers:KillPeers"}}, peers=GOOD
    )
    bad = install(tmp_path / "bad", {"chaos.faults": {"kill_peers": "no_module:X"}})

    collected = run(tmp_path, *words, packages=good)
    refused = run(tmp_path, *words, "x.chaos.yaml", packages=bad)

    assert collected.code == 0, collected.said
    assert "x.chaos.yaml::seed-0" in collected.said
    assert "test_first.py::test_x" in collected.said
    assert refused.code == 2
    assert "chaos-example 1.0 registers `kill_peers = no_module:X` in chaos.faults" in refused.said


TWO = """
from typing import ClassVar
from chaos.faults.base import Fault

class TakeTwo(Fault):
    \"\"\"Take two nodes.\"\"\"
    rank: ClassVar[None] = None
    family = "node"
    ends_attempt = "always"
    releases_worker_itself = True
    lost_node_count: ClassVar[int] = 2

    def inject(self, world, target, release):
        raise NotImplementedError
"""
ASK = """
import chaos
entry = chaos.take_two(epoch=1, step=2)
print(entry.fault.lost_node_count, entry.fault.releases_worker_itself, entry.fault.ends_attempt)
"""


def test_a_fault_says_how_many_nodes_it_takes_and_room_is_made_for_them(tmp_path: Path) -> None:
    install(tmp_path, {"chaos.faults": {"take_two": "two:TakeTwo"}}, two=TWO, ask=ASK)
    (tmp_path / "x.chaos.yaml").write_text(
        "scenario: x\njob: {script: ask.py, workers: 2}\ncluster: {nodes: 3}\n"
        "faults:\n  - {at: {epoch: 1, step: 1}, take_two: {}}\n"
    )

    refused = run(tmp_path, "chaos", "run", "x.chaos.yaml", packages=tmp_path)

    assert run(tmp_path, "ask", packages=tmp_path).said == "2 True always"
    assert (
        "x.chaos.yaml:3: after its 2 node faults the cluster holds 1 of 2 workers" in refused.said
    )
