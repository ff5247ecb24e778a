from pathlib import Path

import pytest

from chaos.errors import UsageError
from chaos.faults.kill_worker import KillWorker
from chaos.faults.preempt_node import PreemptNode
from chaos.model.trigger import AtMoment, AtStep
from chaos.run.directory import ensure_reports_folder
from chaos.scenario_file.load import find_scenarios, load_scenario

TEXT = """\
# yaml-language-server: $schema=../chaos.schema.json
scenario: worker killed in the middle of an epoch
job:
  script: jobs/train.py
  args: {epochs: 4, lr: 1e-3, verbose: true, name: "1", mask: 0x1F, day: 012, rest: null}
  workers: 2
  failure: {max_failures: 2}
  env: {A: "1"}
faults:
  - at: &here {epoch: 2, step: 5, rank: 1}
    kill_worker: {signal: TERM}
  - at: {epoch: 3, moment: upload_begin}
    preempt_node: {notice_s: 3}
  - at: *here
    kill_node: {}
expect:
  attempts: 2
  lost_steps: {max: 8}
"""


def touched(folder: Path, *names: str) -> list[Path]:
    files = [folder / name for name in names]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return files


def test_a_file_is_read_as_its_records(tmp_path: Path) -> None:
    touched(tmp_path, "jobs/train.py")
    file = tmp_path / "x.chaos.yaml"
    file.write_text(TEXT, encoding="utf-8")

    scenario = load_scenario(file)

    assert [entry.at for entry in scenario.faults] == [
        AtStep(epoch=2, step=5, rank=1),
        AtMoment(epoch=3, moment="upload_begin"),
        AtStep(epoch=2, step=5, rank=1),
    ]
    assert scenario.faults[0].fault == KillWorker(signal="TERM")
    assert scenario.faults[1].fault == PreemptNode(notice_s=3)
    assert scenario.expect.attempts == 2


def test_scalars_are_read_as_yaml_1_2_has_them(tmp_path: Path) -> None:
    touched(tmp_path, "jobs/train.py")
    file = tmp_path / "x.chaos.yaml"
    file.write_text(TEXT, encoding="utf-8")

    args = load_scenario(file).job.args

    assert args == {
        "epochs": 4,
        "lr": 0.001,
        "verbose": True,
        "name": "1",
        "mask": 31,
        "day": 12,
        "rest": None,
    }


def test_words_that_yaml_1_1_took_for_truth_are_text(tmp_path: Path) -> None:
    touched(tmp_path, "job.py")
    file = tmp_path / "x.chaos.yaml"
    job = "{script: job.py, workers: 1, args: {a: on, b: no, c: 12:30, d: '=', e: =}}"
    file.write_text(f"scenario: x\njob: {job}\n", encoding="utf-8")

    assert load_scenario(file).job.args == {"a": "on", "b": "no", "c": "12:30", "d": "=", "e": "="}


@pytest.mark.parametrize(
    ("job", "fault"),
    [
        ("", "pause_worker: {}"),  # the job may have time-outs of its own
        ("", "torn_checkpoint: {worker_dies: true}"),
        (", min_workers: 1", "withhold_capacity: {nodes: 1, for_s: 1}"),
    ],
)
def test_what_may_end_an_attempt_can_be_recovered_from(
    tmp_path: Path, job: str, fault: str
) -> None:
    file = tmp_path / "x.chaos.yaml"
    file.write_text(
        f"scenario: x\njob: {{train_loop: 'a:b', workers: 2{job}}}\nfaults:\n"
        f"  - {{at: {{epoch: 0, step: 1}}, {fault}}}\n"
        "  - {at: {recovering_from: 0}, kill_worker: {}}\n"
    )

    assert len(load_scenario(file).faults) == 2


def test_one_attempt_may_be_named_twice(tmp_path: Path) -> None:
    file = tmp_path / "x.chaos.yaml"
    file.write_text(
        "scenario: x\njob: {train_loop: 'a:b', workers: 2}\nfaults:\n"
        "  - {at: {starting: 1}, raise_in_worker: {attempts: [1]}}\n"
    )

    assert load_scenario(file).faults[0].can_inject(1)


def test_folders_are_searched_in_depth_and_in_order(tmp_path: Path) -> None:
    names = ("b/z.chaos.yaml", "a.chaos.yaml", "b/a/x.chaos.yaml", "b/job.yaml", "b/x.chaos.yml")
    touched(tmp_path, *names, ".hidden/x.chaos.yaml")

    found = find_scenarios([tmp_path])

    assert [str(file.relative_to(tmp_path)) for file in found] == [
        "a.chaos.yaml",
        "b/a/x.chaos.yaml",
        "b/z.chaos.yaml",
    ]


def test_scenarios_of_recorded_runs_are_found_only_from_within(tmp_path: Path) -> None:
    own, repro = tmp_path / "own.chaos.yaml", tmp_path / "reports/audits/x/repro/state.chaos.yaml"
    ensure_reports_folder(tmp_path / "reports", "audits")
    repro.parent.mkdir(parents=True)
    for file in (own, repro):
        file.touch()

    assert find_scenarios([tmp_path]) == (own,)
    for asked_for in (tmp_path / "reports", repro.parent, repro):
        assert find_scenarios([asked_for]) == (repro,)


def test_paths_keep_the_order_they_are_given_in_and_no_file_comes_twice(tmp_path: Path) -> None:
    first, second = touched(tmp_path, "b/1.chaos.yaml", "a/2.chaos.yaml")

    assert find_scenarios([first, tmp_path / "a", tmp_path]) == (first, second)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("none", "there is no such file or folder"),
        ("job.py", "this is not a scenario file"),
        ("empty", "there is no scenario in this folder"),
    ],
)
def test_a_path_without_scenarios_is_the_callers_mistake(
    tmp_path: Path, name: str, problem: str
) -> None:
    touched(tmp_path, "job.py")
    (tmp_path / "empty").mkdir()

    with pytest.raises(UsageError, match=problem) as caught:
        find_scenarios([tmp_path / name])

    assert caught.value.location == str(tmp_path / name)
    assert ".chaos.yaml" in caught.value.hint
