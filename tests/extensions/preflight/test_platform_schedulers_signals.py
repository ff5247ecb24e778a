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


def test_a_script_in_another_language_has_no_shell(tmp_path: Path) -> None:
    file = tmp_path / "train.sbatch"
    file.write_text("#!/usr/bin/env python3\n#SBATCH --signal=B:USR1@60\nmain()\n", "utf-8")
    found = load_platform_file(file)

    assert found is not None
    assert not [one for one in found.taken if "batch shell" in one.description]
