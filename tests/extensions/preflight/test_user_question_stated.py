"""A job that is said without a file, and what a platform's file says of itself."""

from pathlib import Path
from typing import Any

import pytest

from chaos.errors import UsageError
from chaos.extensions.preflight.answer import answer_question
from chaos.extensions.preflight.forecast import Effort
from chaos.extensions.preflight.load import MarketChoice
from chaos.extensions.preflight.platform_doc import find_template_values
from chaos.extensions.preflight.platform_files import PlatformFile, load_platform_file
from chaos.extensions.preflight.user_question import UserInputs, UserQuestion
from tests.called import chaos
from tests.extensions.preflight.shown import shown

JOB = {"job.nodes": 8, "job.steps": 2000, "job.checkpoint_every_steps": 100, "costs.step_s": 1.0}
CALM = MarketChoice(name="calm-500h")
PYTORCH_JOB = """apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: tagger}
spec:
  elasticPolicy: %s
  pytorchReplicaSpecs:
    Master: {replicas: 1, template: {spec: {}}}
    Worker: {replicas: 4, template: {spec: {}}}
"""
HELM = """apiVersion: ray.io/v1
kind: RayJob
metadata: {name: {{ .Values.name }}}
spec:
  rayClusterSpec:
    workerGroupSpecs:
    - groupName: w
      replicas: {{ .Values.replicas }}
      template: {spec: {containers: []}}
"""


def stated(**more: Any) -> UserQuestion:
    values = JOB | {name.replace("__", "."): value for name, value in more.items()}
    return UserInputs(None, CALM, values=values).build_question()


def told(folder: Path, text: str) -> PlatformFile:
    (folder / "job.yaml").write_text(text, encoding="utf-8")
    found = load_platform_file(folder / "job.yaml")
    assert found is not None
    return found


def test_a_job_that_is_said_whole_needs_no_file(tmp_path: Path) -> None:
    words = [word for name, value in JOB.items() for word in ("--set", f"{name}={value}")]

    words += ["--market", "calm-500h", "--simulations", "200"]
    done = chaos("preflight", *words, folder=tmp_path)

    assert done.code in (0, 1, 2, 5)
    assert "no job is given" not in done.err
    assert "launcher is not given" in " ".join(done.out.split())


@pytest.mark.parametrize("key", JOB)
def test_of_a_job_that_lacks_something_exactly_that_is_named(key: str, tmp_path: Path) -> None:
    words = [
        word for name, value in JOB.items() if name != key for word in ("--set", f"{name}={value}")
    ]

    done = chaos("preflight", "--market", "calm-500h", *words, folder=tmp_path)

    assert done.code == 3
    assert f"Say --set {key}=N." in " ".join(done.err.split())


@pytest.mark.parametrize("words", [(), ("--market", "calm-500h"), ("--calibrate",)])
def test_without_any_of_it_no_job_is_given(words: tuple[str, ...], tmp_path: Path) -> None:
    done = chaos("preflight", *words, folder=tmp_path)

    assert done.code == 3
    assert "no job is given" in done.err


def test_the_launcher_is_the_one_that_the_settings_are_of() -> None:
    assert stated().question.settings.launcher == "ray"
    assert stated(settings__max_failures=3).question.settings.launcher == "ray"
    assert stated(settings__job_retries=3).question.settings.launcher == "torchrun"
    assert stated(settings__launcher="torchrun").question.settings.launcher == "torchrun"
    assert any("as job_retries says" in note for note in stated(settings__job_retries=3).notes)
    with pytest.raises(UsageError, match="one of ray, torchrun, got mpi"):
        stated(settings__launcher="mpi")


def test_what_was_not_said_of_costs_is_a_range_and_parts_of_a_restart_are_none() -> None:
    plain, parts = stated(), stated(costs__save_s=3, costs__start_s=40)

    assert set(plain.question.between) == {"save_s", "restart_s"}
    assert parts.question.between == {}
    assert parts.question.required_costs.restart_s == 40
    assert any("costs.restart_s was not said" in note for note in plain.notes)
    assert not any("costs.restart_s was not said" in note for note in parts.notes)


def test_a_log_alone_is_the_job(tmp_path: Path) -> None:
    done = chaos("preflight", "--costs", "missing.log", folder=tmp_path)

    assert done.code == 3
    assert "there is no such file" in done.err


# -- a platform's file ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy",
    [
        "{maxRestarts: 10, rdzvBackend: c10d}",
        "{maxRestarts: 10}",  # the operator takes c10d
        "{maxRestarts: 10, rdzvBackend: etcd, rdzvConf: [{key: join_timeout, value: '900'}]}",
    ],
)
def test_an_elastic_policy_is_torchruns(policy: str, tmp_path: Path) -> None:
    found = told(tmp_path, PYTORCH_JOB % policy)
    asked = UserInputs(tmp_path / "job.yaml", CALM, values=JOB).build_question()

    assert found.launcher == "torchrun"
    assert asked.question.torchrun.agents
    assert asked.question.torchrun.max_restarts == 10
    assert asked.question.torchrun.join_timeout_s == (900 if "etcd" in policy else 600)
    assert not any("neither torchrun nor Ray" in note for note in asked.notes)


def test_a_pytorch_job_without_a_policy_is_still_a_command(tmp_path: Path) -> None:
    text = PYTORCH_JOB.replace("  elasticPolicy: %s\n", "")

    assert told(tmp_path, text).launcher is None


def test_a_default_that_each_role_has_is_said_once(tmp_path: Path) -> None:
    notes = told(tmp_path, PYTORCH_JOB % "{}").notes

    assert len([note for note in notes if note.endswith("SIGKILL, the default")]) == 1


SKYPILOT = """num_nodes: 2
resources: {use_spot: true}
setup: docker inspect --format '{{.State.Status}}' a
envs:
  TEAM: {{ team }}
run: |
  docker inspect --format '{{.State.Status}}' a

  torchrun --max-restarts 3 train.py
"""
JOB_WITH_ARGS = """apiVersion: batch/v1
kind: Job
metadata: {name: a, labels: {team: {{ team }}}}
spec:
  template:
    spec:
      containers:
      - command:
        - docker
        - inspect
        - --format={{.State.Status}}
        name: b
      - args: [inspect,
          "--format={{.State.Status}}"]
        env:
        - name: TEXT
          value: >-
            {{ .Names }}
        image: {{ image }}
"""


@pytest.mark.parametrize(
    ("text", "names"), [(SKYPILOT, ["TEAM"]), (JOB_WITH_ARGS, ["team", "image"])]
)
def test_braces_in_a_command_or_a_block_of_text_are_no_template(
    text: str, names: list[str]
) -> None:
    found = [value.description.split(" is ")[0] for value in find_template_values(text, 0)]

    assert found == names


def test_a_value_is_unfilled_by_its_kind_and_not_by_its_words(tmp_path: Path) -> None:
    (tmp_path / "a.sbatch").write_text(
        "#!/bin/bash\n#SBATCH --nodes=2 --comment=to_be_filled_in\n"
        "docker inspect --format '{{.State.Status}}' a\n",
        "utf-8",
    )
    found = load_platform_file(tmp_path / "a.sbatch")

    assert found is not None
    assert found.unfilled == ()


def test_what_a_template_leaves_open_is_named(tmp_path: Path) -> None:
    found = told(tmp_path, HELM)

    name, replicas = found.unfilled
    assert name.startswith("name is {{ .Values.name }}")
    assert replicas.startswith("replicas is {{ .Values")
    assert any(note.startswith(f"{found.path}:8: replicas") for note in found.notes)
    with pytest.raises(UsageError) as raised:
        UserInputs(
            tmp_path / "job.yaml", CALM, values={"costs.step_s": 1.0, "job.steps": 10}
        ).build_question()
    assert replicas in str(raised.value)


def test_the_title_has_the_name_of_the_job_and_no_folder(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(PYTORCH_JOB % "{maxRestarts: 2}", encoding="utf-8")
    (tmp_path / "train.sbatch").write_text(
        "#!/bin/bash\n#SBATCH --nodes=2 --job-name=night\ntorchrun train.py\n", encoding="utf-8"
    )

    titles = [
        UserInputs(tmp_path / name, CALM, values=JOB).build_question().question.preflight
        for name in ("job.yaml", "train.sbatch")
    ]

    assert titles == ["the job tagger of job.yaml", "the job night of train.sbatch"]


# -- restarts above ten --------------------------------------------------------------------------


def test_more_than_ten_restarts_are_advised_as_without_limit() -> None:
    busy = {"settings__launcher": "torchrun", "costs__save_s": 5, "costs__restart_s": 60}
    asked = stated(
        **busy, job__steps=80_000, job__on_demand_nodes=1, market__lifetime__mtbf_h=20.0
    ).question

    answer = answer_question(asked, Effort(runs=400, jobs=1))

    assert answer.changes["settings.max_restarts"] == -1
    text = " ".join(shown(answer).split())
    assert answer.counsel is not None
    budgets = [row.what for row in answer.counsel.settings if "max_restarts" in row.what]
    assert budgets[0].startswith("max_restarts without limit (")
    assert "torchrun takes no -1" in text


def test_ten_or_fewer_are_advised_as_a_number() -> None:
    answer = answer_question(
        stated(
            settings__launcher="torchrun", costs__save_s=5, costs__restart_s=60, job__steps=20_000
        ).question,
        Effort(runs=400, jobs=1),
    )

    assert 0 < answer.changes["settings.job_retries"] <= 10


def test_a_rule_does_not_call_wrong_what_was_advised() -> None:
    asked = stated(
        costs__save_s=5,
        costs__restart_s=60,
        job__steps=80_000,
        market__lifetime__mtbf_h=20.0,
        market__notice__seconds=0.0,
        settings__storage_path="s3://b/r",
        settings__run_name="a",
    ).question

    answer = answer_question(asked, Effort(runs=400, jobs=1))

    assert answer.changes["settings.max_failures"] == -1
    assert "endless-retries" not in {finding.rule for finding in answer.findings_after}
