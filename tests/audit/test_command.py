"""`chaos audit` as it is called, over backends that only tell stories."""

import re
from pathlib import Path
from typing import Any

import pytest

import chaos.app.audit
from chaos.audit import repro
from chaos.model.event import FitReturned
from chaos.model.history import History
from chaos.model.plan import Plan
from tests.audit.backend import FakeBackend, loses_momentum
from tests.called import Done
from tests.called import chaos as called


class Opened(FakeBackend):
    """A backend that is opened and closed."""

    is_closed = False

    def __exit__(self, *_: object) -> None:
        self.is_closed = True


class Backends:
    """Opens them by name; `on_ray` says what becomes of a resumed job there."""

    def __init__(self, on_ray: Any) -> None:
        self.on_ray = on_ray
        self.opened: list[tuple[str, Opened]] = []

    def open(self, name: str, *_: object) -> Opened:
        made = Opened(defect=self.on_ray if name == "ray" else loses_momentum)
        self.opened.append((name, made))
        return made

    @property
    def plans_on_ray(self) -> list[Plan]:
        return [plan for name, made in self.opened if name == "ray" for plan in made.plans]


def audit(folder: Path, backends: Backends, patch: pytest.MonkeyPatch, *words: str) -> Done:
    (folder / "train.py").write_text("import ray.train\n")
    patch.setattr(chaos.app.audit, "open_backend", backends.open)
    patch.setattr(repro, "open_backend", backends.open)
    patch.setattr(chaos.app.audit, "open_launcher", lambda *_: backends.open("fork"))
    options = ["--max-runs", "7", "--jobs", "1", *words]
    return called("audit", "train.py", *options, folder=folder)


def test_a_finding_is_reproduced_on_ray_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backends = Backends(on_ray=loses_momentum)

    done = audit(tmp_path, backends, monkeypatch, "--confirm")

    assert done.code == 1, done.err
    said = " ".join(done.out.split())
    assert "confirming on Ray: finding 1 of 1: starting Ray, 0 s" in said
    assert "on Ray confirmed, by the same kind of finding" in said
    # The sentence of the finding: as it is found, and in the result.
    assert said.count("its loss differs") == 2
    quiet, struck = backends.plans_on_ray
    assert (quiet.ops, len(struck.ops), struck.backend) == ((), 1, "ray")
    assert all(made.is_closed for _, made in backends.opened)


def test_a_finding_that_ray_does_not_show_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = audit(tmp_path, Backends(on_ray=None), monkeypatch, "--confirm")

    assert done.code == 1
    assert "on Ray not confirmed:" in " ".join(done.out.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [([], "ray (train.py:1 imports Ray)"), (["--launcher", "ray"], "ray (--launcher)")],
)
def test_the_launcher_is_named_first_with_how_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    done = audit(tmp_path, Backends(on_ray=None), monkeypatch, "--no-confirm", *words)

    assert done.out.splitlines()[0] == f"launcher: {said}"


def test_the_command_that_repeats_an_audit_is_the_one_that_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--no-confirm", "--for", "crash", "--accept", "rng", "--tolerance", "0.01"]

    done = audit(tmp_path, Backends(on_ray=None), monkeypatch, *words, "--", "--name", "a b")

    [again] = [line for line in done.out.splitlines() if line.startswith("again")]
    options = " ".join(["--max-runs", "7", "--jobs", "1", *words])
    assert again.split(maxsplit=1)[1] == f"chaos audit train.py {options} -- --name 'a b'"


class Failing(Opened):
    """A job that ends before its `fit()` returns."""

    def history(self, plan: Plan) -> History:
        return History([e for e in super().history(plan) if not isinstance(e.event, FitReturned)])


def test_of_a_job_that_fails_by_itself_the_last_lines_of_its_log_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backends = Backends(on_ray=None)
    monkeypatch.setattr(backends, "open", lambda *_: Failing())

    done = audit(tmp_path, backends, monkeypatch)

    assert done.code == 3
    assert "fails without any fault: " in done.err
    assert re.search(r": .*\n  \| said something\n$", done.err)


def test_a_file_that_cannot_be_written_is_found_before_the_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backends = Backends(on_ray=None)
    (tmp_path / "a.json").mkdir()

    done = audit(tmp_path, backends, monkeypatch, "--output", "a.json")

    assert (done.code, backends.opened) == (3, [])
    assert "a.json: cannot write there: Is a directory" in done.err


def test_a_question_of_crashes_takes_no_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = audit(tmp_path, Backends(on_ray=None), monkeypatch, "-v", "--for", "crash")

    assert "just after commit" in done.out
    assert re.search(r"notice +0 of \d +not tried", done.out)
    assert re.search(r"node lost +0 of \d +not tried", done.out)


def test_a_few_lines_are_printed_and_all_of_the_card_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brief = audit(tmp_path, Backends(on_ray=None), monkeypatch)
    whole = audit(tmp_path, Backends(on_ray=None), monkeypatch, "--verbose")
    one_line = audit(tmp_path, Backends(on_ray=None), monkeypatch, "--quiet")

    assert "just after commit" not in brief.out
    assert "just after commit" in whole.out
    assert re.fullmatch(r"✗ train.py: fail: .*\n", one_line.out)
    assert one_line.out in brief.out
    folder = re.search(r"^more +chaos report (\S+) --format text$", brief.out, re.MULTILINE)
    assert folder is not None
    report = called("report", folder[1], "--format", "text", folder=tmp_path)
    assert report.code == 0
    assert "just after commit" in report.out


def test_a_script_that_does_not_compile_is_refused_at_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backends = Backends(on_ray=None)
    (tmp_path / "broken.py").write_text("import torch\ndef train(:\n    pass\n")

    done = called("audit", "broken.py", folder=tmp_path)

    assert (done.code, done.out, backends.opened) == (3, "", [])
    assert done.err.startswith("chaos: broken.py:2: ")
    assert "SyntaxError: " in done.err
    assert not (tmp_path / "reports").exists()


def test_a_scenario_in_place_of_a_script_and_the_reverse_name_the_other_command(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.chaos.yaml").write_text("scenario: a\n")
    (tmp_path / "train.py").write_text("import torch\n")

    audited = called("audit", "a.chaos.yaml", folder=tmp_path)
    executed = called("run", "train.py", folder=tmp_path)

    assert (audited.code, executed.code) == (3, 3)
    assert "\n  chaos run a.chaos.yaml\n" in audited.err
    assert "\n  chaos audit train.py\n" in executed.err


@pytest.mark.parametrize("words", [[], ["--no-confirm"]])
def test_without_being_asked_no_ray_is_started_and_the_command_for_it_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    backends = Backends(on_ray=None)

    done = audit(tmp_path, backends, monkeypatch, *words)

    assert done.code == 1
    assert "on Ray" not in done.out
    assert re.search(r"^repro +chaos run \S+/", done.out, re.MULTILINE)
    assert "/repro/trajectory.chaos.yaml\n" in done.out
    assert backends.plans_on_ray == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--time-limit", "soon"], "'soon' is not a time such as 90s, 5m or 1h"),
        (
            ["--accept", "all"],
            "there is no severity and no finding 'all'",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], says: str
) -> None:
    done = audit(tmp_path, Backends(on_ray=None), monkeypatch, *words)

    assert done.code == 3
    assert says in " ".join(done.err.split())


def test_on_ray_the_faults_are_injected_there_and_nothing_is_tried_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backends = Backends(on_ray=loses_momentum)

    done = audit(tmp_path, backends, monkeypatch, "--backend", "ray")

    assert done.code == 1, done.err
    assert [name for name, _ in backends.opened] == ["fork", "ray"]
    assert sum(bool(plan.ops) for plan in backends.plans_on_ray) >= 7
    assert "on Ray" not in done.out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--backend", "ray", "--jobs", "2"], "only forked workers run side by side"),
        (["--address", "auto"], "--address auto is no address"),
        (["--address", "127.0.0.1:1", "--backend", "ray"], "into a Ray cluster of its own"),
        (["--address", "127.0.0.1:1"], "no Ray cluster answers at 127.0.0.1:1"),
    ],
    ids=["jobs", "auto", "both", "nobody there"],
)
def test_a_cluster_that_cannot_be_used_is_told_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], problem: str
) -> None:
    backends = Backends(on_ray=None)

    done = audit(tmp_path, backends, monkeypatch, *words)

    assert done.code in (3, 4)
    assert problem in " ".join(done.err.split())
    assert not backends.opened
    assert not (tmp_path / "reports").exists()


def test_a_second_audit_continues_the_last_one_and_says_what_came_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backends = Backends(on_ray=None)

    first = audit(tmp_path, backends, monkeypatch, "--continue")
    second = audit(tmp_path, backends, monkeypatch, "--continue")
    other = audit(tmp_path, backends, monkeypatch, "--continue", "--", "--lr", "2")

    assert "has no audit of train.py with these arguments to continue" in first.out
    assert "has no audit" not in second.out
    assert "note: continues reports/" in second.out
    assert re.search(r", where \d places failed", second.out)
    assert re.search(r"^still wrong +\d places: ", second.out, re.MULTILINE)
    assert "has no audit" in other.out
