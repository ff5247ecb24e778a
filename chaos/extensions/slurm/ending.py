"""The end of a run's own job on a Slurm that chaos did not start, also where chaos is killed.

`python -m chaos.extensions.slurm.ending MARK` waits for the end of its input, which comes when the
harness closes it or ends, however it ends. Then it cancels the jobs of this user with the mark in
their comment, until none is left.
"""

import os
import subprocess
import sys

from chaos.run.clock import SystemClock, elapsed_seconds

OVER = "over"  # said by a harness that submits nothing any more
LOOK_S = 1.0
# Without that word, a job that was being submitted as the harness was killed may still come.
COMES_S = 10.0
# KillWait is 30 s, unless a site says otherwise, and the controller may be away for a while.
GONE_S = 600.0


def is_own(description: str, *, mark: str, uid: int) -> bool:
    """Return whether a job, as `scontrol show job` prints it, is this user's with the mark."""
    return (
        f"({uid}) GroupId=" in description and mark in description.partition(" Comment=")[2].split()
    )


def end_all(mark: str, *, is_over: bool) -> bool:
    """Cancel the jobs with a mark, and wait until they have left; return whether they have."""
    clock = SystemClock()
    start_ns = clock.now_ns()
    while (elapsed_s := elapsed_seconds(start_ns, clock)) < GONE_S:
        numbers = _list_jobs(mark)
        if numbers == [] and (is_over or elapsed_s > COMES_S):
            return True
        for number in numbers or ():
            _run_command("scancel", number)
        clock.sleep(LOOK_S)
    return False


def _list_jobs(mark: str) -> list[str] | None:
    """Return the numbers of the jobs that have not left; None if Slurm does not answer."""
    output = _run_command("squeue", "--noheader", f"--user={os.getuid()}", "--format=%i %k")
    lines = None if output is None else [line.split() for line in output.splitlines()]
    return None if lines is None else [words[0] for words in lines if mark in words[1:]]


def _run_command(*words: str) -> str | None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return None if done.returncode else done.stdout


if __name__ == "__main__":
    sys.exit(0 if end_all(sys.argv[1], is_over=sys.stdin.read() == OVER) else 1)
