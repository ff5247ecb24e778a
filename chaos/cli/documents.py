"""The options `--format` and `--output`: a result as a document, in a file or on stdout."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer
from rich.console import Console

from chaos.cli.streams import write_document
from chaos.errors import UsageError
from chaos.report.screen import build_console

if TYPE_CHECKING:
    from chaos.report.parts import ReportPart

Form: TypeAlias = Literal["text", "json", "junit", "md", "html", "github", "prometheus"]
Format = Annotated[
    Form | None,
    typer.Option("--format", help="Form of the result. Default: text, or the ending of --output."),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the result to this file."),
]
_ENDINGS: dict[str, Form] = {
    ".json": "json",
    ".xml": "junit",
    ".md": "md",
    ".html": "html",
    ".txt": "text",
    ".prom": "prometheus",
}


@dataclass(frozen=True)
class Document:
    """The requested form of a command's result, and its path; None: the output for people."""

    form: Form | None
    output: Path | None

    @classmethod
    def parse(cls, form: Form | None, output: Path | None, *forms: Form) -> "Document":
        """Return the document that the options request; refuse a form that the command lacks.

        The folder of the file is made at once, and whether the file can be written is tried, so
        that a mistake is found before the run.
        """
        if output is not None and form is None:
            form = _ENDINGS.get(output.suffix)
            if form is None:
                raise UsageError(
                    "the form of this file is not known",
                    f"Give --format, or a file that ends in {', '.join(_ENDINGS)}.",
                    location=str(output),
                )
        if form not in (None, *forms):
            raise UsageError(
                f"this command does not write {form}",
                f"It writes {', '.join(forms)}.",
                location="--format",
            )
        if output is not None:
            _check_writable(output)
        return cls(None if form == "text" and output is None else form, output)

    @property
    def takes_stdout(self) -> bool:
        """Whether the document goes to stdout, and all else to stderr."""
        return self.form is not None and self.output is None

    def report(
        self,
        parts: "Sequence[ReportPart]",
        renderers: Mapping[Form, Callable[[], str]],
        *,
        console: Console | None = None,
        screen_parts: "Sequence[ReportPart] | None" = None,
    ) -> None:
        """Print the parts of a result, unless the document takes stdout, and write the document.

        `screen_parts`: what is printed, where the document has more.
        """
        # A start under the guard, which reads the options, needs no models of verdicts.
        from chaos.report.markdown_parts import render_markdown_parts  # noqa: PLC0415
        from chaos.report.terminal_parts import print_parts, render_plain_parts  # noqa: PLC0415

        if not self.takes_stdout:
            print_parts(parts if screen_parts is None else screen_parts, console or build_console())
        texts: dict[Form, Callable[[], str]] = {
            "text": lambda: render_plain_parts(parts),
            "md": lambda: render_markdown_parts(parts),
        }
        self.write({**texts, **renderers})

    def write(self, renderers: Mapping[Form, Callable[[], str]]) -> None:
        """Write the document, if one was requested."""
        if self.form is None:
            return
        text = renderers[self.form]()
        if not text.endswith("\n"):
            text += "\n"
        if self.output is None:
            write_document(text)
            return
        with convert_write_errors(self.output):
            self.output.write_text(text, encoding="utf-8")


def _check_writable(file: Path) -> None:
    """Raise `UsageError` if a file cannot be written; make its folder, and leave the file as is."""
    with convert_write_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        is_new = not file.exists()
        with file.open("ab"):
            pass
        if is_new:
            file.unlink()


@contextmanager
def convert_write_errors(file: Path) -> Iterator[None]:
    """Turn an error of the system into a usage error: the file cannot be written."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot write there: {error.strerror}", location=str(file)) from error
