"""The corpus is what its README says, and audits of its jobs say what is true."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from chaos.extensions.lab.selftest.corpus import CorpusJob, load_corpus
from tests.called import chaos

HERE = Path(__file__).parent
JOBS = load_corpus(HERE)
SHARDED = ("fsdp_four", "async_shards")  # their saves end training's wait, or go on beside it
SAMPLE = ("relora", "rank0_tells")  # a bug and a right job


def loop_of(job: CorpusJob) -> str:
    """Give the longest function of a script that calls `report`, without names and numbers."""
    tree = ast.parse(job.script(HERE).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        for name in ("id", "attr", "arg", "name", "value"):
            if isinstance(getattr(node, name, None), str | int | float):
                setattr(node, name, "x")
    functions = [ast.dump(node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return max(functions, key=len, default="")


def test_there_are_at_least_thirty_bugs_and_thirty_right_jobs_of_one_to_four_ranks() -> None:
    wrong = [job for job in JOBS if job.bug is not None]

    assert len(wrong) >= 30
    assert len(JOBS) - len(wrong) >= 30
    assert {job.workers for job in JOBS} == {1, 2, 3, 4}
    assert len({job.name for job in JOBS}) == len(JOBS)


def test_every_bug_has_a_severity_and_a_way_to_be_named() -> None:
    for job in JOBS:
        is_named = bool(job.checks or job.parts or job.words)
        assert (job.bug is not None) == is_named == (job.severity is not None), job.name


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_no_script_knows_of_chaos_or_tells_what_is_wrong_with_it(job: CorpusJob) -> None:
    text = job.script(HERE).read_text(encoding="utf-8").lower()

    assert not any(word in text for word in ("chaos", "bug", "fault injection", "resume defect"))


def test_no_two_share_a_loop() -> None:
    loops = [loop_of(job) for job in JOBS]

    assert len(set(loops)) == len(loops)


def test_the_page_of_what_was_found_has_every_report_of_the_corpus_and_no_other() -> None:
    page = (HERE.parents[1] / "docs/found.md").read_text(encoding="utf-8")
    of_libraries, of_jobs = page.split("## In the library itself")[1].split("## The class of")

    def rows(text: str) -> set[tuple[str, ...]]:
        lines = [line.strip("| ").split(" | ") for line in text.splitlines() if "#" in line]
        return {(*row[:-3], row[-1].strip("`")) for row in lines if len(row) > 3}

    told = {(j.source, j.library, f"{j.name}.py") for j in JOBS if j.source and j.library}
    own = {(j.source, f"{j.name}.py") for j in JOBS if j.source and not j.library}
    assert rows(of_libraries) == told
    assert rows(of_jobs) == own


def test_only_a_bug_with_a_report_lies_in_a_library_that_the_job_needs() -> None:
    for job in JOBS:
        assert job.bug is not None or job.source is None, job.name
        assert job.library is None or job.source is not None, job.name
        assert job.library is None or job.library.split()[0] in job.needs, job.name


@pytest.mark.nightly
@pytest.mark.embedded
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SAMPLE)
def test_an_audit_says_what_is_true_of_a_sample(name: str, tmp_path: Path) -> None:
    answers = audited(tmp_path, "--only", name, "--max-runs", "16")

    [job] = [job for job in JOBS if job.name == name]
    [answer] = answers["answers"]
    assert answer["verdict"] != ("pass" if job.bug else "fail"), answer["sentence"]
    assert answer["named"] == (job.bug is not None)
    assert not answers["green_without_resume"]


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_an_audit_says_what_is_true_of_every_job(tmp_path: Path) -> None:
    answers = audited(tmp_path)

    assert answers["blamed"]["count"] == 0
    assert answers["false_alarms"]["count"] == 0
    assert answers["false_alarms"]["of"] >= 300
    assert answers["found"]["count"] >= 0.9 * answers["found"]["of"]
    assert answers["named"]["count"] >= 0.8 * answers["named"]["of"]
    assert not answers["green_without_resume"]


@pytest.mark.nightly
@pytest.mark.embedded
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "job", [job for job in JOBS if job.launcher == "ray"], ids=lambda job: job.name
)
def test_an_audit_says_the_same_of_places_that_share_a_run(job: CorpusJob, tmp_path: Path) -> None:
    if job.missing:
        pytest.skip(f"needs {', '.join(job.missing)}")
    together, alone = (places_of(job, tmp_path, *words) for words in ((), ("--one-by-one",)))

    assert together.keys() & alone.keys()
    if job.varies:  # not place by place, but the answer is the same either way
        for of in (together, alone):
            assert ("fail" in {place[0] for place in of.values()}) == (job.bug is not None)
        return
    assert {name: together[name] for name in together if name in alone} == {
        name: alone[name] for name in alone if name in together
    }


@pytest.mark.nightly
@pytest.mark.embedded
@pytest.mark.timeout(900)
@pytest.mark.parametrize("ranks", ["2", "4", "(2, 4)"])
@pytest.mark.parametrize("name", SHARDED)
def test_a_right_sharded_job_is_right_on_any_number_of_ranks(
    name: str, ranks: str, tmp_path: Path
) -> None:
    [job] = [job for job in JOBS if job.name == name]
    text = job.script(HERE).read_text(encoding="utf-8")
    script = tmp_path / "job.py"
    script.write_text(re.sub(r"num_workers=\d", f"num_workers={ranks}", text), encoding="utf-8")

    words = ("--max-runs", "18", "--no-confirm", "--format", "json", "--reports", tmp_path)
    runs = json.loads(chaos("audit", script, *words, folder=tmp_path).out)["runs"]

    assert {run["status"] for run in runs} == {"pass"}
    shrunk = [run for run in runs if run["group"] == "fewer workers after it"]
    assert bool(shrunk) == (ranks == "(2, 4)")


def places_of(job: CorpusJob, folder: Path, *options: str) -> dict[tuple[str, str], Any]:
    """Audit one job; return what became of each place, without what depends on the clock."""
    words: tuple[str | Path, ...] = (
        "--max-runs",
        "40",
        "--no-confirm",
        "--format",
        "json",
        *options,
        "--reports",
        folder,
    )
    ran = chaos("audit", job.script(HERE), *words, "--", *job.args, folder=folder)
    return {
        (run["group"], run["name"]): (run["status"], run["defects"], run["parts"], run["resumed"])
        for run in json.loads(ran.out)["runs"]
        if not run["is_combined"] and "notice" not in run["name"]
    }


def audited(folder: Path, *options: str) -> dict[str, Any]:
    """Audit jobs of the corpus and give what was written for machines."""
    file = folder / "answers.json"
    chaos("selftest", "--corpus", HERE, "--output", file, *options, folder=folder)
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found
