"""The signal that a script for sbatch asks for: does its shell hear of it in time?"""

from pathlib import Path

import pytest

from chaos.extensions.preflight.platform_files import load_platform_file

HEADER = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --requeue\n#SBATCH --open-mode=append\n"
TRAP = "trap 'scontrol requeue $SLURM_JOB_ID' USR1\n"
UNHEARD = {
    "is run when": f"#SBATCH --signal=B:USR1@60\n{TRAP}srun python a.py\n",
    "exec replaces": f"#SBATCH --signal=B:USR1@60\n{TRAP}exec srun python a.py\n",
    "nothing gets": "#SBATCH --signal=SIGUSR1@90\npython a.py\n",
    "has no trap": "#SBATCH --signal=B:SIGUSR1@60\nsrun python a.py &\nwait\n",
    "only the steps": f"#SBATCH --signal=USR1@60\n{TRAP}srun python a.py &\nwait\n",
}
HEARD = {
    "waits": f"#SBATCH --signal=B:USR1@60\n{TRAP}srun python a.py &\nwait $!\n",
    "by its steps": "#SBATCH --signal=USR1@60\nsrun python a.py\n",
    "in a file": "#SBATCH --signal=B:USR1@60\nsource traps.sh\nsrun python a.py &\nwait\n",
    "of several lines": "#SBATCH --signal=B:USR1@9\ntrap '\nagain\n' USR1\nsrun a &\nwait\n",
    "by a tool of its own": "#SBATCH --signal=USR1@90\nsource run.sh\npython a.py\n",
    "of a line": "#SBATCH --signal=B:USR1@9\nset -e; trap again USR1\nsrun a &\nwait\n",
    "beside a name": f"#SBATCH --signal=B:USR1@9\n{TRAP}srun a & pid=$!\nwhile :; do :; done\n",
    "polls": f"#SBATCH --signal=B:USR1@9\n{TRAP}srun a &\nwhile kill -0 $!; do sleep 1; done\n",
    "number and name": "#SBATCH --signal=B:10@60\ntrap again USR1\nsrun python a.py &\nwait\n",
    "by number": "#SBATCH --signal=B:10@60\ntrap on_signal 10\nsrun python a.py &\nwait\n",
    "exec without a trap": "#SBATCH --signal=B:USR1@60\nexec srun python a.py\n",
    "another trap": "#SBATCH --signal=USR1@60\ntrap 'rm -r $TMP' EXIT\nsrun python a.py\n",
}


def signals_of(folder: Path, script: str) -> list[str]:
    file = folder / "a.sbatch"
    file.write_text(HEADER + script, encoding="utf-8")
    found = load_platform_file(file)
    assert found is not None
    words = (one.description for one in found.taken)
    return [line for line in words if "SIG" in line and not line.startswith("a signal before")]


@pytest.mark.parametrize("words", UNHEARD)
def test_a_signal_that_no_trap_hears_in_time_is_said(tmp_path: Path, words: str) -> None:
    [line] = signals_of(tmp_path, UNHEARD[words])

    assert words in line


@pytest.mark.parametrize("script", HEARD.values(), ids=HEARD)
def test_a_signal_that_is_heard_is_not(tmp_path: Path, script: str) -> None:
    assert not signals_of(tmp_path, script)


B = "#SBATCH --signal=B:USR1@60\n#SBATCH --time=04:00:00\n"
RUN = "srun python a.py &\nwait\n"
SURE = {
    "in a trap": f"{B}{TRAP}{RUN}",
    "after an echo": f"{B}trap 'echo \"again\"; scontrol requeue $SLURM_JOB_ID; exit' USR1\n{RUN}",
    "in a function": f"{B}again() {{\n  echo\n  scontrol requeue 1\n}}\ntrap again USR1\n{RUN}",
    "in a line": f"{B}function again {{ scontrol requeue 1; }}\ntrap again USR1\n{RUN}",
    "after the wait": f"{B}trap 'touch stop' USR1\n{RUN}scontrol requeue $SLURM_JOB_ID\n",
}
UNSURE = {
    "no trap is read": f"{B}set -e; trap 'touch stop' USR1\n{RUN}scontrol requeue 1\n",
    "in an echo": f"{B}trap 'touch stop' USR1\n{RUN}echo 'to go on: scontrol requeue 1'\n",
    "in an echo of a trap": f"{B}trap 'echo scontrol requeue 1' USR1\n{RUN}",
    "in another function": f"{B}again() {{\nscontrol requeue 1\n}}\ntrap 'touch a' USR1\n{RUN}",
    "of another signal": f"{B}trap 'scontrol requeue 1' USR2\ntrap 'touch a' USR1\n{RUN}",
    "on a condition": f"{B}trap '[ -f a ] && scontrol requeue 1' USR1\n{RUN}",
    "in a branch": f"{B}trap 'touch a' USR1\n{RUN}if [ $n -lt 3 ]; then\nscontrol requeue 1\nfi\n",
    "after the exit": f"{B}trap 'exit 0' USR1\n{RUN}scontrol requeue 1\n",
    "before the wait": f"{B}trap 'touch a' USR1\nscontrol requeue 1\n{RUN}",
    "in a document": f"{B}trap 'touch a' USR1\n{RUN}cat <<END\nscontrol requeue 1\nEND\n",
}


def read_requeues(folder: Path, script: str, shebang: str = "#!/bin/bash") -> tuple[object, str]:
    """Return how often a script queues itself again by its file, and all that is said of it."""
    file = folder / "a.sbatch"
    file.write_text(f"{shebang}\n#SBATCH --nodes=1\n#SBATCH --requeue\n{script}", "utf-8")
    found = load_platform_file(file)
    assert found is not None
    return found.values.get("settings.limit_requeues"), "\n".join(found.notes)


@pytest.mark.parametrize("script", SURE.values(), ids=SURE)
def test_a_requeue_that_the_signal_leads_to_is_without_end(tmp_path: Path, script: str) -> None:
    assert read_requeues(tmp_path, script)[0] == -1


@pytest.mark.parametrize("script", UNSURE.values(), ids=UNSURE)
def test_a_requeue_that_may_not_be_run_is_not_known(tmp_path: Path, script: str) -> None:
    requeues, notes = read_requeues(tmp_path, script)

    assert requeues is None
    assert "the time limit is not known" in notes


def test_a_script_that_is_no_shell_is_never_sure(tmp_path: Path) -> None:
    assert read_requeues(tmp_path, f"{B}{TRAP}{RUN}", "#!/usr/bin/env python3")[0] is None


def test_a_script_in_another_language_has_no_shell(tmp_path: Path) -> None:
    file = tmp_path / "train.sbatch"
    file.write_text("#!/usr/bin/env python3\n#SBATCH --signal=B:USR1@60\nmain()\n", "utf-8")
    found = load_platform_file(file)

    assert found is not None
    assert not [one for one in found.taken if "batch shell" in one.description]
