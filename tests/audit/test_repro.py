"""A finding as a file, and a command line as a mapping."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.audit.plans import build_base_plan, build_fault_plan, parse_args, set_script_workers
from chaos.audit.repro import repro_text
from chaos.audit.site_sample import choose_fault_sites
from chaos.errors import UsageError
from chaos.model.arguments import build_command_line
from chaos.model.plan import Plan
from chaos.plan.make import make_plan
from chaos.run.modules import ModuleFile
from chaos.scenario_file.load import load_scenario
from tests.audit.test_site_sample import extent_of

EXTENT = extent_of(epochs=4, steps=5)
WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)


def written(folder: Path, plan: Plan, *, headline: str = "It was lost.") -> Path:
    file = folder / "repro" / "x.chaos.yaml"
    file.parent.mkdir(exist_ok=True)
    text = repro_text(plan, check="trajectory", folder=file.parent, headline=headline)
    file.write_text(text, encoding="utf-8")
    return file


def base(folder: Path, *words: str) -> Plan:
    script = folder / "a job: of mine.py"
    script.write_text("")
    return build_base_plan(script, words, cwd=folder, seed=5)


@pytest.mark.parametrize("place", choose_fault_sites(EXTENT, seed=0, limit=30), ids=str)
def test_a_reproduction_loads_to_a_plan_with_the_same_ops(tmp_path: Path, place: Any) -> None:
    plan = build_fault_plan(base(tmp_path, "--lr", "0.05", "--fast"), place, EXTENT)

    file = written(tmp_path, plan)

    again = make_plan(load_scenario(file), file=file, seed=5, cwd=tmp_path)
    assert again.ops == plan.ops
    assert again.job == plan.job
    assert again.shape == plan.shape
    assert (again.expect.verdict, again.expect.check) == ("fail", "trajectory")


def test_a_reproduction_of_a_module_names_the_module(tmp_path: Path) -> None:
    [place, *_] = choose_fault_sites(EXTENT, seed=0, limit=1)
    (tmp_path / "train.py").touch()
    run = ModuleFile(tmp_path / "train.py", "pkg.jobs.train", "pkg.jobs")
    plan = build_fault_plan(
        build_base_plan(run, ["--lr", "0.05"], cwd=tmp_path, seed=5), place, EXTENT
    )

    file = written(tmp_path, plan)

    again = make_plan(load_scenario(file), file=file, seed=5, cwd=tmp_path)
    assert '  module: "pkg.jobs.train"\n' in file.read_text(encoding="utf-8")
    assert again.job == plan.job
    assert (plan.slug, plan.job.source, plan.job.script) == ("pkg.jobs.train",) * 2 + (None,)


def test_a_reproduction_is_judged_by_the_band_that_the_audit_went_by(tmp_path: Path) -> None:
    [place, *_] = choose_fault_sites(EXTENT, seed=0, limit=1)
    plan = build_fault_plan(base(tmp_path), place, EXTENT)
    banded = plan.model_copy(update={"expect": plan.expect.model_copy(update={"band": "standard"})})

    assert load_scenario(written(tmp_path, banded)).expect.band == "standard"
    assert load_scenario(written(tmp_path, plan)).expect.band is None


@given(st.dictionaries(WORDS, WORDS | st.booleans() | st.integers(-9, 9), max_size=4), WORDS)
def test_no_text_of_a_job_is_taken_for_anything_else(
    tmp_path_factory: pytest.TempPathFactory, args: dict[str, Any], headline: str
) -> None:
    folder = tmp_path_factory.mktemp("repro")
    plan = base(folder)
    plan = plan.model_copy(update={"job": plan.job.model_copy(update={"args": args})})
    place = choose_fault_sites(EXTENT, seed=0, limit=1)[0]

    file = written(folder, build_fault_plan(plan, place, EXTENT), headline=headline)

    assert load_scenario(file).job.args == args


def test_a_job_slower_than_a_scenarios_limit_takes_its_own_with_it(tmp_path: Path) -> None:
    slow = build_fault_plan(base(tmp_path), choose_fault_sites(EXTENT, seed=0, limit=1)[0], EXTENT)
    slow = slow.model_copy(update={"limits": slow.limits.model_copy(update={"run_s": 900.0})})

    assert load_scenario(written(tmp_path, slow)).limits.run_s == 900


@pytest.mark.parametrize(
    "words",
    [
        "",
        "--epochs 4 --fast --lr 0.05",
        "--lr 1e-3 --name true --level 007",
        "--sizes 1 2 3 --shift -1 --scale -.5",
        "--no-shuffle --out /tmp/x --dash -",
        "--big 123456789012345678901234567890",
    ],
)
def test_a_command_line_comes_back_word_for_word(words: str) -> None:
    assert build_command_line(parse_args(words.split())) == words.split()


def test_values_are_numbers_where_they_are_spelled_like_numbers() -> None:
    args = parse_args(["--epochs", "4", "--lr", "0.05", "--tiny", "1e-3", "--on", "--name=digits"])

    assert args == {"epochs": 4, "lr": 0.05, "tiny": "1e-3", "on": True, "name": "digits"}


@pytest.mark.parametrize(
    "words",
    [
        ["train", "--epochs", "4"],
        ["-e", "4"],
        ["--", "file.txt"],
        ["--x", "1", "--x", "2"],
        ["--x=--y"],
        ["optimizer.lr=0.1", "+trainer.epochs=4"],
    ],
)
def test_what_options_by_name_cannot_say_is_kept_word_for_word(
    words: list[str], tmp_path: Path
) -> None:
    args = parse_args(words)
    plan = base(tmp_path).model_copy(
        update={"job": base(tmp_path).job.model_copy(update={"args": args})}
    )

    file = written(
        tmp_path, build_fault_plan(plan, choose_fault_sites(EXTENT, seed=0, limit=1)[0], EXTENT)
    )

    assert args == tuple(words)
    assert build_command_line(load_scenario(file).job.args) == words


def test_a_script_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no such script"):
        build_base_plan(Path("nothing.py"), [], cwd=tmp_path, seed=0)


@pytest.mark.parametrize(
    ("own", "asked", "least_and_most"),
    [
        ([2, 4], None, (2, 4)),
        (3, None, (None, 3)),
        ([2, 4], 4, (2, 4)),
        ([2, 4], 3, (2, 3)),
        ([2, 4], 2, (None, 2)),
        (3, 2, (None, 2)),
        (None, 2, (None, 2)),
    ],
)
def test_an_elastic_job_stays_one_with_a_given_number_of_workers(
    tmp_path: Path, own: object, asked: int | None, least_and_most: tuple[int | None, int]
) -> None:
    (tmp_path / "train.py").touch()
    plan = build_base_plan(Path("train.py"), [], cwd=tmp_path, seed=0, workers=asked)
    replaced = {} if asked is None else {"num_workers": own}
    settings = {"num_workers": own if asked is None else asked}

    found = set_script_workers(
        plan, replace(EXTENT, settings=settings, replaced=replaced), keeps_count=asked is not None
    )

    assert (found.job.min_workers, found.job.workers) == least_and_most
    assert found.shape.nodes == found.job.workers + 1
