"""The commands by name, each imported when it is called, and `main`, which guards them all.

`chaos --help` needs only the table: the imports of a command take seconds.
This module and the pytest plugin are the only ones that catch `ChaosError`.
"""

import difflib
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any

import typer
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from chaos import __version__
from chaos.app.option_names import describe_option
from chaos.cli import signals
from chaos.cli.command_table import PANELS, CommandEntry, list_commands
from chaos.cli.streams import write_document
from chaos.errors import ChaosError, JobError, RequestError, UsageError
from chaos.registry import has_foreign_extensions
from chaos.report.screen import build_console

EXIT_PASS, EXIT_FAIL, EXIT_INCONCLUSIVE, EXIT_USAGE, EXIT_HARNESS = range(5)
EXIT_INTERRUPTED = 130


class _Command(TyperCommand):
    """A command whose help has no frames, since it is read in logs as well."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401 - typer's types
        return [
            piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Write the arguments and options, by panel."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            panel = getattr(param, "rich_help_panel", None) or "Options"
            record = param.get_help_record(ctx)
            if record is not None and param.param_type_name == "argument":
                name, _, _ = record[0].partition(" <")  # its type means nothing to a user
                sections.setdefault("Arguments", []).append((name, record[1]))
            elif record is not None:
                sections.setdefault(panel, []).append(record)
        _write_sections(formatter, sections)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401
        """Read the command line; an unknown option beside a script is answered as the script's."""
        try:
            remaining_args: list[str] = super().parse_args(ctx, [*args])
        except Exception as error:
            if not hasattr(error, "possibilities"):  # only where an option does not exist
                raise
            from chaos.cli.rules import build_script_option_error  # noqa: PLC0415 - as below

            ctx.ignore_unknown_options = True  # such an option is then a word as any other
            argument_words, _, _ = self.make_parser(ctx).parse_args([*args])
            close_options = error.possibilities or ()
            raise (
                build_script_option_error(str(ctx.info_name), args, argument_words, close_options)
                or error
            ) from None
        return remaining_args


class _Lazy(TyperCommand):
    """A command that is not imported yet; it makes the context of the real one."""

    # Each command imports what it needs when it is called: `chaos --help` took 1.2 CPU seconds with
    # all of them, and takes 0.26.
    def __init__(self, entry: CommandEntry) -> None:
        super().__init__(entry.name)
        self._entry = entry

    @cached_property
    def _command_function(self) -> Callable[..., object]:
        command_function: Callable[..., object] = self._entry.load_function()
        return command_function

    @cached_property
    def loaded(self) -> TyperCommand:
        app = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=_HELP)
        app.command(self.name, cls=_Command)(self._command_function)
        command = typer.main.get_command(app)
        assert isinstance(command, TyperCommand)
        return command

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: Any = None,  # noqa: ANN401 - typer's own types, which it does not publish
        **extra: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """Return the context of the real command, with its own options."""
        context = self.loaded.make_context(info_name, args, parent, **extra)
        if not context.resilient_parsing:  # as it is for shell completion
            from chaos.app.field_rules import FieldUses, check_fields  # noqa: PLC0415 - for `--help`
            from chaos.cli.rules import list_options  # noqa: PLC0415 - likewise

            check_fields(FieldUses(list_options(self._command_function, context.params)))
        return context


class _Commands(TyperGroup):
    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - typer's own
        super().__init__(**settings)
        self.commands = {entry.name: _Lazy(entry) for entry in list_commands()}

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        del ctx
        sections: dict[str, list[tuple[str, str]]] = {panel: [] for panel in PANELS}
        for entry in list_commands():
            sections.setdefault(entry.panel, []).append((entry.name, entry.line))
        _write_sections(formatter, sections)


def _write_sections(formatter: Any, sections: Mapping[str, list[tuple[str, str]]]) -> None:  # noqa: ANN401
    for name, rows in sections.items():
        with formatter.section(name):
            formatter.write_dl(rows)


_QUOTED = re.compile("'([^']+)'")
_HELP = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    name="chaos",
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=_HELP,
)


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    *,
    show: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Fault-injection testing for Ray Train and torchrun jobs.

    Exit codes: 0 pass, 1 fail, 2 inconclusive, 3 usage error, 4 error in chaos; ended from
    outside: 130 by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP.
    """
    if show:
        write_document(f"chaos {__version__}\n")
        raise typer.Exit
    from chaos import settings  # noqa: PLC0415 - what `--help` need not import

    context.default_map = settings.load_defaults([entry.name for entry in list_commands()])
    if has_foreign_extensions():  # else all checks would be imported for nothing
        from chaos.other_packages import require_usable_extensions  # noqa: PLC0415 - likewise

        require_usable_extensions()


def main() -> None:
    """Run the command line; turn the errors of chaos into a message and a code."""
    # Not typer's standalone mode: it ends with 1 for an error of its own, which is this command's
    # word for a job that failed. Every way out is turned into a code of ours here.
    code: int
    try:
        code = app(prog_name="chaos", standalone_mode=False) or EXIT_PASS
    except (KeyboardInterrupt, typer.Abort):
        code = EXIT_INTERRUPTED
    except BaseException as error:  # noqa: BLE001 - whatever it is, it must not look like a verdict
        code = _report_error(error)
    if code == EXIT_INTERRUPTED:  # typer turns KeyboardInterrupt into it, without a word
        _print_error(
            f"ended by {signals.describe_signal()}; the runs' folders hold what was done until then"
        )
        code = signals.exit_code()
    sys.exit(code)


def _report_error(error: BaseException) -> int:
    """Print an error, and return its exit code: of a usage error, or of an error in chaos."""
    if signals.has_signal():  # an error on the way out is not the command's result
        _print_error(str(error) or type(error).__name__)
        return signals.exit_code()
    if isinstance(error, RequestError):
        error = error.rename_fields(describe_option)
    if isinstance(error, ChaosError):
        _print_error(str(error), log_lines=error.log_lines if isinstance(error, JobError) else ())
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_HARNESS
    if isinstance(error, SystemExit) and _is_completion_exit(error):
        raise error
    if hasattr(error, "show"):  # a mistake on the command line, from the click in typer
        if isinstance(message := getattr(error, "message", None), str):
            error.message = reword_message(message)  # type: ignore[attr-defined]
        error.show()
        return EXIT_USAGE
    from rich.traceback import Traceback  # noqa: PLC0415 - rarely needed, and slow

    # typer ends with 1 for a broken pipe, whichever it was; ours would be one within chaos.
    cause = error.__context__ if isinstance(error, SystemExit) else None
    shown_error = cause or error
    build_console(stderr=True).print(
        Traceback.from_exception(type(shown_error), shown_error, shown_error.__traceback__)
    )
    _print_error("internal error; the run's folder holds what was recorded")
    return EXIT_HARNESS


def reword_message(message: str) -> str:
    """Return a message on an option's value without pydantic's words, with the nearest choice."""
    text = message.removeprefix("Value error, ").replace("Input should be", "it must be")
    value, separator, choices = text.partition(" is not one of ")
    close_choices = difflib.get_close_matches(value.strip("'"), _QUOTED.findall(choices), n=1)
    return f"{text} Did you mean {close_choices[0]}?" if separator and close_choices else text


def _is_completion_exit(error: SystemExit) -> bool:
    """Return whether typer has ended the process by itself, as it does for shell completion."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    raising_module = str(frames[-1].f_globals.get("__name__")) if frames else ""
    return raising_module.startswith("typer.") and not isinstance(error.__context__, OSError)


def _print_error(message: str, *, log_lines: Sequence[str] = ()) -> None:
    """Print an error, and below it the last lines of the job's log."""
    words = Text.assemble(("chaos: ", "bold red"), message)  # a message may hold square brackets
    console = build_console(stderr=True)
    console.print(words, soft_wrap=True)
    for line in log_lines:
        console.print(Text(f"  | {line}", style="dim"), soft_wrap=True)
