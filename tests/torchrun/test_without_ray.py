"""Ray is imported by nothing that an audit of torchrun's needs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = """
import sys
sys.modules['ray'] = None  # any import of it raises
import chaos.backends.torchrun.agent, chaos.backends.torchrun.worker, chaos.audit.audit
from rich.console import Console
from chaos.backends.open import open_backend, open_torchrun
import chaos.cli.audit, chaos.cli.run
with open_torchrun(), open_backend('torchrun', Console()):
    pass
print([name for name in sys.modules if name.startswith('ray.')])
"""


@pytest.mark.embedded  # it imports torch, in a process of its own
def test_torchruns_backend_imports_no_ray() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.stdout.strip() == "[]", done.stderr[-2000:]
