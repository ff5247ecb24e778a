"""The command line, called in this process: what it needs is imported, and jobs' root runs already.

A process of its own imports chaos, and starts a root that imports Ray Train and torch: nine
seconds of a processor for a run that takes one. A few tests start one nevertheless, as a user
does; what is asked here is what a command does.
"""

import contextlib
import io
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from chaos.cli.commands import main

PLAIN = {"COLUMNS": "80", "NO_COLOR": "1"}


@dataclass(frozen=True)
class Done:
    """A command that has ended: its exit code, and what it said."""

    code: int
    out: str
    err: str


def chaos(*words: str | Path, folder: Path) -> Done:
    """Call `chaos` in a folder, as if there were no terminal and it were not CI."""
    out, err = io.StringIO(), io.StringIO()
    ours = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    with (
        contextlib.chdir(folder),
        mock.patch.dict(os.environ, {**ours, **PLAIN}, clear=True),
        mock.patch.object(sys, "argv", ["chaos", *map(str, words)]),
        # The root of another hash seed stays as well: the next audit has its imports.
        mock.patch("chaos.launch.forked.backend.end_root"),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = _code_of_main()
    return Done(code, out.getvalue(), err.getvalue())


def _code_of_main() -> int:
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    raise AssertionError("main() always ends with an exit code")
