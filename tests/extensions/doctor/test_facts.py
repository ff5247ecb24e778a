"""What a look at this machine finds, and that it changes nothing."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from chaos.extensions.doctor.facts import EXTRAS, OF_SCENARIOS, collect_machine_facts
from chaos.run.clock import SystemClock

ROOT = Path(__file__).parents[3]


def test_every_extra_that_jobs_need_is_looked_for_with_all_its_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    due = {extra: {Requirement(line).name for line in extras[extra]} for extra in set(extras)}
    due.pop("ray")  # which has a line of its own
    looked_for = {**EXTRAS, **OF_SCENARIOS}

    named = {extra: {names[0] for names in packages} for extra, packages in looked_for.items()}
    assert named == {**due, "metrics": {"ray", "opencensus"}}


def test_a_look_makes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    found = collect_machine_facts(tmp_path / "not" / "there", SystemClock(), None)

    assert list(tmp_path.iterdir()) == []
    assert found.can_signal
    assert found.can_listen
    assert found.can_write
    assert found.clock_back_ns == 0
