"""The stacks that faulthandler writes, and the lines of the job in which its threads wait."""

import ast
import linecache
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.run.modules import is_user_code

_PACKAGE = Path(__file__).parents[1]
_THREAD = re.compile(r"(?:Current thread|Thread) (0x[0-9a-f]+)")
_FRAME = re.compile(r'  File "(.+)", line (\d+) in (.+)')
#: functions of libraries that only pass a call on, and say nothing of what it waits for
_FORWARDING_FUNCTIONS = frozenset(
    {"wrapper", "_wrapper", "inner", "_fn", "decorate_context", "_call_impl"}
)


@dataclass(frozen=True)
class StackFrame:
    """A call on a stack."""

    file: str
    line: int
    function: str

    @property
    def is_user_code(self) -> bool:
        """Whether it is of the job's own code."""
        path = Path(self.file)
        is_file = not self.file.startswith("<")
        return is_file and is_user_code(path) and not path.is_relative_to(_PACKAGE)


@dataclass(frozen=True)
class ThreadStack:
    """The calls of one thread, the innermost first."""

    thread: str
    frames: tuple[StackFrame, ...]
    is_main: bool = False

    @property
    def user_frames(self) -> tuple[StackFrame, ...]:
        """The frames of the job's own code, the innermost first."""
        return tuple(frame for frame in self.frames if frame.is_user_code)

    @property
    def asks_chaos(self) -> bool:
        """Whether it waits for an answer of chaos's own, at a gate or a hold."""
        gates = _PACKAGE / "probe/gates.py"
        return any(Path(frame.file) == gates for frame in self.callees)

    @property
    def callees(self) -> tuple[StackFrame, ...]:
        """The calls that the job's innermost own frame has made, its own callee first."""
        own_index = next(
            (index for index, frame in enumerate(self.frames) if frame.is_user_code),
            len(self.frames),
        )
        return tuple(reversed(self.frames[:own_index]))


def parse_stacks(text: str, *, cwd: str) -> tuple[ThreadStack, ...]:
    """Return the threads of the last stacks in a file that faulthandler has written."""
    dumps: list[list[ThreadStack]] = [[]]
    current: list[StackFrame] = []
    for line in text.splitlines():
        if thread := _THREAD.match(line):
            # The same thread once more: the next answer to the signal begins.
            if any(stack.thread == thread[1] for stack in dumps[-1]):
                dumps.append([])
            current = []
            dumps[-1].append(ThreadStack(thread[1], ()))
        elif (frame := _FRAME.match(line)) and dumps[-1]:
            file = frame[1] if frame[1].startswith("<") else str(Path(cwd, frame[1]))
            current.append(StackFrame(file, int(frame[2]), frame[3]))
            dumps[-1][-1] = ThreadStack(dumps[-1][-1].thread, tuple(current))
    *other_stacks, main = dumps[-1] or [ThreadStack("", ())]
    # faulthandler begins with the newest thread; the oldest one is the main thread.
    return (
        (*other_stacks, ThreadStack(main.thread, main.frames, is_main=True)) if main.frames else ()
    )


def source_line(frame: StackFrame) -> str:
    """Return the text of a frame's line; empty where its file cannot be read."""
    return linecache.getline(frame.file, frame.line).strip()


def name_callee(stack: ThreadStack, text: Callable[[StackFrame], str] = source_line) -> str:
    """Return the name of what the job's innermost line has called; empty where it is not known."""
    callee = next(
        (frame for frame in stack.callees if frame.function not in _FORWARDING_FUNCTIONS), None
    )
    if callee is not None:
        path = Path(callee.file)
        is_library = not is_user_code(path) and "site-packages" not in path.parts
        return f"{path.stem}.{callee.function}" if is_library else callee.function
    # What is written in C has no frame. Where the line calls one function alone, it is that.
    names = _find_calls(text(stack.user_frames[0])) if stack.user_frames else ()
    return names[0] if len(names) == 1 else ""


def is_timed(stack: ThreadStack, text: Callable[[StackFrame], str] = source_line) -> bool:
    """Return whether a thread sleeps, or waits for so long at most, as its line says.

    Not within torch, whose limits are of half an hour and are there to end a hang.
    """
    if not stack.frames or any("torch" in Path(frame.file).parts for frame in stack.callees):
        return False
    line = text(stack.frames[0])
    return "sleep" in line or "timeout" in line


def runs_command(stack: ThreadStack) -> bool:
    """Return whether a thread waits for another program."""
    return any(Path(frame.file).name == "subprocess.py" for frame in stack.callees)


def select_user_stacks(stacks: Sequence[ThreadStack]) -> tuple[ThreadStack, ...]:
    """Return the threads with frames of the job's own, the training thread first if it is known."""
    user_stacks = [stack for stack in stacks if stack.user_frames]
    return tuple(sorted(user_stacks, key=lambda stack: not stack.is_main))


def _find_calls(text: str) -> tuple[str, ...]:
    source = text.rstrip(":") if text.startswith(("while ", "if ")) else text
    source = source.removeprefix("while ").removeprefix("if ").removeprefix("return ")
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return tuple(dict.fromkeys(map(ast.unparse, calls)))
