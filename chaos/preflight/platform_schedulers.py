"""Jobs of schedulers outside Kubernetes: SkyPilot, dstack, Anyscale, `ray up`, Slurm, submitit."""

import configparser
import re
from collections.abc import Iterator, Mapping

from chaos.errors import UsageError
from chaos.preflight.platform_doc import Doc, Taken, nodes_taken
from chaos.run.sbatch_header import Option, options_in
from chaos.words import plural


def skypilot(doc: Doc) -> Iterator[Taken]:
    """Read a task of SkyPilot, or a job configuration of oumi that becomes one."""
    count, missing = doc.number("num_nodes", what="job.nodes")
    nodes = 1 if count is None else max(1, count)
    words = f"{plural(nodes, 'node')} ({'no ' if count is None else ''}num_nodes)"
    yield missing or Taken("job.nodes", nodes, doc.line("num_nodes"), words)
    wanted = doc.at("resources")
    either = (*doc.listed("resources", "any_of"), *doc.listed("resources", "ordered"))
    said = wanted.get("use_spot", False) if isinstance(wanted, dict) else False
    spot = {one.get("use_spot", said) for one in either if isinstance(one, dict)} or {said}
    if spot != {False} or "use_spot" in str(wanted):
        on = "spot or on-demand nodes" if len(spot) > 1 else "spot nodes" if True in spot else ""
        yield Taken("", on, doc.line("resources"), f"{on or 'nodes on demand'} (use_spot)")
    yield from _recovered(doc)
    for path, mount in doc.mapping("file_mounts").items():
        mode = mount.get("mode", "MOUNT") if isinstance(mount, dict) else "COPY"
        if isinstance(mount, dict) and mode in ("MOUNT", "MOUNT_CACHED"):
            words = f"{path} is a bucket ({mode})"
            if mode == "MOUNT_CACHED":
                words += ": files are uploaded later, and a lost node takes along what was not"
            yield Taken("", mode, doc.line("file_mounts", path), words)


def _recovered(doc: Doc) -> Iterator[Taken]:
    resources = doc.mapping("resources")
    field = next((one for one in ("job_recovery", "spot_recovery") if resources.get(one)), None)
    line = doc.line("resources") if field is None else doc.line("resources", field)
    if field is None:
        words = "whether it is a managed job, started again after a preemption, is not in it"
        yield Taken("", None, line, words)
        return
    given = doc.mapping("resources", field)
    told = ", ".join(f"{key} {value}" for key, value in given.items()) or resources[field]
    yield Taken("", told, line, f"{field}: {told}")
    words = "a managed job (`sky jobs launch`) is started again after each preemption"
    yield Taken("settings.job_retries", -1, line, words)


def dstack(doc: Doc) -> Iterator[Taken]:
    """Read a task of dstack."""
    yield from _nodes(doc, "nodes")
    policy = doc.at("spot_policy") or "on-demand"
    yield Taken("", policy, doc.line("spot_policy"), f"nodes: {policy} (spot_policy)")
    retry = doc.at("retry")
    again = bool(retry) and "interruption" in str(doc.at("retry", "on_events") or "interruption")
    words = f"it is {'' if again else 'not '}started again after an interruption (retry)"
    yield Taken("settings.job_retries", -1 if again else 0, doc.line("retry"), words)


def anyscale(doc: Doc) -> Iterator[Taken]:
    """Read a job of Anyscale, or its compute configuration."""
    inside = ("compute_config",) if doc.mapping("compute_config") else ()
    groups = (*inside, "worker_nodes")
    least = most = 0
    for number, _ in enumerate(doc.listed(*groups)):
        group = (*groups, number)
        few, many = doc.whole(*group, "min_nodes") or 0, doc.whole(*group, "max_nodes")
        least, most = least + few, most + (10 if many is None else many)
        kind = doc.at(*group, "market_type")
        if kind is not None:
            words = f"nodes: {str(kind).lower().replace('_', ' ')} (market_type)"
            yield Taken("", kind, doc.line(*group, "market_type"), words)
    yield from _held(least, most, doc.line(*groups), "min_nodes", "max_nodes")
    if str(doc.at(*inside, "head_node", "market_type") or "").endswith("SPOT"):
        words = "the head stands on spot nodes"
        yield Taken("settings.head_on_spot", True, doc.line(*inside, "head_node"), words)
    retries = doc.whole("max_retries")
    if retries is not None:
        words = f"{plural(retries, 'more start')} after one that failed (max_retries)"
        yield Taken("", retries, doc.line("max_retries"), words)


def _nodes(doc: Doc, *loc: str) -> Iterator[Taken]:
    """Yield a number of nodes that is one where it is not said."""
    count = doc.whole(*loc)
    nodes = 1 if count is None else max(1, count)
    words = f"{plural(nodes, 'node')} ({'no ' if count is None else ''}{loc[-1]})"
    yield Taken("job.nodes", nodes, doc.line(*loc), words)


_MARKETS = re.compile(
    r"(?i)'(?:preemptible|spot)': true|'markettype': 'spot'|'provisioningmodel': 'spot'|"
    r"'priority': 'spot'"
)


def ray_up(doc: Doc) -> Iterator[Taken]:
    """Read a file of Ray's cluster launcher."""
    head, types, least, most = doc.at("head_node_type"), ("available_node_types",), 0, 0
    for name, group in doc.mapping(*types).items():
        is_spot = (
            _MARKETS.search(str(group.get("node_config"))) if isinstance(group, dict) else None
        )
        if is_spot and name == head:
            words = "the head stands on spot nodes"
            yield Taken("settings.head_on_spot", True, doc.line(*types, name), words)
        elif is_spot:
            yield Taken("", True, doc.line(*types, name), f"{name}: spot nodes")
        if name != head:
            few = doc.whole(*types, name, "min_workers") or 0
            most += max(few, doc.whole(*types, name, "max_workers") or 0)
            least += few
    limit = doc.whole("max_workers")
    most = most if limit is None else min(most, limit)
    yield from _held(least, most, doc.line(*types), "min_workers", "max_workers")


def _held(least: int, most: int, line: int, few: str, many: str) -> Iterator[Taken]:
    """Yield the nodes that are kept, and those that may be started."""
    yield from nodes_taken(least, line, f"{plural(least, 'worker')} at least ({few})")
    if not least:
        words = f"job.nodes is missing: 0 to {most} workers ({few}, {many})"
        yield Taken("", None, line, words)
    if most > least:
        yield Taken("job.nodes_max", most, line, f"{most} may be started ({many})")


def submitit(doc: Doc) -> Iterator[Taken]:
    """Read the settings of hydra's launcher for Slurm, submitit."""
    inside = ("hydra", "launcher") if doc.mapping("hydra", "launcher") else ()
    yield from _nodes(doc, *inside, "nodes")
    minutes = doc.whole(*inside, "timeout_min")
    if minutes:
        words = f"each start is ended after {minutes / 60:.3g} h (timeout_min)"
        yield Taken("", minutes, doc.line(*inside, "timeout_min"), words)
    again = doc.whole(*inside, "max_num_timeout") or 0
    words = (
        f"queued again {plural(again, 'time')} after a time limit (max_num_timeout), and after a "
        "preemption, if what it calls has `checkpoint`"
    )
    yield Taken("", again, doc.line(*inside, "max_num_timeout"), words)


def determined(doc: Doc) -> Iterator[Taken]:
    """Read an experiment of Determined."""
    slots = doc.whole("resources", "slots_per_trial") or 1
    words = f"job.nodes is missing: {plural(slots, 'slot')}, which are GPUs (slots_per_trial)"
    yield Taken("", slots, doc.line("resources", "slots_per_trial"), words)
    restarts = doc.whole("max_restarts")
    line = doc.line("max_restarts")
    count = 5 if restarts is None else restarts
    words = f"a trial is started again {plural(count, 'time')} (max_restarts)"
    yield Taken("settings.job_retries", count, line, words)


def torchx(path: str, text: str) -> Iterator[Taken]:
    """Read a `.torchxconfig`; raises `UsageError` for one that cannot be read."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        hint = "It is read as a .torchxconfig."
        raise UsageError(str(error).splitlines()[0], hint, place=path) from None
    lines = {line.split("=")[0].strip(): n for n, line in enumerate(text.splitlines(), 1)}
    for section in parser.sections():
        size = re.match(r"(?:(\d+):)?(\d+)x", parser[section].get("j", ""))
        if size is not None:
            nodes, line = int(size[2]), lines.get("j", 1)
            yield Taken("job.nodes", nodes, line, f"{plural(nodes, 'node')} (j of {section})")
            if size[1] is not None and int(size[1]) < nodes:
                words = f"it goes on with {size[1]} (j of {section})"
                yield Taken("job.min_nodes", int(size[1]), line, words)
        retries = parser[section].get("max_retries", "")
        if retries.isdigit():
            words = f"{plural(int(retries), 'more start')} after one that failed (max_retries)"
            yield Taken("settings.job_retries", int(retries), lines.get("max_retries", 1), words)


# -- Slurm -------------------------------------------------------------------------------------


def sbatch(text: str) -> Iterator[Taken]:
    """Read the header of a script for `sbatch`."""
    given = options_in(text)
    none = Option("", next(iter(given.values()), Option("", 1)).line)
    yield from _nodes_of(given.get("--nodes", none))
    limit = given.get("--time", none)
    if hours := _hours(limit.value):
        words = f"each start is ended after {hours:.3g} h (--time)"
        yield Taken("settings.start_limit_h", hours, limit.line, words)
    yield _queued_again(given, none)
    if (signal := given.get("--signal")) is not None:
        words = (
            "a signal before its --time is over, at a preemption only with the cluster's "
            f"preempt_send_user_signal (--signal={signal.value})"
        )
        before_s = _before_limit_s(signal.value) if _hours(limit.value) else None
        place = "settings.limit_signal_s" if before_s else ""
        yield Taken(place, before_s or signal.value, signal.line, words)
        if _tells_traps(text):
            yield from _traps(text, signal)
    mode = given.get("--open-mode", none)
    if mode.value != "append":
        unless = "" if mode.value else ", unless the cluster says append"
        words = f"its output is written anew at each start{unless} (--open-mode)"
        yield Taken("", mode.value, mode.line, words)


def _before_limit_s(signal: str) -> int | None:
    """Return the seconds of `[B:]USR1[@60]` before the time limit; None if it is to be filled in.

    Left out, it is a minute (Slurm 22.05, sbatch(1): --signal).
    """
    name, _, seconds = signal.partition("@")
    if not name or "$" in signal:
        return None
    return int(seconds) if seconds.isdigit() and int(seconds) else None if seconds else 60


_TRAP = re.compile(r"\s*trap\s+(?:--\s+)?(?:'[^']*'|\"[^\"]*\"|\S+)\s+(.+)")
_SHELL = re.compile(r"#!.*\b(?:ba|da|z|k)?sh\b")
_BESIDE = re.compile(r"(?<![&>])&(?![&>])|\bwait\b")
_EXEC = re.compile(r"\s*exec\s+(?:srun|torchrun|python\S*|accelerate|mpirun)\b")


def _traps(text: str, signal: Option) -> Iterator[Taken]:
    """Yield what bash does not hear of the signal that a script asks for (bash(1), sbatch(1)).

    A trap is run when the command in the foreground has ended, and only by the shell that has it.
    """
    to, _, rest = signal.value.rpartition(":")
    name = rest.partition("@")[0].removeprefix("SIG").upper()
    lines = list(enumerate(text.splitlines(), 1))
    traps = [n for n, line in lines if (found := _TRAP.match(line)) and _names(found[1], name)]
    replaced = next((n for n, line in lines if _EXEC.match(line)), None)
    if "B" not in to.upper():
        if traps:
            words = f"the trap of SIG{name} is not run: without B: only the steps get the signal"
            yield Taken("", signal.value, traps[0], words)
        elif not _reads_others(lines) and not any("srun" in line for _, line in lines):
            words = f"nothing gets SIG{name}: without B: only steps do, and nothing is run by srun"
            yield Taken("", signal.value, signal.line, words)
    elif replaced is not None and traps:
        words = f"exec replaces the shell that has the trap of SIG{name}"
        yield Taken("", signal.value, replaced, words)
    elif not traps and replaced is None and not _reads_others(lines):
        words = (
            f"SIG{name} ends the batch shell, which has no trap for it (--signal={signal.value})"
        )
        yield Taken("", signal.value, signal.line, words)
    elif traps and not any(_BESIDE.search(_code(line)) for _, line in lines):
        words = (
            f"the trap of SIG{name} is run when the command in the foreground has ended: none is "
            "started with & and waited for"
        )
        yield Taken("", signal.value, traps[0], words)


def _tells_traps(text: str) -> bool:
    """Return whether each trap of a script is read: those of a shell, each on a line of its own.

    A script in another language has handlers, and not traps.
    """
    named = (line for line in text.splitlines() if re.search(r"\btrap\b", _code(line)))
    return bool(_SHELL.match(text)) and all(map(_TRAP.match, named))


def _names(signals: str, name: str) -> bool:
    """Return whether a trap is one of a signal: by its name, or by a number or variable."""
    words = (word.removeprefix("SIG").upper() for word in _code(signals).split())
    is_number = name.isdigit()  # of which signal, the machine knows
    return any(word == name or word[0] in "$123456789" or is_number for word in words)


def _reads_others(lines: list[tuple[int, str]]) -> bool:
    """Return whether a script reads another one, which may set a trap."""
    return any(re.match(r"\s*(?:source|\.)\s", line) for _, line in lines)


def _code(line: str) -> str:
    return line.partition("#")[0]


def _nodes_of(option: Option) -> Iterator[Taken]:
    count = option.value.partition("-")[0] or "1"
    if count.isdigit():
        said = "--nodes" if option.value else "no --nodes: unless `sbatch` is given it"
        words = f"{plural(int(count), 'node')} ({said})"
        yield Taken("job.nodes", int(count), option.line, words)
    else:
        words = f"job.nodes is missing: --nodes is {option.value}, to be filled in"
        yield Taken("", option.value, option.line, words)


def _queued_again(given: Mapping[str, Option], none: Option) -> Taken:
    if "--requeue" in given:
        words = "it is queued again (--requeue)"
        return Taken("settings.job_retries", -1, given["--requeue"].line, words)
    if "--no-requeue" in given:
        words = "it is not queued again: a preemption ends it (--no-requeue)"
        return Taken("settings.job_retries", 0, given["--no-requeue"].line, words)
    words = "--requeue is missing: whether it is queued again is the cluster's default"
    return Taken("", None, none.line, words)


def _hours(limit: str) -> float | None:
    """Return the hours of a time limit of Slurm: `minutes`, `h:m:s`, `days-h:m`, …."""
    days, dash, rest = limit.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdigit() for part in (*parts, *([days] if dash else []))):
        return None
    numbers = [int(part) for part in parts]
    if dash:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
    elif len(numbers) == 3:  # noqa: PLR2004
        hours, minutes, seconds = numbers
    else:
        hours, (minutes, seconds) = 0, (*numbers, 0)[:2]
    return 24 * int(days or 0) + hours + minutes / 60 + seconds / 3600
