"""The lines of `jobcomp/filetxt`, as Slurm 22.05 has written them."""

from chaos.extensions.slurm.cluster import parse_accounts

LINE = (
    "JobId={job} UserId=root(0) GroupId=root(0) Name=train.sbatch JobState={state} "
    "Partition=chaos TimeLimit=525600 StartTime={start} EndTime=2026-01-02T00:00:06 "
    "NodeList=node-[0-1] NodeCnt=2 ProcCnt=2 WorkDir=/home ReservationName= "
    "Tres=cpu=2,mem=2M,node=2,billing=2 Account= QOS= WcKey= Cluster=unknown "
    "SubmitTime=2026-01-01T23:59:50 EligibleTime=2026-01-01T23:59:50 DerivedExitCode=0:15 "
    "ExitCode={code} \n"
)


def line(state: str, job: int = 1, code: str = "0:0", start: str = "2026-01-01T23:59:53") -> str:
    return LINE.format(state=state, job=job, code=code, start=start)


def test_each_end_of_the_job_is_a_start_and_other_jobs_are_left_out() -> None:
    text = line("PREEMPTED") + line("COMPLETED", job=2) + line("FAILED", code="143:0")

    starts = parse_accounts(text, 1)

    assert [(one.start, one.state, one.code) for one in starts] == [
        (0, "PREEMPTED", 0),
        (1, "FAILED", 143),
    ]
    assert (starts[0].ran_s, starts[0].nodes) == (13.0, "node-[0-1]")


def test_a_signal_is_no_code() -> None:
    [one] = parse_accounts(line("CANCELLED", code="0:15"), 1)

    assert (one.code, one.signal) == (0, 15)


def test_a_job_that_never_began_has_no_time() -> None:
    [one] = parse_accounts(line("CANCELLED", start="Unknown"), 1)

    assert one.ran_s is None


def test_a_line_that_is_not_whole_yet_is_no_end() -> None:
    assert not parse_accounts(line("COMPLETED").partition(" DerivedExitCode=")[0], 1)
