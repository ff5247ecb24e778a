"""Run a command for which a bucket of moto's is S3: `python -m tests.tools.s3 chaos run …`.

What the command and its children ask of S3 goes to a server on this machine, as long as they run.
"""

import os
import subprocess
import sys

from tests.s3 import WHY_NOT, is_there, s3_server


def main() -> int:
    """Return the command's exit code."""
    if not is_there():
        sys.exit(f"chaos: {WHY_NOT}")
    with s3_server() as s3:
        return subprocess.run(sys.argv[1:], env={**os.environ, **s3.env}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
