"""The place that chaos was installed from, and the line that installs more of it from there.

Every hint, `chaos init` and `chaos doctor` take their line from here. pip and uv record the place
as PEP 610 has it, in `direct_url.json` beside the package's metadata; an install by name from an
index has no such file.
"""

import json
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from chaos import __version__

NAME = "ray-train-chaos"
REPOSITORY = "https://github.com/ray-train-chaos/ray-train-chaos"
#: of the release that this is, or that it comes after
TAG = f"v{__version__}"

Source: TypeAlias = Literal["index", "git", "folder", "file"]
#: `uv tool install` writes it into the environment that it makes.
RECEIPT = "uv-receipt.toml"
#: uv 0.13 keeps the environments of `uvx` in a folder of its cache with this name and a number.
UVX_FOLDER_PREFIX = "archive-v"
#: the entry points of packages that extend chaos
FAULTS_GROUP, CHECKS_GROUP = "chaos.faults", "chaos.checks"
COMMANDS_GROUP, LAUNCHERS_GROUP = "chaos.commands", "chaos.launchers"


@dataclass(frozen=True)
class Installation:
    """One install of chaos: its source, and the tool that made it."""

    source: Source = "index"
    #: of the repository, of the archive, or a path
    location: str = ""
    #: a tag, a branch, or the commit
    revision: str = ""
    is_editable: bool = False
    tool: str = "pip install"

    def __str__(self) -> str:
        match self.source:
            case "index":
                return "an index of packages"
            case "git":
                return f"git+{self.location}@{self.revision}"
            case "folder" | "file":
                return self.location

    def build_requirement(self, extra: str | None = None) -> str:
        """Return the requirement that installs chaos from the same place, with one extra."""
        extras = f"[{extra}]" if extra else ""
        if self.source == "git":
            return f"{NAME}{extras} @ {self}"
        if self.source == "index":
            return f"{NAME}{extras}"
        if "://" in self.location:
            return f"{NAME}{extras} @ {self.location}"
        return f"{_format_pip_path(Path(self.location))}{extras}"

    def build_command(self, extra: str | None = None) -> str:
        """Return the command that installs it."""
        editable = "-e " if self.is_editable and "pip" in self.tool else ""
        requirement = f"{editable}'{self.build_requirement(extra)}'"
        return self.tool.format(requirement) if "{" in self.tool else f"{self.tool} {requirement}"

    @property
    def portable_installation(self) -> "Installation":
        """The same chaos for another machine: what only this one has, by the tag of its release."""
        is_local = self.source in ("folder", "file") and not self.location.startswith("http")
        is_local = is_local or (self.source == "git" and self.location.startswith("file:"))
        return Installation("git", REPOSITORY, TAG) if is_local else self


def find_installation() -> Installation:
    """Return how this chaos was installed."""
    try:
        distribution = metadata.distribution(NAME)
    except metadata.PackageNotFoundError:  # a checkout that is on the path
        return _find_folder_installation(Path(__file__).parents[1], is_editable=True)
    return parse_installation(
        distribution.read_text("direct_url.json"),
        distribution.read_text("INSTALLER"),
        Path(sys.prefix),
    )


def build_install_command(extra: str) -> str:
    """Return the command that installs an extra of chaos here."""
    return find_installation().build_command(extra)


def parse_installation(direct_url: str | None, installer: str | None, prefix: Path) -> Installation:
    """Return an install by the texts of its metadata and the environment that it is in."""
    recorded_source = Installation()
    with suppress(ValueError, KeyError, TypeError, AttributeError):  # a record of others
        recorded_source = _parse_record(json.loads(direct_url or "{}"))
    return Installation(
        recorded_source.source,
        recorded_source.location,
        recorded_source.revision,
        recorded_source.is_editable,
        _find_tool(installer, prefix),
    )


def _find_tool(installer: str | None, prefix: Path) -> str:
    if (installer or "").strip() != "uv":
        return "pip install"
    if (prefix / RECEIPT).is_file():
        return "uv tool install --force"
    return (
        "uvx --from {} chaos"
        if prefix.parent.name.startswith(UVX_FOLDER_PREFIX)
        else "uv pip install"
    )


def _parse_record(record: dict[str, Any]) -> Installation:
    url = str(record.get("url", ""))
    if not url:
        return Installation()
    if (vcs := record.get("vcs_info")) is not None:
        return Installation("git", url, str(vcs.get("requested_revision") or vcs["commit_id"]))
    if not url.startswith("file:"):
        return Installation("file", url)
    path = Path(unquote(urlsplit(url).path))
    if "dir_info" in record:
        return _find_folder_installation(path, is_editable=bool(record["dir_info"].get("editable")))
    return (
        Installation("file", str(path)) if path.is_file() else Installation("git", REPOSITORY, TAG)
    )


def _find_folder_installation(path: Path, *, is_editable: bool) -> Installation:
    """Return the install of a folder; one that is gone is replaced by the release."""
    if not (path / "pyproject.toml").is_file():
        return Installation("git", REPOSITORY, TAG)
    return Installation("folder", str(path), is_editable=is_editable)


def _format_pip_path(path: Path) -> str:
    """Return a path as pip takes it for one, relative to the working folder if it is below."""
    working_folder = Path.cwd()
    if path == working_folder:
        return "."
    return (
        f"./{path.relative_to(working_folder)}"
        if path.is_relative_to(working_folder)
        else str(path)
    )
