"""The errors that are not the tested job's doing, drawn as a tree.

    ChaosError
    ├── UsageError        the caller's: exit code 3
    │   ├── RequestError      a value of a request is wrong
    │   ├── ScenarioError     a scenario file is wrong, at a line
    │   ├── JobError          the job cannot run even without a fault
    │   │   ├── FailedJobError      it fails without any fault
    │   │   ├── OtherLauncherError  it is for another launcher than the one that starts it
    │   │   └── UnmetNeedError    its environment lacks what it needs
    │   │       └── MissingExtraError   a package that an extra of ours installs
    │   ├── RefusalError      chaos cannot inject faults into the job; it may be all right
    │   │   ├── NeedsClusterError     it uses a part of Ray that the embedded backend lacks
    │   │   ├── ComputedEarlyError    it has begun what a forked process cannot continue
    │   │   └── ForeignFileError      it is about to overwrite what was there before
    │   ├── HistoryError      a run directory or one of its files cannot be read
    │   └── ClusterError      the cluster cannot hold the job
    └── HarnessError      ours, or the machine's: exit code 4
        └── NoViewError       a lane can have no view of its own: runs go one at a time

A failure of the tested system is never an exception here: it is an event. `InjectedError` stands
apart: it is harm, raised in the tested job on purpose.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn, Self, TypeAlias

from chaos.installation import build_install_command


class ChaosError(Exception):
    """The base of the errors that chaos raises on purpose; `cli` and the pytest plugin catch it."""


def raise_when_called(build_error: Callable[..., Exception]) -> Callable[..., NoReturn]:
    """Return a function that raises the error made of its arguments, in place of another one."""

    def raise_error(*args: object, **keywords: object) -> NoReturn:
        raise build_error(*args, **keywords)

    return raise_error


class UsageError(ChaosError):
    """A mistake that the caller can correct; the message names it, and how."""

    def __init__(self, problem: str, hint: str = "", *, location: str = "") -> None:
        self.problem = problem
        self.hint = hint
        self.location = location
        head = f"{location}: {problem}" if location else problem
        super().__init__(f"{head}. {hint}" if hint else head)


#: The name of a request's field, and with a value what sets it to that, where a request is made.
DescribeField: TypeAlias = Callable[[str, str], str]


def describe_keyword(field: str, value: str) -> str:
    """Return a field as a call in Python names it: `restart="command"`."""
    if not value:
        return field
    if value.startswith('"'):
        return f"{field}=[{value}]"
    path, is_mapping, kind = value.partition("=")
    if is_mapping:
        return f'{field}={{"{path}": "{kind}"}}'
    return f"{field}={value}" if value.isdecimal() else f'{field}="{value}"'


class _Field:
    """A field in a template: `{workers}` is its name, `{workers:2}` sets it."""

    def __init__(self, name: str, describe: DescribeField) -> None:
        self._name, self._describe = name, describe

    def __format__(self, value: str) -> str:
        return self._describe(self._name, value)


class _TemplateNames(dict[str, object]):
    """The names in a template: its texts, and the fields of a request."""

    def __init__(self, texts: Mapping[str, object], describe: DescribeField) -> None:
        super().__init__(texts)
        self._describe = describe

    def __missing__(self, name: str) -> object:
        return _Field(name, self._describe)


class RequestError(UsageError):
    """A value of a request is wrong. In its words a field has the name that it has in Python.

    `problem` and `hint` are templates with fields in braces, `{workers}` and `{workers:2}`, so that
    the command line can name its options; `texts` are inserted as they are.
    """

    def __init__(
        self,
        problem: str,
        hint: str = "",
        *,
        field: str = "",
        describe: DescribeField = describe_keyword,
        **texts: Any,  # noqa: ANN401 - whatever is shown as a text
    ) -> None:
        self.field = field
        self._templates, self._texts = (problem, hint), texts
        names = _TemplateNames(texts, describe)
        super().__init__(
            problem.format_map(names),
            hint.format_map(names),
            location=describe(field, "") if field else "",
        )

    def rename_fields(self, describe: DescribeField) -> "RequestError":
        """Return the error with other names for the fields."""
        return RequestError(*self._templates, field=self.field, describe=describe, **self._texts)


class ScenarioError(UsageError):
    """A scenario file is wrong at one line."""

    def __init__(self, path: Path | str, line: int, problem: str, hint: str = "") -> None:
        self.path = Path(path)
        self.line = line
        super().__init__(problem, hint, location=f"{path}:{line}")


class JobError(UsageError):
    """The job under test cannot run even without a fault, so nothing can be judged.

    `log_lines`: the last lines of its own log.
    """

    def __init__(
        self, problem: str, hint: str = "", *, location: str = "", log_lines: Sequence[str] = ()
    ) -> None:
        super().__init__(problem, hint, location=location)
        self.log_lines = tuple(log_lines)


class FailedJobError(JobError):
    """The job fails without any fault."""


class OtherLauncherError(JobError):
    """The job was started by a launcher that is not the one that it is for.

    `evidence`: what shows the right one, by its place in the code.
    """

    def __init__(
        self,
        problem: str,
        hint: str,
        *,
        location: str,
        launcher: Literal["torchrun", "python"],
        evidence: str,
    ) -> None:
        self.launcher = launcher
        self.evidence = evidence
        super().__init__(problem, hint, location=location)


class UnmetNeedError(JobError):
    """The environment lacks something that the job declares to need.

    In a suite the scenario is skipped: nothing is wrong with it or the job.
    """


class MissingExtraError(UnmetNeedError):
    """The job needs a package that an extra of chaos installs, and that is not there."""

    @classmethod
    def from_package(cls, subject: str, package: str, extra: str, *, location: str = "") -> Self:
        """Return the error for one package; `subject` needs it."""
        problem = f"{subject} needs {package}, which is not installed"
        return cls(problem, build_install_command(extra), location=location)


class RefusalError(UsageError):
    """Chaos cannot inject faults into this job; whether the job is right remains open."""


class NeedsClusterError(RefusalError):
    """The job uses a part of Ray's core that only a cluster has."""

    @classmethod
    def from_feature(cls, feature: str) -> Self:
        """Return the error for one thing, as code names it, with the line that uses it."""
        return cls(
            f"the job uses {feature}, which the embedded backend does not have",
            "Test it on a local Ray cluster: `chaos init` writes a scenario for the script, and "
            "`chaos run --backend ray` runs it.",
        )


class LocalModeError(RefusalError):
    """The job trains within its own process, which Ray Train starts no worker for."""

    @classmethod
    def create(cls) -> Self:
        """Return the error, with what starts such a job."""
        return cls(
            "the job trains in Ray Train's local mode (ScalingConfig(num_workers=0)), in which "
            "Ray starts no worker that could fail",
            "If torchrun starts this script, audit it so: --launcher torchrun. Or give it workers: "
            "--workers 2.",
        )


class ComputedEarlyError(RefusalError):
    """The script has begun, before its `fit()`, a computation that does not survive a fork."""

    @classmethod
    def from_library(cls, library: str) -> Self:
        """Return the error for one library."""
        return cls(
            f"the job computes with {library} before its fit(), and in the processes that the "
            "embedded backend forks there it would hang",
            "Compute within the train function, or test it on a local Ray cluster: `chaos run "
            "--backend ray`.",
        )


class ForeignFileError(RefusalError):
    """An audited job was about to overwrite or remove a file that is not its own."""

    @classmethod
    def from_path(cls, path: str, action: str) -> Self:
        """Return the error for one file; `action` is "overwrite" or "remove"."""
        return cls(
            f"the job was about to {action} {path}, which was there before the audit; nothing was "
            "done to it",
            "Have the job write elsewhere, by an option of its own after --, or move the file "
            f"away; or let the audit do it: --allow-writes {path}",
        )


class RemoteStoreError(RefusalError):
    """An audited job was about to write into an object store that is not on this machine."""

    @classmethod
    def from_path(cls, path: str) -> Self:
        """Return the error for one object."""
        return cls(
            f"the job was about to write {path}, into an object store that is not on this "
            "machine; nothing was done to it",
            "Start a store here and name it to the job (AWS_ENDPOINT_URL=http://127.0.0.1:PORT), "
            "or let the audit write there; it removes what it has made, and nothing else: "
            f"--allow-writes {path.rpartition('/')[0]}",
        )


class HistoryError(UsageError):
    """A run directory, a plan or a history cannot be read."""


class ClusterError(UsageError):
    """The cluster cannot hold the job, or is not ours to use."""


class HarnessError(ChaosError):
    """chaos itself failed; the run directory holds what was recorded before."""


class NoViewError(HarnessError):
    """A lane cannot have a view of its own, here or of some folders: the reason."""


class ResumeMismatchError(RuntimeError):
    """A restart did not bring back what was saved, where `chaos guard` was asked to stop it."""


class InjectedError(RuntimeError):
    """The exception of `raise_in_worker` in a train function; no part of chaos may catch it."""


class InjectedWriteError(OSError, InjectedError):
    """The exception of `fail_save` in a write of the job's."""


class LoaderLostError(InjectedError):
    """torch's error of a lost loader process, passed on to the job from where its rank was held."""


def parse_refusal(text: str) -> str | None:
    """Return the message of a refusal in a text: `SomeError: …`, with or without a module."""
    name, colon, message = text.strip().partition(": ")
    refusal_types: list[type[RefusalError]] = [RefusalError, *RefusalError.__subclasses__()]
    is_refusal = colon and name.rpartition(".")[2] in {
        refusal_type.__name__ for refusal_type in refusal_types
    }
    return message.strip() if is_refusal else None
