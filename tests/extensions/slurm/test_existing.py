"""A Slurm that is somebody else's: one job of the run's own there, and nothing of others."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaos.errors import ClusterError, HarnessError, JobError
from chaos.extensions.sbatch_header import SbatchOption
from chaos.extensions.slurm import ending, existing
from chaos.extensions.slurm.client import JobState
from chaos.extensions.slurm.cluster import SlurmCluster
from chaos.extensions.slurm.existing import ExistingSlurm
from chaos.run.clock import SystemClock, await_condition
from tests.called import Done
from tests.called import chaos as called
from tests.extensions.slurm.conftest import ROOT

STATE = JobState("RUNNING", restarts=0, is_preempted=False, code=0, signal=0)
NODES = """\
NodeName=gpu01 NodeAddr=10.0.0.1 NodeHostName=gpu01 CPUTot=64 State=IDLE Partitions=gpu,all
NodeName=gpu02 NodeAddr=10.0.0.2 NodeHostName=gpu02.site CPUTot=64 State=IDLE Partitions=all
"""
PARTITIONS = """\
PartitionName=gpu AllowGroups=ALL Default=NO Nodes=gpu01
PartitionName=all AllowGroups=ALL Default=YES Nodes=gpu[01-02]
"""
SHOWN = "JobId=7 JobName=x UserId=ann({uid}) GroupId=ann(9) JobState=RUNNING Comment={comment}  X=1"


def of(script: Path, token: str = "0a1b", **env: str) -> ExistingSlurm:
    return ExistingSlurm("127.0.0.1:6817", script, env, token)


# -- by what Slurm prints --------------------------------------------------------------------------


def test_every_name_of_a_controller_is_an_address() -> None:
    settings = {"SlurmctldHost[0]": "head(10.0.0.9)", "SlurmctldHost[1]": "spare"}

    found = existing.parse_addresses({**settings, "SlurmctldPort": "6817-6819"})

    assert found == ["head:6817", "10.0.0.9:6817", "spare:6817"]


def test_a_node_is_own_by_the_name_of_its_host() -> None:
    known = existing.parse_nodes(NODES, "gpu02")

    assert [(node.node_id, node.is_own) for node in known] == [("gpu01", False), ("gpu02", True)]
    assert known[0].partitions == {"gpu", "all"}


def test_a_job_without_a_partition_is_in_the_default_one() -> None:
    assert existing.parse_default_partition(PARTITIONS) == "all"
    assert not existing.parse_default_partition(PARTITIONS.splitlines()[0])


@pytest.mark.parametrize(
    ("partitions", "is_refused"), [({"gpu"}, False), ({"all"}, True), (set(), True)]
)
def test_a_job_that_may_come_onto_another_host_is_refused(
    partitions: set[str], is_refused: bool
) -> None:
    known = existing.parse_nodes(NODES, "gpu01.site")
    refused = pytest.raises(ClusterError, match=r"gpu02 on host gpu02\.site")

    with refused if is_refused else contextlib.nullcontext():
        existing.require_local_nodes(known, frozenset(partitions))


@pytest.mark.parametrize(
    ("uid", "comment", "is_own"),
    [
        (1000, "chaos-0a1b", True),
        (1000, "my own chaos-0a1b", True),
        (1001, "chaos-0a1b", False),
        (1000, "chaos-0a1b2", False),
        (1000, "", False),
    ],
)
def test_a_job_is_the_runs_by_its_user_and_its_comment(
    uid: int, comment: str, is_own: bool
) -> None:
    told = SHOWN.format(uid=uid, comment=comment)

    assert ending.is_own(told, mark="chaos-0a1b", uid=1000) == is_own


@pytest.mark.parametrize("state", ["CANCELLED", "PREEMPTED", "NODE_FAIL", "SUSPENDED"])
def test_an_end_that_no_fault_brings_is_by_others(tmp_path: Path, state: str) -> None:
    seen = JobState(**{**STATE.__dict__, "state": state})

    assert state in (of(tmp_path).describe_foreign_end(seen) or "")


@pytest.mark.parametrize("state", ["RUNNING", "PENDING", "COMPLETED", "FAILED", "TIMEOUT"])
def test_an_end_of_the_jobs_own_is_not(tmp_path: Path, state: str) -> None:
    assert of(tmp_path).describe_foreign_end(JobState(**{**STATE.__dict__, "state": state})) is None


@pytest.mark.parametrize(
    ("why", "is_struck", "is_others"),
    [
        (" (job requeue)", True, False),
        (" (job requeue)", False, True),
        (" (preemption)", True, True),
        (" (node failure)", True, True),
        ("", False, True),
    ],
)
def test_a_requeue_without_a_fault_is_by_others(
    tmp_path: Path, why: str, is_struck: bool, is_others: bool
) -> None:
    found = of(tmp_path).describe_foreign_requeue(why, has_fault=is_struck)

    assert (found is not None) == is_others


def test_a_script_keeps_its_own_comment(tmp_path: Path) -> None:
    given = {"--comment": SbatchOption("project x", 2)}

    assert of(tmp_path).options(given) == ("--comment=" + "project x chaos-0a1b",)
    assert of(tmp_path).options({}) == ("--comment=chaos-0a1b",)


def test_a_users_words_on_the_site_reach_sbatch_and_those_of_another_job_do_not(
    tmp_path: Path,
) -> None:
    one = of(tmp_path)

    assert all(map(one.accepts_variable, ["SBATCH_ACCOUNT", "HOME"]))
    assert not any(map(one.accepts_variable, ["SLURM_JOB_ID", "SBATCH_CLUSTERS", "SLURM_CLUSTERS"]))


def test_the_settings_are_those_that_were_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = of(tmp_path, SLURM_CONF="/job/slurm.conf")
    monkeypatch.setenv("SLURM_CONF", "/site/slurm.conf")

    assert not one.accepts_variable("SLURM_CONF")  # a job's own
    assert one.command_env == {"SLURM_CONF": "/site/slurm.conf"}


@pytest.mark.parametrize(
    ("reason", "waits"),
    [
        ("Resources", True),
        ("Priority", True),
        ("BeginTime", True),
        ("JobHeldUser", False),
        ("launch_failed_requeued_held", False),
        ("DependencyNeverSatisfied", False),
    ],
)
def test_a_job_that_somebody_has_to_release_does_not_wait(reason: str, waits: bool) -> None:
    seen = JobState(**{**STATE.__dict__, "state": "PENDING", "reason": reason})

    assert seen.waits == waits


@pytest.mark.parametrize("option", ["--array=0-3", "-a 0-3", "--clusters=other", "--wait", "-W"])
def test_a_header_that_makes_no_job_that_can_be_followed_is_refused_by_its_line(
    tmp_path: Path, option: str
) -> None:
    script = tmp_path / "train.sbatch"
    script.write_text(f"#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH {option}\n", encoding="utf-8")

    with pytest.raises(JobError, match=r"train\.sbatch:3: --"):
        of(script).start()


# -- with a real one -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Theirs:
    """Somebody's Slurm, with a job on it, and a user's folder beside it."""

    slurm: SlurmCluster
    address: str
    job: int
    folder: Path

    def run(self, name: str, *words: str) -> Done:
        """Run a scenario of `scenarios/slurm` there."""
        file = f"scenarios/slurm/{name}.chaos.yaml"
        allowed = ("--address", self.address, "--allow-faults-on", self.address)
        return called("run", file, *allowed, *words, folder=self.folder)

    def jobs(self) -> list[str]:
        """Return the numbers of all jobs that were ever there."""
        told = self.slurm._call("squeue", "--noheader", "--states=all", "--format=%i").stdout
        return sorted(told.split())

    def is_untouched(self) -> bool:
        """Return whether the job that was there runs on as it did."""
        seen = self.slurm.job(self.job)
        return seen is not None and (seen.state, seen.restarts) == ("RUNNING", 0)


@pytest.fixture
def theirs(slurm: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Theirs]:
    del slurm
    here = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{here}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    script = tmp_path / "theirs.sbatch"
    script.write_text("#!/bin/bash\nsleep 1000\n", encoding="utf-8")
    one = SlurmCluster(3, 2, tmp_path / "log", SystemClock())
    try:
        one.start()
        job = one.submit([str(script)], os.environ, "/", tmp_path / "theirs.log", forces_log=False)
        monkeypatch.setenv("SLURM_CONF", one.command_env["SLURM_CONF"])
        settings = one._call("scontrol", "show", "config").stdout
        port = settings.partition("SlurmctldPort")[2].split()[1]
        there = Theirs(one, f"127.0.0.1:{port}", job, tmp_path)
        assert until(there.is_untouched)  # it runs
        yield there
    finally:
        one.stop()


def until(is_so: Callable[[], bool]) -> bool:
    return await_condition(is_so, SystemClock(), within_s=60, poll_s=0.2)


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_requeue_comes_back_and_the_job_of_others_runs_on(theirs: Theirs) -> None:
    done = theirs.run("requeued")

    assert done.code == 0, done.out + done.err
    assert theirs.is_untouched()
    assert theirs.jobs() == ["1", "2", "3"]  # theirs, the baseline, the run


@pytest.mark.nightly
@pytest.mark.embedded
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("preempted", "its nodes are not a user's to take"),
        ("suspended", "only an operator"),
        ("time_is_over", "may not raise it again"),
        ("slurmctld_restarts", "only an operator"),
    ],
)
def test_a_fault_that_is_no_users_is_refused_before_anything_is_submitted(
    theirs: Theirs, name: str, why: str
) -> None:
    done = theirs.run(name, "--allow-node-loss")

    assert done.code == 3
    assert why in " ".join((done.out + done.err).split())
    assert theirs.jobs() == [str(theirs.job)]


@pytest.mark.nightly
@pytest.mark.embedded
def test_nothing_is_submitted_where_faults_are_not_allowed(theirs: Theirs) -> None:
    file = "scenarios/slurm/requeued.chaos.yaml"

    done = called("run", file, "--address", theirs.address, folder=theirs.folder)

    assert done.code == 3
    assert "faults are not allowed on it" in " ".join(done.err.split())
    assert theirs.jobs() == [str(theirs.job)]


@pytest.mark.nightly
@pytest.mark.embedded
def test_another_slurm_than_the_one_that_was_named_is_left_alone(theirs: Theirs) -> None:
    elsewhere = Theirs(theirs.slurm, "head:6817", theirs.job, theirs.folder)

    done = elsewhere.run("requeued")

    assert done.code == 3
    text = " ".join((done.out + done.err).split())
    assert "cluster.address is head:6817," in text
    assert "is head:6817, and Slurm's" in text
    assert theirs.jobs() == [str(theirs.job)]


@pytest.mark.nightly
@pytest.mark.embedded
def test_nothing_is_done_to_a_job_that_is_not_the_runs(theirs: Theirs, tmp_path: Path) -> None:
    one = ExistingSlurm(theirs.address, tmp_path / "theirs.sbatch", {}, "0a1b")

    acts: list[Callable[[], object]] = [
        lambda: one.control("requeue", theirs.job),
        lambda: one.signal(theirs.job, "TERM", to_batch=True),
        lambda: one.cancel(theirs.job),
        lambda: one.job(theirs.job),
    ]
    for act in acts:
        with pytest.raises(HarnessError, match="is not the run's own"):
            act()
    assert theirs.is_untouched()


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_lost_optimizer_is_found_there(theirs: Theirs) -> None:
    text = (ROOT / "scenarios/slurm/preempted_optimizer_lost.chaos.yaml").read_text("utf-8")
    text = text.replace("preempt_node: {notice_s: 0}", "requeue_job: {}")
    file = theirs.folder / "lost.chaos.yaml"
    file.write_text(text.replace("../jobs", "scenarios/jobs"), encoding="utf-8")
    allowed = ("--address", theirs.address, "--allow-faults-on", theirs.address)

    done = called("run", file, *allowed, folder=theirs.folder)

    assert done.code == 0, done.out + done.err  # as the scenario expects: the check `state` fails
    assert theirs.is_untouched()


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_job_ends_with_chaos_however_that_ends(theirs: Theirs, number: int) -> None:
    file = "scenarios/slurm/requeued.chaos.yaml"
    allowed = ("--address", theirs.address, "--allow-faults-on", theirs.address)
    command = [sys.executable, "-m", "chaos", "run", file, *allowed]
    running = {"1", "2"}
    with (theirs.folder / "out").open("wb") as out:
        chaos = subprocess.Popen(command, cwd=theirs.folder, stdout=out, stderr=out)
    try:
        assert until(lambda: set(theirs.jobs()) == running)
        assert until(lambda: theirs.slurm.job(2).state == "RUNNING")  # type: ignore[union-attr]
        chaos.send_signal(number)
        chaos.wait(60)
    finally:
        chaos.kill()

    assert until(lambda: theirs.slurm.job(2).state == "CANCELLED")  # type: ignore[union-attr]
    assert theirs.is_untouched()
