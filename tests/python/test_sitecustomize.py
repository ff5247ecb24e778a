"""The interpreter's own `sitecustomize` is imported as well."""

import os
import subprocess
import sys
from pathlib import Path

from chaos.launch.child_environment import SITECUSTOMIZE_FOLDER


def test_the_interpreters_own_sitecustomize_is_imported_as_well(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('its own')\n")
    look = "import sys; print(sys.modules['sitecustomize'].__file__, sys.path[1])"

    for folders in ([SITECUSTOMIZE_FOLDER, str(tmp_path)], [SITECUSTOMIZE_FOLDER]):
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
        done = subprocess.run(
            [sys.executable, "-c", look], env=env, text=True, capture_output=True, check=True
        )
        assert done.stderr == ""
        own = f"its own\n{tmp_path}/sitecustomize.py {tmp_path}"
        assert done.stdout.startswith(own if len(folders) > 1 else SITECUSTOMIZE_FOLDER)
        assert SITECUSTOMIZE_FOLDER not in done.stdout.split()
