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
OF_UVX = "archive-v"
#: the entry points of packages that extend chaos
FAULTS_GROUP, CHECKS_GROUP = "chaos.faults", "chaos.checks"


@dataclass(frozen=True)
class Installed:
    """One install of chaos: its source, and the tool that made it."""

    source: Source = "index"
    #: of the repository, of the archive, or a path
    where: str = ""
    #: a tag, a branch, or the commit
    revision: str = ""
    is_editable: bool = False
    tool: str = "pip install"

    def __str__(self) -> str:
        match self.source:
            case "index":
                return "an index of packages"
            case "git":
                return f"git+{self.where}@{self.revision}"
            case "folder" | "file":
                return self.where

    def requirement(self, extra: str | None = None) -> str:
        """Return the requirement that installs chaos from the same place, with one extra."""
        extras = f"[{extra}]" if extra else ""
        if self.source == "git":
            return f"{NAME}{extras} @ {self}"
        if self.source == "index":
            return f"{NAME}{extras}"
        if "://" in self.where:
            return f"{NAME}{extras} @ {self.where}"
        return f"{_from_here(Path(self.where))}{extras}"

    def line(self, extra: str | None = None) -> str:
        """Return the command that installs it."""
        editable = "-e " if self.is_editable and "pip" in self.tool else ""
        requirement = f"{editable}'{self.requirement(extra)}'"
        return self.tool.format(requirement) if "{" in self.tool else f"{self.tool} {requirement}"

    @property
    def elsewhere(self) -> "Installed":
        """The same chaos for another machine: what only this one has, by the tag of its release."""
        is_here = self.source in ("folder", "file") and not self.where.startswith("http")
        is_here = is_here or (self.source == "git" and self.where.startswith("file:"))
        return Installed("git", REPOSITORY, TAG) if is_here else self


def installed() -> Installed:
    """Return how this chaos was installed."""
    try:
        there = metadata.distribution(NAME)
    except metadata.PackageNotFoundError:  # a checkout that is on the path
        return _of_folder(Path(__file__).parents[1], is_editable=True)
    return read(there.read_text("direct_url.json"), there.read_text("INSTALLER"), Path(sys.prefix))


def is_extended() -> bool:
    """Return whether any package registers an extension of chaos; none is imported."""
    return any(metadata.entry_points(group=group) for group in (FAULTS_GROUP, CHECKS_GROUP))


def install_line(extra: str) -> str:
    """Return the command that installs an extra of chaos here."""
    return installed().line(extra)


def read(direct_url: str | None, installer: str | None, prefix: Path) -> Installed:
    """Return an install by the texts of its metadata and the environment that it is in."""
    made = Installed()
    with suppress(ValueError, KeyError, TypeError, AttributeError):  # a record of others
        made = _of_record(json.loads(direct_url or "{}"))
    return Installed(
        made.source, made.where, made.revision, made.is_editable, _tool(installer, prefix)
    )


def _tool(installer: str | None, prefix: Path) -> str:
    if (installer or "").strip() != "uv":
        return "pip install"
    if (prefix / RECEIPT).is_file():
        return "uv tool install --force"
    return "uvx --from {} chaos" if prefix.parent.name.startswith(OF_UVX) else "uv pip install"


def _of_record(record: dict[str, Any]) -> Installed:
    url = str(record.get("url", ""))
    if not url:
        return Installed()
    if (vcs := record.get("vcs_info")) is not None:
        return Installed("git", url, str(vcs.get("requested_revision") or vcs["commit_id"]))
    if not url.startswith("file:"):
        return Installed("file", url)
    path = Path(unquote(urlsplit(url).path))
    if "dir_info" in record:
        return _of_folder(path, is_editable=bool(record["dir_info"].get("editable")))
    return Installed("file", str(path)) if path.is_file() else Installed("git", REPOSITORY, TAG)


def _of_folder(path: Path, *, is_editable: bool) -> Installed:
    """Return the install of a folder; one that is gone is replaced by the release."""
    if not (path / "pyproject.toml").is_file():
        return Installed("git", REPOSITORY, TAG)
    return Installed("folder", str(path), is_editable=is_editable)


def _from_here(path: Path) -> str:
    """Return a path as pip takes it for one, relative to the working folder if it is below."""
    here = Path.cwd()
    if path == here:
        return "."
    return f"./{path.relative_to(here)}" if path.is_relative_to(here) else str(path)
