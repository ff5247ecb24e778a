"""Hints on how to repair a part of the state that did not come back."""

from collections.abc import Sequence

from chaos.check.analysis import RunAnalysis
from chaos.check.saved_model import describe_wrong_save, is_model_in_file
from chaos.check.state_at_resume import ResumeRow
from chaos.check.state_snapshots import holds_nothing
from chaos.model.event import Component, ParametersNamed, StateSeen
from chaos.model.history import History
from chaos.model.launcher import LauncherWords
from chaos.model.places import TrainingPlace
from chaos.wording import describe_ranks, plural

_NORMS = ("model", "buffers", "gradients", "optimizer", "averaged model")
_COUNTED = {"model.trees": "rounds", "optimizer.iterations": "steps"}
_VERBS = {
    "not restored": "is not restored",
    "reset": "is back at its first value",
    "different": "is not what it was",
}
_FIXES = {
    "model": "`model.load_state_dict` was not called, matched no name (`strict=False`, a `module.` "
    "prefix), or came before the model was built anew",
    "buffers": "its parameters came back, and its buffers did not, such as the running "
    "statistics of batch normalisation: `state_dict()` has them, `parameters()` has not, and "
    "`strict=False` leaves them out where names do not match",
    "gradients": "gradients of an accumulation that was not finished are lost with the process: "
    "save after `optimizer.step()`, or save them too",
    "model.trees": "the checkpoint's booster was not given to the training as `xgb_model` "
    "(LightGBM: `init_model`)",
    "model.weights": "the checkpoint was not read, or holds no weights under the model's name in "
    "`tf.train.Checkpoint`; or the model was built anew after it",
    "optimizer": "it was not saved, or `optimizer.load_state_dict` was not called, or came before "
    "the optimizer was given its parameters",
    **dict.fromkeys(
        ("optimizer.iterations", "optimizer.slots"),
        "`model.save_weights` to `.h5` and `get_weights` leave the optimizer out, and so does "
        "`tf.train.Checkpoint` that is not given it; `model.compile` after loading makes a new one",
    ),
    "optimizer settings": "the optimizer's settings were set anew after its state was loaded, or "
    "its state was not loaded",
    "schedule": "it was not saved, or `scheduler.load_state_dict` was not called, or its state was "
    "saved before `scheduler.step()`",
    "scaler": "it was not saved, or `scaler.load_state_dict` was not called, or the scaler was "
    "made after it",
    "averaged model": "the averaged weights, and how many they average, belong in the checkpoint; "
    "they were built anew from the model",
    "declared": "it belongs in the checkpoint, and was not saved or not loaded",
    "rng": "every rank saves its own generators' state, and sets it after all else that draws "
    "from them",
}
_CHANGED = {
    "model": "it was saved so, or changed after it was loaded: neither was seen",
    "optimizer": "it was saved so, of another moment than the model, or changed after it was "
    "loaded: none of these was seen",
}
_RESHARDED = (
    "another number of workers saved it: shards must be put together by their places in the whole "
    "tensor, as `torch.distributed.checkpoint` does, and the last one may be shorter"
)

_SHOWN = 3  # of the names of parameters


def is_unexplained(message: str) -> bool:
    """Return whether a sentence is of a part that is neither at its first value nor seen lost."""
    return any(hint in message for hint in _CHANGED.values())


def describe_defect(
    rows: Sequence[ResumeRow], terms: LauncherWords, remedy: str | None = None
) -> str:
    """Return in words the defect and its likely reason, by the rows of one cause, nearest first.

    `remedy`: what was seen of the file, in place of the usual reason.
    """
    first_row = rows[0]
    other_names = [
        name
        for name in dict.fromkeys(cause_row.component for cause_row in rows)
        if name != first_row.component
    ]
    equal_rows = [
        cause_row
        for cause_row in rows
        if (cause_row.component, cause_row.standing) == (first_row.component, first_row.standing)
    ]
    resume_text = f"the resume at epoch {first_row.epoch}" + (
        f", step {first_row.step}" if first_row.step else ""
    )
    rank_text = describe_ranks([cause_row.rank for cause_row in equal_rows])
    verb = _VERBS[first_row.standing]
    component_kind = first_row.component.rstrip(
        ".0123456789"
    )  # the same for each of several models
    fix = _FIXES.get(component_kind, _FIXES.get(first_row.group, _FIXES["declared"]))
    if first_row.standing == "different" and (
        component_kind == first_row.group or component_kind not in _FIXES
    ):
        fix = _CHANGED.get(first_row.group, fix)
    fix = remedy or fix
    if first_row.is_resharded and first_row.standing == "different":
        fix = _RESHARDED
    text = (
        f"{rank_text}: {first_row.component} {verb} after {resume_text}: "
        f"{describe_values(first_row, terms)}"
    )
    if first_row.is_restructured:
        text = f"{rank_text}: the model has another structure after {resume_text}"
    return f"{text}; with it {', '.join(other_names)}; {fix}" if other_names else f"{text}; {fix}"


def find_remedy(analysis: RunAnalysis, row: ResumeRow) -> str | None:
    """Return the reason that files or other moments show for a part; None without one."""
    if row.is_restructured:
        return _describe_structure(analysis, row)
    if row.group != "model":
        return _describe_moment(analysis, row)
    file_remedy = describe_wrong_save(
        analysis, row
    )  # of several files, what came back is that of this one
    if file_remedy is None and is_model_in_file(analysis, row, row.expected):
        return f"the file that was read holds it: {_FIXES['model']}"
    return file_remedy or _describe_moment(analysis, row)


def _describe_moment(analysis: RunAnalysis, row: ResumeRow) -> str | None:
    """Return in words that a part is what the rank had at another moment, if it was seen there.

    The run's own moments count up to the resume, and all of the baseline's.
    """
    if row.standing != "different" or row.actual is None or not row.actual.digest:
        return None
    places = {
        TrainingPlace(snapshot.epoch, snapshot.step)
        for tables in filter(None, (analysis.run, analysis.reference))
        for number, snapshot in tables.snapshots.numbered_snapshots
        if snapshot.rank == row.rank and (tables is not analysis.run or number < row.number)
        if _has_part(snapshot, row)
    }
    resume_place = TrainingPlace(row.epoch, row.step)
    if not places or min(places) <= resume_place <= max(places):
        return None
    is_later = min(places) > resume_place
    training_place = min(places) if is_later else max(places)
    age_text = "a later" if is_later else "an earlier"
    return f"it is what the job had at {training_place}: of {age_text} moment than the resume"


def _has_part(snapshot: StateSeen, row: ResumeRow) -> bool:
    assert row.actual is not None
    digest = row.actual.digest
    return any(part.name == row.component and part.digest == digest for part in snapshot.components)


def _describe_structure(analysis: RunAnalysis, row: ResumeRow) -> str:
    """Return in words which parameters a model has after a resume, and which it had, by name."""
    run_names = _find_parameters(analysis.history, row.attempt, row.rank)
    baseline_names = _find_parameters(analysis.aligned_baseline, 0, row.rank)
    missing_names, added_names = (
        sorted(baseline_names - run_names),
        sorted(run_names - baseline_names),
    )
    for tied in missing_names:
        names = tied.split(" = ")
        if len(names) > 1 and set(names) <= set(added_names):
            return (
                f"{' and '.join(f'`{name}`' for name in names)} were one parameter, and are "
                f"{len(names)} now: tie them again after the checkpoint is loaded"
            )
    if missing_names or added_names:
        changes = [f"without {_describe_names(missing_names)}"] if missing_names else []
        changes += [f"with {_describe_names(added_names)}"] if added_names else []
        return f"it trains {plural(len(run_names), 'parameter')}, {' and '.join(changes)}"
    counts = (0 if part is None else part.count for part in (row.actual, row.expected))
    run_text, baseline_text = (plural(parameter_count, "parameter") for parameter_count in counts)
    return f"it trains {run_text} (in the baseline {baseline_text}), of other shapes or types"


def _describe_names(names: Sequence[str]) -> str:
    more_text = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f"`{name}`" for name in names[:_SHOWN]) + more_text


def _find_parameters(history: History | None, attempt: int, rank: int) -> frozenset[str]:
    records = () if history is None else history.select_events(ParametersNamed)
    matching_names = (
        record.names for _, record in records if (record.attempt, record.rank) == (attempt, rank)
    )
    return frozenset(next(matching_names, ()))


def describe_values(row: ResumeRow, terms: LauncherWords) -> str:
    """Return in words a component's value in the run, and the baseline's."""
    baseline_text, run_text = (
        describe_value(row.expected, row.group),
        describe_value(row.actual, row.group),
    )
    if not baseline_text and run_text in ("empty", "missing"):
        return f"{run_text} here, and not in the baseline"
    if not baseline_text and not run_text:
        return "it is not what was due there"
    if baseline_text == run_text or not baseline_text:
        return f"{run_text} here, but not the same to the last bit"
    reference_text = f"at the {terms.save}" if row.expects_own_state else "in the baseline"
    return f"{baseline_text} {reference_text}, {run_text or 'something else'} here"


def describe_value(part: Component | None, group: str) -> str:
    """Return a component's size in readable form; an empty text where it has none."""
    if part is None or holds_nothing(part):
        return "empty" if part is not None else "missing"
    unit = _COUNTED.get(part.name.rstrip(".0123456789"))
    if unit is not None:
        return f"{part.count} {unit}"
    if part.size is None:
        return ""
    size = part.size if isinstance(part.size, str) else f"{part.size:.4g}"
    return f"norm {size}" if group in _NORMS else size
