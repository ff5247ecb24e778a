import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_a_start_under_the_guard_imports_no_models_of_scenarios() -> None:
    code = "import sys; from chaos.extensions.guard import command, watch; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert {"chaos.extensions.guard.watch"} == {*done.stdout.split()} & {
        *(
            "chaos.extensions.guard.watch",
            "chaos.model.scenario",
            "chaos.check.judge",
            "pydantic",
            "ruamel",
        )
    }
