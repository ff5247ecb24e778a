"""The commands that are installed: chaos's own, and those of extensions and other packages.

An extension registers a command as an entry point of the group `chaos.commands`, a function for
typer: `guard = chaos.extensions.guard.command:guard`. Its module may say what the help shows of it,
`HELP_PANEL` and `HELP_LINE`; both are read from its text, so that `chaos --help` imports none.
"""

import ast
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Any

from chaos.errors import UsageError
from chaos.extension_modules import (
    find_module_file,
    is_extension_module,
    list_own_entry_points,
)
from chaos.installation import COMMANDS_GROUP
from chaos.registry import list_foreign_entry_points

START, RESULTS, CLUSTER, TOOLS = "Start", "Results", "Cluster configuration", "Tools"
PANELS = (START, RESULTS, CLUSTER, TOOLS)
#: the panel of a command whose module names none
OTHER_COMMANDS = "Other commands"


class CommandEntry:
    """One command: its function, imported when it is needed, and what the help shows of it."""

    def __init__(self, name: str, function: str, panel: str, line: str) -> None:
        self.name = name
        #: `package.module:function`
        self.function = function
        self._panel = panel
        self._line = line

    @property
    def panel(self) -> str:
        """The title above it in the help."""
        return self._panel

    @property
    def line(self) -> str:
        """The help's line on it."""
        return self._line

    def load_function(self) -> Any:  # noqa: ANN401 - a function for typer
        """Return its function; raises `UsageError` where another package's cannot be loaded."""
        module, _, name = self.function.partition(":")
        return getattr(import_module(module), name)


class RegisteredCommand(CommandEntry):
    """A command that is an entry point of an extension or of another package."""

    def __init__(self, point: EntryPoint) -> None:
        super().__init__(point.name, point.value, OTHER_COMMANDS, "")
        self._point = point

    @property
    def panel(self) -> str:
        return self._texts.get("HELP_PANEL", self._panel)

    @property
    def line(self) -> str:
        return self._texts.get("HELP_LINE", "")

    def load_function(self) -> Any:  # noqa: ANN401
        try:
            return self._point.load()
        except Exception as error:
            if is_extension_module(self._point.module):
                raise
            package = "a package" if self._point.dist is None else self._point.dist.name
            raise UsageError(
                f"{package} registers the command {self.name} as {self.function}, "
                f"which cannot be loaded: {error}",
                "Mend the package or uninstall it.",
            ) from error

    @cached_property
    def _texts(self) -> dict[str, str]:
        """The texts that its module assigns to names; none of a file that cannot be read."""
        try:
            file = find_module_file(self._point.module)
            body = [] if file is None else ast.parse(file.read_bytes()).body
        except (OSError, SyntaxError, ValueError):  # the command itself says so when it is called
            return {}
        return {
            statement.targets[0].id: statement.value.value
            for statement in body
            if isinstance(statement, ast.Assign)
            and isinstance(statement.targets[0], ast.Name)
            and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str)
        }


CORE_COMMANDS = tuple(
    CommandEntry(name, f"chaos.cli.{function}", panel, line)
    for name, function, panel, line in (
        (
            "audit",
            "audit:audit",
            START,
            "Inject faults into a training script, without a cluster.",
        ),
        ("run", "run:run", START, "Run scenarios and judge the results."),
        ("report", "report:report", RESULTS, "List runs, open a report or convert it."),
        ("schema", "schema:schema", TOOLS, "Print the JSON Schema of scenario files."),
    )
)


@cache
def list_commands() -> tuple[CommandEntry, ...]:
    """Return all commands, chaos's own first.

    Raises `UsageError` where another package takes the name of one that is there.
    """
    entries = {entry.name: entry for entry in CORE_COMMANDS}
    for list_entry_points in (list_own_entry_points, list_foreign_entry_points):
        for point in sorted(list_entry_points(COMMANDS_GROUP), key=lambda point: point.name):
            if point.name in entries:
                raise UsageError(
                    f"{point.value} is registered as the command {point.name}, which is "
                    f"{entries[point.name].function}",
                    "Uninstall its package, or rename it there.",
                )
            entries[point.name] = RegisteredCommand(point)
    return tuple(entries.values())
