"""The text of a file that a person wrote: UTF-8, and no larger than such a file can be."""

from pathlib import Path

from chaos.errors import UsageError
from chaos.scenario_file.problem import Problem, scenario_error

TEXT_BYTES = 1 << 20
SAVE = "Save the file as UTF-8."


def read_text(path: Path, what: str, *, most: int = TEXT_BYTES, hint: str = SAVE) -> str:
    """Give a file's text; `what` it is, such as "scenario", is for the errors.

    Raises `UsageError` where it cannot be read, and `ScenarioError`, with the
    line, where it has more than `most` bytes, or is no text, with the `hint`.
    """
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)  # of a device there is no end
    except OSError as error:
        problem = f"the {what} cannot be read: {error.strerror}"
        raise UsageError(problem, "Check the path.", place=str(path)) from None
    if len(content) > most:
        line = content.count(b"\n") + 1
        problem = f"the {what} has more than {most >> 20} MiB"
        raise scenario_error(path, [Problem(line, problem, "Is this the right file?")])
    try:
        return content.decode("utf-8-sig")  # some editors write a mark before the text
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise scenario_error(path, [Problem(line, "this is not UTF-8 text", hint)]) from None
