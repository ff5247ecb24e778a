"""A script's header on a local Slurm: made true there, or refused with its line."""

import os
from pathlib import Path

import pytest

from chaos.errors import JobError
from chaos.extensions.sbatch_header import load_options, parse_options
from chaos.extensions.slurm.cluster import SlurmCluster
from chaos.extensions.slurm.header import HeaderNeeds, describe_options, parse_needs
from chaos.run.clock import SystemClock, await_condition
from tests.accepted import expect_text

pytestmark = pytest.mark.timeout(120)
SITE = """\
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2 --cpus-per-task=16
#SBATCH --partition=gpu,long
#SBATCH -A project -q high
#SBATCH --gres=gpu:a100:4
#SBATCH --mem=5T --tmp=1T
#SBATCH --constraint="a100&nvlink"
#SBATCH --time=2-00:00:00
echo "gpus $SLURM_GPUS_ON_NODE of $SLURM_JOB_PARTITION, devices '$CUDA_VISIBLE_DEVICES'"
srun sleep 100
"""


def wanted(*lines: str, nodes: int = 1) -> HeaderNeeds:
    header = "\n".join(f"#SBATCH {line}" for line in lines)
    return parse_needs(Path("train.sbatch"), parse_options(f"#!/bin/bash\n{header}\n"), nodes=nodes)


def test_a_header_that_wants_nothing_is_had() -> None:
    assert wanted("--nodes=2 --requeue", "--time=1:00", nodes=2) == HeaderNeeds()


@pytest.mark.parametrize(
    ("line", "cpus"),
    [
        ("--cpus-per-task=8", 8),
        ("-n 8 -c 4", 16),
        ("--ntasks-per-node=3 --cpus-per-task=2", 6),
        ("--ntasks=7", 4),
        ("--gpus-per-node=4 --cpus-per-gpu=8", 32),
        ("--cpus-per-task=$CPUS", 1),
    ],
)
def test_the_cpus_of_a_node_are_those_of_its_tasks(line: str, cpus: int) -> None:
    assert wanted(line, nodes=2).cpus == cpus


@pytest.mark.parametrize(
    ("line", "mebibytes"),
    [
        ("--mem=500G", 500 * 1024),
        ("--mem=4096", 4096),
        ("--mem=0", 0),
        ("--mem-per-cpu=4G --cpus-per-task=8", 32 * 1024),
        ("--mem-per-gpu=80GB --gres=gpu:4", 320 * 1024),
    ],
)
def test_the_memory_of_a_node_is_what_is_asked_for_on_it(line: str, mebibytes: int) -> None:
    assert wanted(line).memory == mebibytes


@pytest.mark.parametrize(
    ("line", "types"),
    [
        ("--gres=gpu:4", ("",)),
        ("--gres=gpu:a100:4", ("a100",)),
        ("--gres=gpu:v100:1,gpu:a100:4", ("a100", "v100")),
        ("--gpus=8", ("",)),
        ("--gpus-per-task=a100:1 --gpus-per-node=2", ("a100",)),
        ("--gres=none", ()),
    ],
)
def test_gpus_are_had_by_their_types(line: str, types: tuple[str, ...]) -> None:
    assert wanted(line).gpus == types


def test_partitions_and_features_are_made_by_their_names() -> None:
    found = wanted("-p gpu,long", "--constraint='a100&nvlink|v100'", "--prefer=ib")

    assert found.partitions == ("gpu", "long")
    assert found.features == ("a100", "nvlink", "v100", "ib")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("-w gpu01", "--nodelist=gpu01: the nodes of the local Slurm have names of their own"),
        ("--exclude=gpu02", "--exclude=gpu02: the nodes"),
        ("--reservation=r", "no reservations"),
        ("-L matlab:1", "no licenses"),
        ("--gres=shard:2", "GPUs alone, as a number"),
        ("--begin=now+1hour", "wait in the queue"),
        ("--hold", "--hold: it would stay in the queue"),
        ("--wait", "only at the job's end"),
        ("--sockets-per-node=2", "one socket"),
        ("--clusters=other", "another cluster"),
    ],
)
def test_what_cannot_be_had_is_refused_with_its_line(line: str, why: str) -> None:
    with pytest.raises(JobError) as caught:
        wanted("--nodes=1", line)

    assert str(caught.value).startswith("train.sbatch:3: ")
    assert why in str(caught.value)
    assert "cluster: {address: HOST:PORT}" in str(caught.value)


def test_what_slurm_only_counts_is_told() -> None:
    told = describe_options(parse_options("#SBATCH --gres=gpu:4 --mem=500G\n#SBATCH --nodes=2\n"))

    assert list(told) == ["--gres=gpu:4", "--mem=500G"]
    expect_text("\n".join(told.values()))


@pytest.mark.nightly
@pytest.mark.embedded
def test_a_sites_header_is_taken_as_it_is(slurm: None, tmp_path: Path) -> None:
    script, log = tmp_path / "train.sbatch", tmp_path / "out.log"
    script.write_text(SITE, encoding="utf-8")
    found = parse_needs(script, load_options(script), nodes=2)
    one = SlurmCluster(2, found.cpus, tmp_path / "log", SystemClock(), needs=found)
    try:
        one.start()
        job = one.submit([str(script)], os.environ, str(tmp_path), log, forces_log=False)
        is_there = await_condition(log.exists, SystemClock(), within_s=30, poll_s=0.1)
        assert is_there, one.job(job)
        await_condition(lambda: bool(log.read_text()), SystemClock(), within_s=30, poll_s=0.1)
        one.preempt("node-0", grace_s=0, for_s=1.0)
        await_condition(
            lambda: one.count_restarts(job) == 1, SystemClock(), within_s=30, poll_s=0.1
        )

        assert one.count_restarts(job) == 1
        assert log.read_text().startswith("gpus 4 of gpu, devices ''")
    finally:
        one.stop()
