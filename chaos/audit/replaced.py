"""What an audit put in the place of a script's own settings, as a person should know it."""

from collections.abc import Iterator, Sequence

from chaos.audit.card import Replaced
from chaos.audit.extent import Extent
from chaos.audit.plans import budget
from chaos.audit.strike import Strike

_OURS = {"name": "one of each run's own", "storage_path": "the folder of each run"}
_BUDGETS = ("max_failures", "max_preemption_failures")


def replaced(extent: Extent, strikes: Sequence[Strike]) -> tuple[Replaced, ...]:
    """Return the settings that were replaced in clean runs, and retries that were raised."""
    return (*_in_all(extent), *_retries(extent, strikes))


def _in_all(extent: Extent) -> Iterator[Replaced]:
    for name, before in extent.replaced.items():
        if before is None or _is_rays(name, str(before)) or name in _BUDGETS:
            continue
        now = _OURS.get(name, extent.settings.get(name, "as an audit needs it"))
        yield Replaced(name=name, before=str(before), now=str(now))


def _is_rays(name: str, before: str) -> bool:
    """Say whether Ray 2.60 gave a setting its value, where the script names none."""
    defaults = {"name": before.startswith("ray_train_run-")}
    defaults["storage_path"] = before.endswith("/ray_results")
    return defaults.get(name, False)


def _retries(extent: Extent, strikes: Sequence[Strike]) -> Iterator[Replaced]:
    """Tell of retries only where a fault took more than the script allows."""
    given = [budget(strike, extent) for strike in strikes]
    for name in _BUDGETS:
        own = extent.own(name)
        more = [count for limits in given if (count := getattr(limits, name)) != own]
        if own is not None and more:
            span = f"{min(more)}" if min(more) == max(more) else f"{min(more)} to {max(more)}"
            yield Replaced(name=name, before=str(own), now=f"{span}, as many as the faults take")
