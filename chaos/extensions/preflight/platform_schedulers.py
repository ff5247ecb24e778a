"""Jobs of schedulers outside Kubernetes: SkyPilot, dstack, Anyscale, `ray up`, Slurm, submitit."""

import configparser
import re
from collections.abc import Collection, Iterator, Mapping

from chaos.errors import UsageError
from chaos.extensions.preflight.platform_doc import FileValue, PlatformDocument, list_nodes
from chaos.extensions.preflight.script_requeues import surely_requeues
from chaos.extensions.sbatch_header import SbatchOption, parse_options
from chaos.wording import plural


def skypilot(doc: PlatformDocument) -> Iterator[FileValue]:
    """Read a task of SkyPilot, or a job configuration of oumi that becomes one."""
    count, missing = doc.number("num_nodes", name="job.nodes")
    nodes = 1 if count is None else max(1, count)
    words = f"{plural(nodes, 'node')} ({'no ' if count is None else ''}num_nodes)"
    yield missing or FileValue("job.nodes", nodes, doc.line("num_nodes"), words)
    resources = doc.get_value("resources")
    alternatives = (*doc.sequence("resources", "any_of"), *doc.sequence("resources", "ordered"))
    default_spot = resources.get("use_spot", False) if isinstance(resources, dict) else False
    spot_choices = {
        alternative.get("use_spot", default_spot)
        for alternative in alternatives
        if isinstance(alternative, dict)
    } or {default_spot}
    if spot_choices != {False} or "use_spot" in str(resources):
        node_kind = _describe_spot_choices(spot_choices)
        yield FileValue(
            "", node_kind, doc.line("resources"), f"{node_kind or 'nodes on demand'} (use_spot)"
        )
    yield from _parse_recovery(doc)
    for path, mount in doc.mapping("file_mounts").items():
        mode = mount.get("mode", "MOUNT") if isinstance(mount, dict) else "COPY"
        if isinstance(mount, dict) and mode in ("MOUNT", "MOUNT_CACHED"):
            words = f"{path} is a bucket ({mode})"
            if mode == "MOUNT_CACHED":
                words += ": files are uploaded later, and a lost node takes along what was not"
            yield FileValue("", mode, doc.line("file_mounts", path), words)


def _describe_spot_choices(spot_choices: Collection[object]) -> str:
    """Return the kind of nodes that a task may get; empty for nodes on demand."""
    if len(spot_choices) > 1:
        return "spot or on-demand nodes"
    return "spot nodes" if True in spot_choices else ""


def _parse_recovery(doc: PlatformDocument) -> Iterator[FileValue]:
    resources = doc.mapping("resources")
    field = next((name for name in ("job_recovery", "spot_recovery") if resources.get(name)), None)
    line = doc.line("resources") if field is None else doc.line("resources", field)
    if field is None:
        words = "whether it is a managed job, started again after a preemption, is not in it"
        yield FileValue("", None, line, words)
        return
    recovery = doc.mapping("resources", field)
    description = ", ".join(f"{key} {value}" for key, value in recovery.items()) or resources[field]
    yield FileValue("", description, line, f"{field}: {description}")
    words = "a managed job (`sky jobs launch`) is started again after each preemption"
    yield FileValue("settings.job_retries", -1, line, words)


def dstack(doc: PlatformDocument) -> Iterator[FileValue]:
    """Read a task of dstack."""
    yield from _parse_nodes(doc, "nodes")
    policy = doc.get_value("spot_policy") or "on-demand"
    yield FileValue("", policy, doc.line("spot_policy"), f"nodes: {policy} (spot_policy)")
    retry = doc.get_value("retry")
    is_retried = bool(retry) and "interruption" in str(
        doc.get_value("retry", "on_events") or "interruption"
    )
    words = f"it is {'' if is_retried else 'not '}started again after an interruption (retry)"
    yield FileValue("settings.job_retries", -1 if is_retried else 0, doc.line("retry"), words)


def anyscale(doc: PlatformDocument) -> Iterator[FileValue]:
    """Read a job of Anyscale, or its compute configuration."""
    config_path = ("compute_config",) if doc.mapping("compute_config") else ()
    groups = (*config_path, "worker_nodes")
    min_nodes = max_nodes = 0
    for number, _ in enumerate(doc.sequence(*groups)):
        group = (*groups, number)
        group_min, group_max = (
            doc.integer(*group, "min_nodes") or 0,
            doc.integer(*group, "max_nodes"),
        )
        min_nodes, max_nodes = (
            min_nodes + group_min,
            max_nodes + (10 if group_max is None else group_max),
        )
        kind = doc.get_value(*group, "market_type")
        if kind is not None:
            words = f"nodes: {str(kind).lower().replace('_', ' ')} (market_type)"
            yield FileValue("", kind, doc.line(*group, "market_type"), words)
    yield from _describe_node_range(
        min_nodes, max_nodes, doc.line(*groups), "min_nodes", "max_nodes"
    )
    if str(doc.get_value(*config_path, "head_node", "market_type") or "").endswith("SPOT"):
        words = "the head stands on spot nodes"
        yield FileValue("settings.head_on_spot", True, doc.line(*config_path, "head_node"), words)
    retries = doc.integer("max_retries")
    if retries is not None:
        words = f"{plural(retries, 'more start')} after one that failed (max_retries)"
        yield FileValue("", retries, doc.line("max_retries"), words)


def _parse_nodes(doc: PlatformDocument, *loc: str) -> Iterator[FileValue]:
    """Yield a number of nodes that is one where it is not said."""
    count = doc.integer(*loc)
    nodes = 1 if count is None else max(1, count)
    words = f"{plural(nodes, 'node')} ({'no ' if count is None else ''}{loc[-1]})"
    yield FileValue("job.nodes", nodes, doc.line(*loc), words)


_MARKETS = re.compile(
    r"(?i)'(?:preemptible|spot)': true|'markettype': 'spot'|'provisioningmodel': 'spot'|"
    r"'priority': 'spot'"
)


def ray_up(doc: PlatformDocument) -> Iterator[FileValue]:
    """Read a file of Ray's cluster launcher."""
    head, types, min_nodes, max_nodes = (
        doc.get_value("head_node_type"),
        ("available_node_types",),
        0,
        0,
    )
    for name, group in doc.mapping(*types).items():
        is_spot = (
            _MARKETS.search(str(group.get("node_config"))) if isinstance(group, dict) else None
        )
        if is_spot and name == head:
            words = "the head stands on spot nodes"
            yield FileValue("settings.head_on_spot", True, doc.line(*types, name), words)
        elif is_spot:
            yield FileValue("", True, doc.line(*types, name), f"{name}: spot nodes")
        if name != head:
            group_min = doc.integer(*types, name, "min_workers") or 0
            max_nodes += max(group_min, doc.integer(*types, name, "max_workers") or 0)
            min_nodes += group_min
    limit = doc.integer("max_workers")
    max_nodes = max_nodes if limit is None else min(max_nodes, limit)
    yield from _describe_node_range(
        min_nodes, max_nodes, doc.line(*types), "min_workers", "max_workers"
    )


def _describe_node_range(
    min_nodes: int, max_nodes: int, line: int, min_key: str, max_key: str
) -> Iterator[FileValue]:
    """Yield the nodes that are kept, and those that may be started."""
    yield from list_nodes(min_nodes, line, f"{plural(min_nodes, 'worker')} at least ({min_key})")
    if not min_nodes:
        words = f"job.nodes is missing: 0 to {max_nodes} workers ({min_key}, {max_key})"
        yield FileValue("", None, line, words)
    if max_nodes > min_nodes:
        yield FileValue("job.nodes_max", max_nodes, line, f"{max_nodes} may be started ({max_key})")


def submitit(doc: PlatformDocument) -> Iterator[FileValue]:
    """Read the settings of hydra's launcher for Slurm, submitit."""
    config_path = ("hydra", "launcher") if doc.mapping("hydra", "launcher") else ()
    yield from _parse_nodes(doc, *config_path, "nodes")
    minutes = doc.integer(*config_path, "timeout_min")
    if minutes:
        words = f"each start is ended after {minutes / 60:.3g} h (timeout_min)"
        line = doc.line(*config_path, "timeout_min")
        yield FileValue("settings.start_limit_h", minutes / 60, line, words)
    requeue_count = doc.integer(*config_path, "max_num_timeout") or 0
    words = (
        f"queued again {plural(requeue_count, 'time')} after a time limit (max_num_timeout), and "
        "after a "
        "preemption, if what it calls has `checkpoint`"
    )
    line = doc.line(*config_path, "max_num_timeout")
    yield FileValue("settings.limit_requeues", requeue_count, line, words)


def determined(doc: PlatformDocument) -> Iterator[FileValue]:
    """Read an experiment of Determined."""
    slots = doc.integer("resources", "slots_per_trial") or 1
    words = f"job.nodes is missing: {plural(slots, 'slot')}, which are GPUs (slots_per_trial)"
    yield FileValue("", slots, doc.line("resources", "slots_per_trial"), words)
    restarts = doc.integer("max_restarts")
    line = doc.line("max_restarts")
    count = 5 if restarts is None else restarts
    words = f"a trial is started again {plural(count, 'time')} (max_restarts)"
    yield FileValue("settings.job_retries", count, line, words)


def torchx(path: str, text: str) -> Iterator[FileValue]:
    """Read a `.torchxconfig`; raises `UsageError` for one that cannot be read."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        hint = "It is read as a .torchxconfig."
        raise UsageError(str(error).splitlines()[0], hint, location=path) from None
    lines = {line.split("=")[0].strip(): n for n, line in enumerate(text.splitlines(), 1)}
    for section in parser.sections():
        size = re.match(r"(?:(\d+):)?(\d+)x", parser[section].get("j", ""))
        if size is not None:
            nodes, line = int(size[2]), lines.get("j", 1)
            yield FileValue("job.nodes", nodes, line, f"{plural(nodes, 'node')} (j of {section})")
            if size[1] is not None and int(size[1]) < nodes:
                words = f"it goes on with {size[1]} (j of {section})"
                yield FileValue("job.min_nodes", int(size[1]), line, words)
        retries = parser[section].get("max_retries", "")
        if retries.isdigit():
            words = f"{plural(int(retries), 'more start')} after one that failed (max_retries)"
            yield FileValue(
                "settings.job_retries", int(retries), lines.get("max_retries", 1), words
            )


# -- Slurm -------------------------------------------------------------------------------------


def sbatch(text: str) -> Iterator[FileValue]:
    """Read the header of a script for `sbatch`."""
    options = parse_options(text)
    missing_option = SbatchOption("", next(iter(options.values()), SbatchOption("", 1)).line)
    yield from _parse_node_option(options.get("--nodes", missing_option))
    limit = options.get("--time", missing_option)
    hours = _parse_hours(limit.value)
    if hours:
        words = f"each start is ended after {hours:.3g} h (--time)"
        yield FileValue("settings.start_limit_h", hours, limit.line, words)
    yield _parse_requeue(options, missing_option)
    signal = options.get("--signal")
    lead_s = signal and hours and _parse_lead_s(signal.value)
    doubts = list(_check_traps(text, signal)) if signal and _can_read_traps(text) else []
    if signal is not None:
        words = (
            "a signal before its --time is over, at a preemption only with the cluster's "
            f"preempt_send_user_signal (--signal={signal.value})"
        )
        key = "settings.limit_signal_s" if lead_s else ""
        yield FileValue(key, lead_s or signal.value, signal.line, words)
    yield from doubts
    is_heard = bool(lead_s) and _can_read_traps(text) and not doubts
    yield from _parse_limit_requeues(text, signal if is_heard else None, options)
    mode = options.get("--open-mode", missing_option)
    if mode.value != "append":
        unless = "" if mode.value else ", unless the cluster says append"
        words = f"its output is written anew at each start{unless} (--open-mode)"
        yield FileValue("", mode.value, mode.line, words)


_REQUEUE = re.compile(r"\bscontrol\s+requeue\b")


def _parse_limit_requeues(
    text: str, heard_signal: SbatchOption | None, options: Mapping[str, SbatchOption]
) -> Iterator[FileValue]:
    """Yield that a script queues itself again at its time limit, or that it may do so."""
    lines = enumerate(text.splitlines(), 1)
    line = next((n for n, words in lines if _REQUEUE.search(_strip_comment(words))), None)
    if line is None:
        return
    trap_texts = [] if heard_signal is None else _list_trap_texts(text, heard_signal)
    if "--no-requeue" not in options and surely_requeues(text, trap_texts):
        words = "it queues itself again at its time limit, without end (scontrol requeue)"
        yield FileValue("settings.limit_requeues", -1, line, words)
        return
    words = (
        "scontrol requeue is in it; whether it is run before the time limit is not known "
        "(--set settings.limit_requeues=-1 if it is)"
    )
    yield FileValue("", None, line, words)


def find_sbatch_name(text: str) -> str:
    """Return the name that a script gives its job; empty without one."""
    option = parse_options(text).get("--job-name")
    return "" if option is None or "$" in option.value else option.value


def _parse_lead_s(signal: str) -> int | None:
    """Return the seconds of `[B:]USR1[@60]` before the time limit; None if it is to be filled in.

    Left out, it is a minute (Slurm 22.05, sbatch(1): --signal).
    """
    name, _, seconds = signal.partition("@")
    if not name or "$" in signal:
        return None
    if not seconds:
        return 60
    return int(seconds) if seconds.isdigit() and int(seconds) else None


_TRAP = re.compile(r"\s*trap\s+(?:--\s+)?('[^']*'|\"[^\"]*\"|\S+)\s+(.+)")
_SHELL = re.compile(r"#!.*\b(?:ba|da|z|k)?sh\b")
_BACKGROUND = re.compile(r"(?<![&>])&(?![&>])|\bwait\b")
_EXEC = re.compile(r"\s*exec\s+(?:srun|torchrun|python\S*|accelerate|mpirun)\b")


def _check_traps(text: str, signal: SbatchOption) -> Iterator[FileValue]:
    """Yield what bash does not hear of the signal that a script asks for (bash(1), sbatch(1)).

    A trap is run when the command in the foreground has ended, and only by the shell that has it.
    """
    recipient, _, _ = signal.value.rpartition(":")
    name = _find_signal_name(signal)
    lines = list(enumerate(text.splitlines(), 1))
    traps = [n for n, line in lines if (match := _TRAP.match(line)) and _is_trapped(match[2], name)]
    replaced = next((n for n, line in lines if _EXEC.match(line)), None)
    if "B" not in recipient.upper():
        if traps:
            words = f"the trap of SIG{name} is not run: without B: only the steps get the signal"
            yield FileValue("", signal.value, traps[0], words)
        elif not _sources_scripts(lines) and not any("srun" in line for _, line in lines):
            words = f"nothing gets SIG{name}: without B: only steps do, and nothing is run by srun"
            yield FileValue("", signal.value, signal.line, words)
    elif replaced is not None and traps:
        words = f"exec replaces the shell that has the trap of SIG{name}"
        yield FileValue("", signal.value, replaced, words)
    elif not traps and replaced is None and not _sources_scripts(lines):
        words = (
            f"SIG{name} ends the batch shell, which has no trap for it (--signal={signal.value})"
        )
        yield FileValue("", signal.value, signal.line, words)
    elif traps and not any(_BACKGROUND.search(_strip_comment(line)) for _, line in lines):
        words = (
            f"the trap of SIG{name} is run when the command in the foreground has ended: none is "
            "started with & and waited for"
        )
        yield FileValue("", signal.value, traps[0], words)


def _find_signal_name(signal: SbatchOption) -> str:
    """Return the name in `[B:]SIGUSR1[@60]`, without SIG."""
    return signal.value.rpartition(":")[2].partition("@")[0].removeprefix("SIG").upper()


def _list_trap_texts(text: str, signal: SbatchOption) -> list[str]:
    """Return what the traps of a signal run, without quotes."""
    name = _find_signal_name(signal)
    traps = filter(None, map(_TRAP.match, text.splitlines()))
    return [trap[1].strip("'\"") for trap in traps if _is_trapped(trap[2], name)]


def _can_read_traps(text: str) -> bool:
    """Return whether each trap of a script is read: those of a shell, each on a line of its own.

    A script in another language has handlers, and not traps.
    """
    trap_lines = (
        line for line in text.splitlines() if re.search(r"\btrap\b", _strip_comment(line))
    )
    return bool(_SHELL.match(text)) and all(map(_TRAP.match, trap_lines))


def _is_trapped(signals: str, name: str) -> bool:
    """Return whether a trap is one of a signal: by its name, or by a number or variable."""
    words = (word.removeprefix("SIG").upper() for word in _strip_comment(signals).split())
    is_number = name.isdigit()  # of which signal, the machine knows
    return any(word == name or word[0] in "$123456789" or is_number for word in words)


def _sources_scripts(lines: list[tuple[int, str]]) -> bool:
    """Return whether a script reads another one, which may set a trap."""
    return any(re.match(r"\s*(?:source|\.)\s", line) for _, line in lines)


def _strip_comment(line: str) -> str:
    return line.partition("#")[0]


def _parse_node_option(option: SbatchOption) -> Iterator[FileValue]:
    count = option.value.partition("-")[0] or "1"
    if count.isdigit():
        origin = "--nodes" if option.value else "no --nodes: unless `sbatch` is given it"
        words = f"{plural(int(count), 'node')} ({origin})"
        yield FileValue("job.nodes", int(count), option.line, words)
    else:
        words = f"job.nodes is missing: --nodes is {option.value}, to be filled in"
        yield FileValue("", option.value, option.line, words, is_unfilled=True)


def _parse_requeue(options: Mapping[str, SbatchOption], missing_option: SbatchOption) -> FileValue:
    if "--requeue" in options:
        words = "it is queued again (--requeue)"
        return FileValue("settings.job_retries", -1, options["--requeue"].line, words)
    if "--no-requeue" in options:
        words = "it is not queued again: a preemption ends it (--no-requeue)"
        return FileValue("settings.job_retries", 0, options["--no-requeue"].line, words)
    words = "--requeue is missing: whether it is queued again is the cluster's default"
    return FileValue("", None, missing_option.line, words)


def _parse_hours(limit: str) -> float | None:
    """Return the hours of a time limit of Slurm: `minutes`, `h:m:s`, `days-h:m`, …."""
    days, dash, clock = limit.rpartition("-")
    parts = clock.split(":")
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
