"""A scenario of a job that torchrun starts: what needs Ray Train is refused by its name."""

from pathlib import Path

import pytest

from chaos.errors import ScenarioError
from chaos.plan.make import make_plan
from chaos.scenario_file.load import load_scenario
from chaos.scenario_file.text import render_scenario

JOB = "scenario: x\njob: {launcher: torchrun, script: job.py, workers: 2%s}\n"
AT = "at: {epoch: 0, step: 1, rank: 0}"


def loaded(folder: Path, text: str) -> Path:
    (folder / "job.py").touch()
    file = folder / "x.chaos.yaml"
    file.write_text(text)
    return file


def test_torchrun_executes_its_plans_embedded_where_that_is_asked_for(tmp_path: Path) -> None:
    file = loaded(tmp_path, f"{JOB % ''}faults:\n  - kill_worker: {{}}\n    {AT}\n")
    scenario = load_scenario(file)

    plans = [
        make_plan(scenario, file=file, seed=0, cwd=tmp_path, backend=b) for b in ("ray", "fork")
    ]

    assert [plan.backend for plan in plans] == ["torchrun", "fork"]
    assert plans[0].build_baseline_plan().backend == "torchrun"


@pytest.mark.parametrize(
    "fault",
    [
        "exhaust_memory",
        "hang_worker",
        "kill_loader",
        "kill_worker",
        "pause_worker: {for_s: 1}",
        "poison_step",
        "raise_in_worker",
        "slow_worker: {delay_s: 1}",
    ],
)
def test_a_fault_of_a_worker_needs_no_ray(tmp_path: Path, fault: str) -> None:
    kind, _, settings = fault.partition(": ")
    text = f"{JOB % ''}faults:\n  - {AT}\n    {kind}: {settings or '{}'}\n"

    assert load_scenario(loaded(tmp_path, text)).faults[0].kind == kind


@pytest.mark.parametrize("moment", ["saving", "renaming", "validating"])
def test_a_moment_that_an_audit_finds_needs_no_ray(tmp_path: Path, moment: str) -> None:
    fault = f"faults:\n  - at: {{epoch: 0, moment: {moment}, rank: 0}}\n    kill_worker: {{}}\n"

    assert load_scenario(loaded(tmp_path, JOB % "" + fault)).faults


def test_epochs_by_steps_are_for_torchrun_alone(tmp_path: Path) -> None:
    torchruns = load_scenario(loaded(tmp_path, JOB % ", epoch_steps: 5"))
    assert torchruns.job.epoch_steps == 5

    with pytest.raises(ScenarioError, match=r"job.epoch_steps is for jobs without Ray"):
        load_scenario(
            loaded(tmp_path, "scenario: x\njob: {script: job.py, workers: 2, epoch_steps: 5}\n")
        )


@pytest.mark.parametrize(
    ("fault", "instead"), [("disk_full", "fail_save"), ("torn_checkpoint", "kill_worker")]
)
def test_a_fault_of_uploads_is_refused_with_what_strikes_a_file_of_the_jobs_own(
    tmp_path: Path, fault: str, instead: str
) -> None:
    with pytest.raises(ScenarioError, match=f"write {instead} at `moment: saving`"):
        load_scenario(loaded(tmp_path, f"{JOB % ''}faults:\n  - {fault}: {{}}\n    {AT}\n"))


@pytest.mark.parametrize(
    ("job", "rest", "named"),
    [
        ("", f"faults:\n  - kill_node: {{}}\n    {AT}\n", "kill_node"),
        ("", f"faults:\n  - preempt_node: {{notice_s: 1}}\n    {AT}\n", "preempt_node"),
        ("", f"faults:\n  - evict_node: {{}}\n    {AT}\n", "evict_node"),
        ("", f"faults:\n  - fail_upload: {{}}\n    {AT}\n", "fail_upload"),
        ("", f"faults:\n  - exhaust_memory: {{by: raylet}}\n    {AT}\n", "exhaust_memory"),
        ("", f"faults:\n  - kill_worker: {{via: ray}}\n    {AT}\n", "kill_worker"),
        ("", "faults:\n  - kill_worker: {}\n    at: {epoch: 0, moment: reported}\n", "reported"),
        ("", "faults:\n  - kill_worker: {}\n    at: {epoch: 0, moment: committed}\n", "committed"),
        ("", "faults:\n  - kill_worker: {}\n    at: {state: RESTARTING}\n", "RESTARTING"),
        (", min_workers: 1", "", "job.min_workers"),
        (", checkpoint: {num_to_keep: 1}", "", "job.checkpoint"),
        (", fit: 2", "", "job.fit"),
        ("", "cluster: {nodes: 3}\n", "cluster"),
        ("", "watch: {files: false}\n", "watch.files"),
    ],
)
def test_what_needs_ray_train_is_refused_by_name(
    tmp_path: Path, job: str, rest: str, named: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(loaded(tmp_path, JOB % job + rest))

    assert named in str(caught.value)
    assert "torchrun" in str(caught.value)


def test_a_metadata_service_needs_no_ray_and_is_kept_in_the_file_of_its_plan(
    tmp_path: Path,
) -> None:
    file = loaded(tmp_path, f"{JOB % ''}cluster: {{metadata: azure}}\n")
    plan = make_plan(load_scenario(file), file=file, seed=0, cwd=tmp_path)

    assert plan.shape.metadata == "azure"
    assert plan.build_baseline_plan().shape == plan.shape
    assert 'cluster:\n  metadata: "azure"\n' in render_scenario(
        plan, folder=tmp_path, comment=(), expect={}
    )


def test_a_metadata_service_is_for_no_cluster_of_others(tmp_path: Path) -> None:
    text = "scenario: x\njob: {script: job.py, workers: 2}\n"
    file = loaded(tmp_path, f"{text}cluster: {{metadata: aws, address: 'h:1'}}\n")

    with pytest.raises(ScenarioError, match="served on this machine"):
        load_scenario(file)


@pytest.mark.parametrize(
    ("job", "rest", "said"),
    [
        (", restart_args: {resume: latest}", "", "goes with `restart: command`"),
        (", restart: command", "cluster: {nodes: 2}\n", "leave cluster.nodes"),
    ],
)
def test_a_restart_by_the_command_that_makes_no_sense_is_refused(
    tmp_path: Path, job: str, rest: str, said: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(loaded(tmp_path, JOB % job + rest))

    assert said in str(caught.value)


def test_a_train_loop_has_no_command(tmp_path: Path) -> None:
    text = "scenario: x\njob: {train_loop: 'a:b', workers: 1, restart: command}\n"

    with pytest.raises(ScenarioError, match=r"write job\.script"):
        load_scenario(loaded(tmp_path, text))


def test_the_file_of_a_plan_keeps_how_its_command_is_started_again(tmp_path: Path) -> None:
    job = JOB % ", restart: command, restart_args: {resume: latest}"
    file = loaded(tmp_path, job)
    plan = make_plan(load_scenario(file), file=file, seed=0, cwd=tmp_path)

    text = render_scenario(plan, folder=tmp_path, comment=(), expect={})

    assert '"command"\n  restart_args:' in text
    assert '{resume: "latest"}\n' in text
