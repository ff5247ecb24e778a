"""The options of an audit as they are written: by name, with texts where a value has a form."""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

from chaos import settings
from chaos.app.acceptance import parse_accepted_finding
from chaos.app.project_defaults import PathLike
from chaos.app.script import parse_node_range
from chaos.audit.answer import ACCEPTABLE
from chaos.audit.plans import NodeRange
from chaos.audit.site_category import Question
from chaos.errors import RequestError
from chaos.model.arguments import build_command_line
from chaos.model.expect import Acceptable, AcceptedFinding, Sampling
from chaos.model.launcher import Launcher
from chaos.model.launcher_facts import Restart
from chaos.model.plan import PlanBackend
from chaos.model.scenario import TIERS, Tier

#: A script's own arguments: by name, word by word, or as on a command line.
Args: TypeAlias = Mapping[str, Any] | Sequence[str | int | float]


class AuditOptions(TypedDict, total=False):
    """The keywords of `chaos.audit`, in the order of the command's options.

    `chaos audit --help` explains each; None is as if it were left out.
    """

    module: bool | None
    question: Question | None
    time_limit: float | str | None
    max_runs: int | None
    exitfirst: bool | None
    exhaustive: bool | None
    one_by_one: bool | None
    places: Sequence[str] | None
    continues: bool | None
    accept: Sequence[Acceptable | str | AcceptedFinding] | None
    sampling: Sampling | None
    tolerance: float | None
    confirm: bool | None
    explain: bool | None
    controls: bool | None
    launcher: Launcher | None
    workers: int | None
    retries: int | None
    restart: Restart | None
    restart_args: Args | None
    nodes: int | str | None
    grace: float | str | None
    epoch_steps: int | None
    fit: int | None
    storage: str | None
    tier: Mapping[PathLike, Tier] | None
    allow_writes: Sequence[PathLike] | None
    seed: int | None
    jobs: int | None
    backend: PlanBackend | None
    address: str | None
    reports: PathLike | None


def split_arguments(args: Args) -> tuple[str, ...]:
    """Return the words of a script's own arguments."""
    if isinstance(args, str):
        return tuple(shlex.split(args))
    return tuple(build_command_line(dict(args) if isinstance(args, Mapping) else tuple(args)))


def parse_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as the values of a request; one that is None is left out.

    Raises `RequestError` for a text that has not its option's form.
    """
    return {
        name: _PARSERS[name](value) if name in _PARSERS else value
        for name, value in options.items()
        if value is not None
    }


def _parse_seconds(field: str, value: float | str) -> float:
    if not isinstance(value, str):
        return float(value)
    try:
        return settings.parse_seconds(value)
    except ValueError as error:
        raise RequestError("{error}", field=field, error=error) from None


def _parse_nodes(value: int | str | Sequence[int]) -> NodeRange:
    if isinstance(value, str | int):
        return parse_node_range(str(value))
    return parse_node_range(":".join(map(str, value)))


def _parse_accepted(
    items: Sequence[str | AcceptedFinding],
) -> tuple[Acceptable | AcceptedFinding, ...]:
    return tuple(
        item if isinstance(item, AcceptedFinding) else _parse_accepted_word(item) for item in items
    )


def _parse_accepted_word(word: str) -> Acceptable | AcceptedFinding:
    severity = next((severity for severity in ACCEPTABLE if severity == word), None)
    return severity or parse_accepted_finding(word)


def _parse_tiers(tiers: Mapping[PathLike, str] | Sequence[str]) -> dict[str, Tier]:
    """Return the tier of each path, from a mapping or from `PATH=TIER`."""
    words: Sequence[str]
    if isinstance(tiers, Mapping):
        words = [f"{os.fspath(path)}={tier}" for path, tier in tiers.items()]
    else:
        words = tiers
    tier_by_path: dict[str, Tier] = {}
    for word in words:
        path, _, tier = word.rpartition("=")
        if not path or tier not in TIERS:
            raise RequestError(
                "a tier is a path, = and {tiers}; got '{word}'",
                "For example: {tier:/local/ckpt=node}",
                field="tier",
                tiers=" or ".join(TIERS),
                word=word,
            )
        tier_by_path[path] = tier
    return tier_by_path


_PARSERS: Mapping[str, Callable[[Any], object]] = {
    "time_limit": lambda value: _parse_seconds("time_limit", value),
    "grace": lambda value: _parse_seconds("grace", value),
    "places": tuple,
    "kinds": tuple,
    "accept": _parse_accepted,
    "restart_args": split_arguments,
    "nodes": _parse_nodes,
    "tier": _parse_tiers,
    "allow_writes": lambda paths: tuple(map(Path, paths)),
    "reports": Path,
}
