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
from chaos.extensions.preflight.load import build_run_question
from chaos.extensions.preflight.market import find_preset
from chaos.extensions.preflight.platform_files import PlatformFile, load_platform_file
from chaos.extensions.preflight.user_question import apply_platform_file
from chaos.model import event as ev
from chaos.model.history import History
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
    found = load_platform_file(file)
    assert found is not None
    return found


def said(found: PlatformFile) -> dict[str, int]:
    return {one.description: one.line for one in found.taken}


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

    assert found.values == {
        "job.nodes": 4,
        "settings.start_limit_h": 36.5,
        "settings.limit_signal_s": 120,
    }
    lines = said(found)
    assert lines["each start is ended after 36.5 h (--time)"] == 3
    assert any(words.endswith("(--signal=B:USR1@120)") and n == 4 for words, n in lines.items())
    assert any(words.startswith("--requeue is missing") for words in lines)
    requeued = told(
        tmp_path, SBATCH.replace("-N 4-8", "--requeue\n#SBATCH --open-mode=append"), "a.sh"
    )
    assert "it is queued again (--requeue)" in said(requeued)
    assert not any("written anew" in words for words in said(requeued))
    truncated = said(told(tmp_path, SBATCH.replace("-N 4-8", "--open-mode=truncate"), "b.sh"))
    assert "its output is written anew at each start (--open-mode)" in truncated


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("-t 60\n#SBATCH --signal=B:USR1@90", 90),
        ("-t 60\n#SBATCH --signal=USR1", 60),
        ("-t 60\n#SBATCH --signal=USR1@$GRACE", None),
        ("--signal=USR1@90", None),  # of a limit that the partition has
    ],
)
def test_the_time_of_a_signal_before_the_limit_is_read(
    tmp_path: Path, header: str, seconds: int | None
) -> None:
    found = told(tmp_path, f"#!/bin/sh\n#SBATCH {header}\n", "a.sbatch")

    assert found.values.get("settings.limit_signal_s") == seconds


@pytest.mark.parametrize(
    ("limit", "hours"),
    [("30", 0.5), ("10:30", 0.175), ("2:00:00", 2.0), ("1-6", 30.0), ("0-1:30", 1.5)],
)
def test_each_form_of_a_time_limit_is_read(tmp_path: Path, limit: str, hours: float) -> None:
    found = told(tmp_path, f"#!/bin/sh\n#SBATCH -t {limit}\n", "a.sbatch")

    (value,) = (one.value for one in found.taken if "(--time)" in one.description)
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

    assert load_platform_file(file) is None


def test_a_yaml_that_cannot_be_read_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("a: 1\n---\nkind: RayJob\nspec: {a: [}\n", encoding="utf-8")

    with pytest.raises(UsageError) as raised:
        load_platform_file(file)

    assert raised.value.location == f"{file}:4"


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
            load_platform_file(file)


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
        trainer=trainer, workers=2, run_name="r", storage_path="", settings={}, original_settings={}
    )
    told = analysis_of(KILLED)
    histories = []
    for history in (told.history, told.baseline):
        assert history is not None
        entries = [*history]
        entries.insert(1, msgspec.structs.replace(entries[0], event=called))
        histories.append(History(entries))
    return [RunAnalysis(told.plan, *histories)]


def test_a_pytorch_job_is_a_question_with_torchruns_settings(tmp_path: Path) -> None:
    measured = build_run_question(
        started_by("torchrun"), source="runs", market=find_preset("busy-16h")
    )

    question, _ = apply_platform_file(measured, told(tmp_path, PYTORCH_JOB), "runs")

    assert question.torchrun.max_restarts == 10
    assert question.torchrun.job_retries == 0  # three pods of five
    assert question.job.nodes == 5


def test_a_plain_command_has_no_settings_that_a_forecast_knows() -> None:
    with pytest.raises(UsageError, match="the command started this job, and its settings"):
        build_run_question(started_by("python"), source="a folder", market=find_preset("busy-16h"))


def test_with_the_costs_of_runs_it_is_a_question(tmp_path: Path) -> None:
    runs = started_by("TorchTrainer")

    found = told(tmp_path, RAY_JOB)
    measured = build_run_question(runs, source="a folder", market=find_preset("busy-16h"))
    question, notes = apply_platform_file(measured, found, "a folder")

    assert (question.job.nodes, question.job.nodes_max) == (8, 12)
    assert question.ray.pod_grace_s == 45
    assert question.goal.deadline_h == 24
    assert question.costs is not None
    assert any(
        note.endswith("job.yaml:25: 45 s from SIGTERM to SIGKILL (terminationGracePeriodSeconds)")
        for note in notes
    )
    assert "length and costs are those of a folder" in notes[-1]


# -- the kinds of further platforms --------------------------------------------------------------

FURTHER: dict[str, tuple[str, str, dict[str, object]]] = {
    "Job": (
        (
            "apiVersion: batch/v1\n"
            "kind: Job\n"
            "spec:\n"
            "  parallelism: 2\n"
            "  completions: 2\n"
            "  backoffLimit: 4\n"
            "  suspend: true\n"
            "  template:\n"
            "    spec:\n"
            "      terminationGracePeriodSeconds: 600\n"
            "      tolerations: [{key: on-demand, value: 'true'}]\n"
            "      containers: [{command: [accelerate launch a.py]}]\n"
        ),
        "a Job of Kubernetes",
        {"job.nodes": 2, "settings.job_retries": 2, "settings.pod_grace_s": 600},
    ),
    "Job without numbers": (
        (
            "apiVersion: batch/v1\n"
            "kind: Job\n"
            "spec:\n"
            "  template:\n"
            "    spec:\n"
            "      nodeSelector: {cloud.google.com/gke-spot: 'true'}\n"
        ),
        "a Job of Kubernetes",
        {"job.nodes": 1, "settings.job_retries": 6, "settings.pod_grace_s": 30},
    ),
    "MPIJob": (
        (
            "apiVersion: kubeflow.org/v2beta1\n"
            "kind: MPIJob\n"
            "spec:\n"
            "  runPolicy: {backoffLimit: 20}\n"
            "  mpiReplicaSpecs:\n"
            "    Launcher: {replicas: 1}\n"
            "    Worker: {replicas: 4}\n"
        ),
        "an MPIJob",
        {"job.nodes": 4, "settings.job_retries": 5, "settings.pod_grace_s": 30},
    ),
    "JobSet": (
        (
            "apiVersion: jobset.x-k8s.io/v1alpha2\n"
            "kind: JobSet\n"
            "spec:\n"
            "  failurePolicy: {maxRestarts: 3}\n"
            "  replicatedJobs:\n"
            "    - {replicas: 2, template: {spec: {parallelism: 16, completions: 16}}}\n"
        ),
        "a JobSet",
        {"job.nodes": 32, "settings.job_retries": 3, "settings.pod_grace_s": 30},
    ),
    "Volcano": (
        (
            "apiVersion: batch.volcano.sh/v1alpha1\n"
            "kind: Job\n"
            "spec:\n"
            "  tasks: [{replicas: 1, name: master}, {replicas: 3, name: worker}]\n"
        ),
        "a Job of Volcano",
        {"job.nodes": 4, "settings.job_retries": 3, "settings.pod_grace_s": 30},
    ),
    "ray up": (
        (
            "cluster_name: a\n"
            "head_node_type: head\n"
            "max_workers: 6\n"
            "available_node_types:\n"
            "  head: {node_config: {}}\n"
            "  gpu:\n"
            "    min_workers: 2\n"
            "    max_workers: 8\n"
            "    node_config: {InstanceMarketOptions: {MarketType: spot}}\n"
        ),
        "a file for `ray up`",
        {"job.nodes": 2, "job.nodes_max": 6},
    ),
    "Anyscale": (
        (
            "entrypoint: python a.py\n"
            "max_retries: 2\n"
            "compute_config:\n"
            "  head_node: {instance_type: m}\n"
            "  worker_nodes: [{min_nodes: 2, max_nodes: 4, market_type: PREFER_SPOT}]\n"
        ),
        "a job or a compute configuration of Anyscale",
        {"job.nodes": 2, "job.nodes_max": 4},
    ),
    "dstack": (
        (
            "type: task\n"
            "nodes: 2\n"
            "commands: [torchrun --nnodes=2 --max-restarts=5 a.py]\n"
            "spot_policy: auto\n"
            "retry: {on_events: [interruption], duration: 4h}\n"
        ),
        "a task of dstack",
        {"job.nodes": 2, "settings.max_restarts": 5, "settings.job_retries": -1},
    ),
    "Determined": (
        (
            "entrypoint: python a.py\n"
            "searcher: {name: single}\n"
            "resources: {slots_per_trial: 16}\n"
            "max_restarts: 0\n"
        ),
        "an experiment of Determined",
        {"settings.job_retries": 0},
    ),
    "submitit": (
        (
            "defaults:\n"
            "  - override /hydra/launcher: submitit_slurm\n"
            "hydra:\n"
            "  launcher: {nodes: 4, timeout_min: 1440, max_num_timeout: 3}\n"
        ),
        "the settings of hydra's submitit launcher",
        {"job.nodes": 4, "settings.start_limit_h": 24.0, "settings.limit_requeues": 3},
    ),
    "Helm values": (
        (
            "head: {rayVersion: 2.60.0}\n"
            "worker: {replicas: 1, maxReplicas: 5}\n"
            "additionalWorkerGroups: {small: {disabled: true, replicas: 3}}\n"
        ),
        "the values of KubeRay's Helm chart",
        {"job.nodes": 1, "settings.pod_grace_s": 30},
    ),
}


@pytest.mark.parametrize("name", FURTHER)
def test_further_platforms_are_read(tmp_path: Path, name: str) -> None:
    text, kind, values = FURTHER[name]

    found = told(tmp_path, text)

    assert (found.kind, found.values) == (kind, values)
    lines = text.count("\n")
    assert all(1 <= one.line <= lines for one in found.taken)


def test_a_toleration_of_nodes_on_demand_is_none_of_spot(tmp_path: Path) -> None:
    words = {
        name: said(told(tmp_path, FURTHER[name][0])) for name in ("Job", "Job without numbers")
    }

    spot = "it asks for spot nodes, or tolerates their taint"
    assert spot not in words["Job"]
    assert spot in words["Job without numbers"]


def test_a_number_that_is_to_be_filled_in_is_missing(tmp_path: Path) -> None:
    text = (
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec:\n"
        "  elasticPolicy: {minReplicas: 1, maxReplicas: 64, maxRestarts: 100}\n"
        "  pytorchReplicaSpecs:\n    Worker:\n      replicas: $NUM_NODES\n"
        "      template: {spec: {containers: [{command: [torchrun, --nnodes=$NUM_NODES]}]}}\n"
    )

    found = told(tmp_path, text)

    assert "job.nodes" not in found.values
    assert "job.min_nodes" not in found.values  # the command says one number of nodes
    lines = said(found)
    assert lines["job.nodes is missing: replicas is $NUM_NODES, to be filled in"] == 7


def test_a_torchxconfig_is_known_without_an_ending(tmp_path: Path) -> None:
    text = "[dist.ddp]\nj = 2:4x8\nmax_retries = 3\n\n[kubernetes]\nqueue = a\n"

    found = told(tmp_path, text, ".torchxconfig")

    assert found.kind == "a .torchxconfig"
    assert found.values == {"job.nodes": 4, "job.min_nodes": 2, "settings.job_retries": 3}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "on: [push]\nname: a\njobs: {a: {steps: [{run: train --preemptible}]}}\n",
            "a workflow of",
        ),
        ("services: {a: {image: b, deploy: {replicas: 3}}}\n", "a file of Docker Compose"),
        ("AWSTemplateFormatVersion: '2010-09-09'\nA: !Ref B\n", "a template of CloudFormation"),
        ("apiVersion: v1\nkind: Service\nspec: {}\n", r"a Service \(v1\)"),
        ("a: 1\nreplicas: {{- .Values.n }}\n", "a template of Helm"),
    ],
)
def test_what_is_no_job_is_named_for_what_it_is(tmp_path: Path, text: str, name: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(UsageError, match=f"it is {name}.* of which chaos reads nothing"):
        load_platform_file(file)


def test_the_command_of_a_script_for_sbatch_has_torchruns_settings(tmp_path: Path) -> None:
    text = (
        "#!/bin/sh\n#SBATCH -N 4\n# torchrun --max-restarts 9\n"
        "srun torchrun --nnodes 2:4 --max-restarts=${RESTARTS:-7} "
        "--rdzv-conf join_timeout=900 a.py\n"
    )

    found = told(tmp_path, text, "train.sbatch")

    assert found.launcher == "torchrun"
    assert found.values == {
        "job.min_nodes": 2,
        "settings.max_restarts": 7,
        "settings.join_timeout_s": 900.0,
        "job.nodes": 4,
    }


def test_with_a_log_of_a_run_it_is_a_question(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(FURTHER["dstack"][0], encoding="utf-8")
    steps = "".join(f"2026-11-20 10:00:{n:02} step {n}/2000\n" for n in range(0, 60, 10))
    (tmp_path / "train.log").write_text(steps, encoding="utf-8")
    words = ("preflight", "job.yaml", "--costs", "train.log", "--simulations", "100")

    lacks = chaos(*words, folder=tmp_path)
    whole = chaos(*words, "--set", "job.checkpoint_every_steps=100", folder=tmp_path)

    assert lacks.code == 3
    assert "neither this file nor a log says the steps between two checkpoints" in lacks.err
    assert "--set job.checkpoint_every_steps=N" in lacks.err
    assert whole.code in (0, 1, 2, 5)
    one_line = " ".join(whole.out.split())
    assert "train.log:6: a step takes 1 s" in one_line
    assert "what a restart takes is not in it: 60 to 900 s are assumed" in one_line
    assert "job.yaml:3: torchrun starts its workers again 5 times (--max-restarts)" in one_line


def test_a_script_that_starts_a_job_elsewhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "spot.py").write_text("from sagemaker.pytorch import PyTorch\n", encoding="utf-8")

    done = chaos("preflight", "spot.py", folder=tmp_path)

    assert done.code == 3
    assert "a script that starts a job of SageMaker" in done.err


@pytest.mark.parametrize(
    ("header", "nodes", "hours", "requeued"),
    [
        ("#SBATCH -N4\n#SBATCH -t1:00:00\n", 4, 1.0, None),
        ("#SBATCH --nodes=4 --ntasks-per-node=8 --requeue --time=24:00:00\n", 4, 24.0, -1),
        ("#SBATCH --nodes 2-4 # as many\n#SBATCH --no-requeue\n", 2, None, 0),
        ('#SBATCH --job-name="a b" -N 3\n', 3, None, None),
    ],
)
def test_a_header_is_read_in_each_of_its_forms(
    tmp_path: Path, header: str, nodes: int, hours: float | None, requeued: int | None
) -> None:
    found = told(tmp_path, f"#!/bin/sh\n{header}srun python a.py\n", "a.sbatch")

    assert found.values["job.nodes"] == nodes
    assert found.values.get("settings.job_retries") == requeued
    limits = [one.value for one in found.taken if "(--time)" in one.description]
    assert limits == ([] if hours is None else [hours])


LISTED = ("torchrun", "--nnodes", "'2:4'", "--max-restarts", "'3'", "")


@pytest.mark.parametrize(
    "command",
    [
        '["torchrun", "--nnodes=2:4", "--max-restarts=3", "a.py"]',
        "[torchrun, --nnodes, '2:4', --max-restarts, '3', a.py]",
        "\n".join(("", *(f"        - {one}" for one in LISTED))),
    ],
)
def test_a_command_that_is_a_list_is_read(tmp_path: Path, command: str) -> None:
    text = (
        "apiVersion: batch/v1\nkind: Job\nspec:\n  parallelism: 4\n  template:\n    spec:\n"
        f"      containers:\n      - command: {command}\n"
    )

    found = told(tmp_path, text)

    assert (found.values["settings.max_restarts"], found.values["job.min_nodes"]) == (3, 2)
    assert found.launcher == "torchrun"


def test_of_several_jobs_the_largest_is_read_and_the_others_are_named(tmp_path: Path) -> None:
    text = f"{FURTHER['Job without numbers'][0]}---\n{FURTHER['JobSet'][0]}"

    found = told(tmp_path, text)

    assert (found.kind, found.values["job.nodes"]) == ("a JobSet", 32)
    assert said(found)["a Job of Kubernetes is in the file as well, and left alone"] == 1


def test_of_several_groups_the_shortest_grace_counts_and_a_toleration_is_no_wish(
    tmp_path: Path,
) -> None:
    text = (
        "kind: RayCluster\nspec:\n  headGroupSpec:\n    template:\n      spec:\n"
        "        nodeSelector: {pool: on-demand}\n"
        "        tolerations: [{key: spot, value: 'true'}]\n"
        "  workerGroupSpecs:\n"
        "    - {replicas: 1, template: {spec: {terminationGracePeriodSeconds: 600}}}\n"
        "    - {replicas: 2, template: {spec: {nodeSelector: {lifecycle: non-spot}}}}\n"
    )

    found = told(tmp_path, text)

    assert found.values == {"settings.pod_grace_s": 30, "job.nodes": 3}
    assert not any("spot" in words for words in said(found))


def test_a_run_that_is_no_text_is_no_task(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    for text in ("run: {name: exp1}\n", "run: python a.py\n"):
        file.write_text(text, encoding="utf-8")
        assert load_platform_file(file) is None


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--costs", "nope.log"), "nope.log: there is no such file or folder"),
        (("--costs", "a.log", "--set", "job.steps=abc"), "job.steps: Input should be a valid"),
        (("--costs", "a.log", "--set", "costs.restart_s=[]"), "costs.restart_s is one number"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(
    tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    (tmp_path / "job.yaml").write_text(RAY_JOB, encoding="utf-8")
    (tmp_path / "a.log").write_text("00:00:01 step 1/90\n00:00:02 step 2/90\n", encoding="utf-8")

    done = chaos(
        "preflight",
        "job.yaml",
        *words,
        "--set",
        "job.checkpoint_every_steps=9",
        folder=tmp_path,
    )

    assert done.code == 3
    assert problem in done.err
    assert "Traceback" not in done.err


def test_a_command_without_torchrun_has_no_agents_and_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(FURTHER["MPIJob"][0], encoding="utf-8")
    (tmp_path / "a.log").write_text("00:00:01 step 1/90\n00:00:02 step 2/90\n", encoding="utf-8")

    done = chaos(
        "preflight",
        *("job.yaml", "--costs", "a.log", "--simulations", "100"),
        *("--set", "job.checkpoint_every_steps=9", "--set", "settings.job_retries=0"),
        folder=tmp_path,
    )

    told = " ".join(done.out.split())
    assert "neither torchrun nor Ray is named in it: read as a command that any loss ends" in told
    assert "rendezvous" not in told
    assert "max_restarts" not in told
