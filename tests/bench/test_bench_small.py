"""Every benchmark runs, with as little as shows that it does; what needs Ray stops before it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.bench import (
    audits,
    bench,
    busy,
    cluster,
    first_findings,
    lanes,
    search,
    shares,
    telling,
    torchrun,
)

pytestmark = [pytest.mark.embedded, pytest.mark.nightly]
Small = Callable[..., None]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Small:
    """Set constants of a benchmark to less."""

    def set_(module: Any, **values: Any) -> None:
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)

    return set_


def test_the_parts_of_a_run(
    small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small(bench, SAMPLE=1)

    bench.fixed_costs(tmp_path)

    assert "a run with a kill, judged" in capsys.readouterr().out


def test_the_embedded_half_of_the_comparison_with_a_cluster(
    small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small(bench, SAMPLE=1, SIDE_SAMPLE=1, on_ray=lambda *_: None)

    bench.against_a_warm_cluster(tmp_path)

    assert "fork: more of them side by side, per run" in capsys.readouterr().out


def test_every_place_of_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench.exhaustive(tmp_path, most=1)

    assert "exhaustive: 1 kill points" in capsys.readouterr().out


@pytest.mark.nightly
def test_the_cost_of_watching(
    small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small(bench, EPOCHS=2, EPOCH_STEPS=2)

    bench.probe(tmp_path)

    assert "probe, a step of digits" in capsys.readouterr().out


def test_forecasts(small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small(bench, FORECASTS=10)

    bench.forecasts(tmp_path)

    assert "forecast on bathtub-24h-cap: 10 x 30 days" in capsys.readouterr().out


def test_how_exactly_a_kill_lands(
    small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small(cluster, TRIES=1)

    cluster.exactness(tmp_path)

    assert "that hit their (epoch, step)  1 of 1" in capsys.readouterr().out


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_places_that_share_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ("--max-runs", "2", "--places", audits.STEPS)

    audits.compared(tmp_path, "two runs", *few, epochs=2, batch=96)

    assert "times as long" in capsys.readouterr().out


@pytest.mark.nightly
def test_more_processors(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    small(lanes, PLACES=1, RUNS=300)

    lanes.main()

    assert "simulated, this job, 300 runs" in capsys.readouterr().out


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_search_and_plans_drawn_at_random() -> None:
    name, check = next(iter(search.JOBS.items()))

    assert search.searched(name, check, plans=1).plans == 1
    assert search.drawn(name, check, plans=1).plans == 1


def test_shards(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    small(shares, ROWS=10, COLUMNS=10, LAYERS=1, TIMES=1)

    shares.main()

    assert "a share" in capsys.readouterr().out


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_an_audit_without_ray(small: Small) -> None:
    small(torchrun, RUNS="1")

    _, card = torchrun.audit("fork")

    assert card["verdict"]["places"]["tried"] >= 1


def test_the_wait_for_a_first_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["first_findings", "1000"])  # the first job alone

    first_findings.main()

    assert "first finding of 1 jobs: " in capsys.readouterr().out


def test_right_jobs_beside_busy_processes(
    small: Small, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small(busy, BUSY=1)
    monkeypatch.setattr(sys, "argv", ["busy", "1000"])

    busy.main()

    text = capsys.readouterr().out
    assert " of 1 right jobs ran out of" in text
    assert "jobs ran out of time beside 1" in text


def test_what_each_group_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "selftests/corpus/relora"
    folder.mkdir(parents=True)
    rows = [("mid-epoch", "fail"), ("mid-epoch", "pass"), ("node lost", "pass")]
    runs = [{"group": g, "status": status, "is_combined": False} for g, status in rows]
    card = {"job": {"script": "jobs/wrong/relora.py"}, "runs": runs}
    (folder / "audit.json").write_text(json.dumps(card), encoding="utf-8")

    telling.main(tmp_path)

    assert capsys.readouterr().out.splitlines() == ["mid-epoch: 1 of 1", "node lost: 0 of 1"]
