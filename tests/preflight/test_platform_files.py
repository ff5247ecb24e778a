"""The settings of a job in its platform's files: what is taken, each with its line."""

import json
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.check.analysis import RunAnalysis
from chaos.errors import UsageError
from chaos.model import event as ev
from chaos.model.history import History
from chaos.preflight.asked import of_platform
from chaos.preflight.load import question_of_runs
from chaos.preflight.market import preset
from chaos.preflight.platform_files import PlatformFile, read_platform
from tests.called import chaos
from tests.check.parts import KILLED
from tests.check.tamper import analysis_of

RAY_JOB = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: code}
---
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: train}
spec:
  entrypoint: python train.py
  backoffLimit: 2
  activeDeadlineSeconds: 86400
  rayClusterSpec:
    enableInTreeAutoscaling: true
    headGroupSpec:
      template:
        spec:
          nodeSelector: {cloud.google.com/gke-spot: "true"}
    workerGroupSpecs:
      - groupName: gpu
        replicas: 8
        minReplicas: 4
        maxReplicas: 12
        template:
          spec:
            terminationGracePeriodSeconds: 45
            tolerations: [{key: kubernetes.azure.com/scalesetpriority, value: spot}]
"""
PYTORCH_JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
spec:
  runPolicy: {backoffLimit: 3, activeDeadlineSeconds: 3600}
  elasticPolicy: {minReplicas: 2, maxReplicas: 5, maxRestarts: 10}
  pytorchReplicaSpecs:
    Master: {replicas: 1, template: {spec: {}}}
    Worker:
      replicas: 4
      template: {spec: {}}
"""
SKY = """\
num_nodes: 4
resources:
  any_of: [{use_spot: true}, {use_spot: false}]
  job_recovery: EAGER_NEXT_REGION
file_mounts:
  /code: ./code
  /ckpt: {name: b, mode: MOUNT_CACHED}
run: torchrun train.py
"""
SBATCH = """\
#!/bin/bash
#SBATCH -N 4-8
#SBATCH --time=1-12:30:00
#SBATCH --signal=B:USR1@120
srun python train.py
"""


def told(tmp_path: Path, text: str, name: str = "job.yaml") -> PlatformFile:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    found = read_platform(file)
    assert found is not None
    return found


def said(found: PlatformFile) -> dict[str, int]:
    return {one.words: one.line for one in found.taken}


def test_a_ray_job_is_found_among_documents_and_read_with_its_lines(tmp_path: Path) -> None:
    found = told(tmp_path, RAY_JOB)

    assert found.kind == "a RayJob"
    assert found.values == {
        "settings.pod_grace_s": 45,
        "job.nodes": 8,
        "job.nodes_max": 12,
        "settings.head_on_spot": True,
        "goal.deadline_h": 24.0,
    }
    lines = said(found)
    assert lines["45 s from SIGTERM to SIGKILL (terminationGracePeriodSeconds)"] == 25
    assert lines["it asks for spot nodes, or tolerates their taint"] == 24
    assert lines["2 more clusters after one that failed (backoffLimit)"] == 10
    assert lines["the autoscaler keeps 4 (minReplicas)"] == 18


def test_a_pytorch_job_counts_its_pods_and_has_the_default_grace(tmp_path: Path) -> None:
    found = told(tmp_path, PYTORCH_JOB)

    assert found.values == {
        "settings.pod_grace_s": 30,
        "settings.max_restarts": 10,
        "settings.job_retries": 0,
        "job.nodes": 5,
        "job.min_nodes": 2,
        "goal.deadline_h": 1.0,
    }
    words = "3 pods that failed are replaced (backoffLimit): 0 times all 5"
    assert said(found)[words] == 4


def test_a_train_job_and_a_cluster_say_their_nodes(tmp_path: Path) -> None:
    train = "kind: TrainJob\nspec:\n  trainer: {numNodes: 3}\n"
    cluster = "kind: RayCluster\nspec:\n  workerGroupSpecs: [{replicas: 2}, {replicas: 1}]\n"

    assert told(tmp_path, train).values == {"job.nodes": 3}
    assert told(tmp_path, cluster).values["job.nodes"] == 3


def test_a_task_of_skypilot_says_its_nodes_market_and_buckets(tmp_path: Path) -> None:
    found = told(tmp_path, SKY)

    assert found.values == {"job.nodes": 4, "settings.job_retries": -1}
    lines = said(found)
    assert lines["spot or on-demand nodes (use_spot)"] == 2
    assert lines["job_recovery: EAGER_NEXT_REGION"] == 4
    assert any(words.startswith("/ckpt is a bucket (MOUNT_CACHED)") for words in lines)


def test_a_header_of_sbatch_is_read_and_what_it_lacks_is_said(tmp_path: Path) -> None:
    found = told(tmp_path, SBATCH, "train.sh")

    assert found.values == {"job.nodes": 4}
    lines = said(found)
    assert lines["each start is ended after 36.5 h (--time)"] == 3
    assert lines["a signal before its end (--signal=B:USR1@120)"] == 4
    assert any(words.startswith("--requeue is missing") for words in lines)
    requeued = told(
        tmp_path, SBATCH.replace("-N 4-8", "--requeue\n#SBATCH --open-mode=append"), "a.sh"
    )
    assert "it is queued again (--requeue)" in said(requeued)
    assert not any("written anew" in words for words in said(requeued))


@pytest.mark.parametrize(
    ("limit", "hours"),
    [("30", 0.5), ("10:30", 0.175), ("2:00:00", 2.0), ("1-6", 30.0), ("0-1:30", 1.5)],
)
def test_each_form_of_a_time_limit_is_read(tmp_path: Path, limit: str, hours: float) -> None:
    found = told(tmp_path, f"#!/bin/sh\n#SBATCH -t {limit}\n", "a.sbatch")

    (value,) = (one.value for one in found.taken if "(--time)" in one.words)
    assert value == pytest.approx(hours)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "scenario: x\njob: {script: a.py}\n"),
        ("b.yaml", "- 1\n- 2\n"),
        ("c.yaml", "kind: Deployment\nspec: {}\n"),
        ("d.py", "kind: RayJob\n"),
        ("e.sh", "echo hello\n"),
    ],
)
def test_a_file_of_another_kind_is_none(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")

    assert read_platform(file) is None


def test_a_yaml_that_cannot_be_read_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("a: 1\n---\nkind: RayJob\nspec: {a: [}\n", encoding="utf-8")

    with pytest.raises(UsageError) as raised:
        read_platform(file)

    assert raised.value.place == f"{file}:4"


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda of: (
            st.lists(of)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "spec",
                        "rayClusterSpec",
                        "workerGroupSpecs",
                        "replicas",
                        "template",
                        "tolerations",
                        "nodeSelector",
                        "resources",
                        "any_of",
                        "file_mounts",
                        "trainer",
                        "pytorchReplicaSpecs",
                        "Worker",
                    ]
                ),
                of,
            )
        ),
    )
)
def test_whatever_stands_in_a_known_kind_is_read_without_an_error(content: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("RayJob", "RayCluster", "PyTorchJob", "TrainJob", None):
            file = Path(folder, "job.yaml")
            head = (
                {"kind": kind, "spec": content}
                if kind
                else {"run": "x", "resources": content, "file_mounts": content}
            )
            file.write_text(json.dumps(head), encoding="utf-8")
            read_platform(file)


def test_without_costs_the_file_is_named_with_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(RAY_JOB, encoding="utf-8")
    (tmp_path / "other.yaml").write_text("a: 1\n", encoding="utf-8")

    named = chaos("preflight", "job.yaml", folder=tmp_path)
    other = chaos("preflight", "other.yaml", folder=tmp_path)

    assert (named.code, other.code) == (3, 3)
    assert "It is a RayJob, which says: 45 s from SIGTERM" in named.err
    assert "none of the files of platforms that chaos reads" in other.err


def started_by(trainer: str) -> list[RunAnalysis]:
    called = ev.FitCalled(
        trainer=trainer, workers=2, run_name="r", storage_path="", settings={}, replaced={}
    )
    told = analysis_of(KILLED)
    histories = []
    for history in (told.history, told.baseline):
        assert history is not None
        entries = [*history]
        entries.insert(1, msgspec.structs.replace(entries[0], what=called))
        histories.append(History(entries))
    return [RunAnalysis(told.plan, *histories)]


def test_a_pytorch_job_is_a_question_with_torchruns_settings(tmp_path: Path) -> None:
    measured = question_of_runs(started_by("torchrun"), source="runs", market=preset("busy-16h"))

    question, _ = of_platform(measured, told(tmp_path, PYTORCH_JOB), "runs")

    assert question.torchrun.max_restarts == 10
    assert question.torchrun.job_retries == 0  # three pods of five
    assert question.job.nodes == 5


def test_a_plain_command_has_no_settings_that_a_forecast_knows() -> None:
    with pytest.raises(UsageError, match="the command started this job, and its settings"):
        question_of_runs(started_by("python"), source="a folder", market=preset("busy-16h"))


def test_with_the_costs_of_runs_it_is_a_question(tmp_path: Path) -> None:
    runs = started_by("TorchTrainer")

    found = told(tmp_path, RAY_JOB)
    measured = question_of_runs(runs, source="a folder", market=preset("busy-16h"))
    question, notes = of_platform(measured, found, "a folder")

    assert (question.job.nodes, question.job.nodes_max) == (8, 12)
    assert question.ray.pod_grace_s == 45
    assert question.goal.deadline_h == 24
    assert question.costs is not None
    assert any(
        note.endswith("job.yaml:25: 45 s from SIGTERM to SIGKILL (terminationGracePeriodSeconds)")
        for note in notes
    )
    assert "length and costs are those of a folder" in notes[-1]
