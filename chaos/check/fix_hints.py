"""Hints on how to repair a part of the state that did not come back."""

from collections.abc import Sequence

from chaos.check.analysis import RunAnalysis
from chaos.check.saved_model import is_in_file, saved_wrong
from chaos.check.state_at_resume import Row
from chaos.check.state_snapshots import holds_nothing
from chaos.model.event import Component, ParametersNamed, StateSeen
from chaos.model.history import History
from chaos.model.launcher import LauncherWords
from chaos.model.places import Place
from chaos.words import plural, ranks

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


def is_unseen(told: str) -> bool:
    """Return whether a sentence is of a part that is neither at its first value nor seen lost."""
    return any(hint in told for hint in _CHANGED.values())


def sentence(rows: Sequence[Row], terms: LauncherWords, remedy: str | None = None) -> str:
    """Return in words the defect and its likely reason, by the rows of one cause, nearest first.

    `remedy`: what was seen of the file, in place of the usual reason.
    """
    row = rows[0]
    others = [name for name in dict.fromkeys(of.component for of in rows) if name != row.component]
    alike = [of for of in rows if (of.component, of.standing) == (row.component, row.standing)]
    where = f"the resume at epoch {row.epoch}" + (f", step {row.step}" if row.step else "")
    who = ranks([of.rank for of in alike])
    verb = _VERBS[row.standing]
    kind = row.component.rstrip(".0123456789")  # the same for each of several models
    fix = _FIXES.get(kind, _FIXES.get(row.group, _FIXES["declared"]))
    if row.standing == "different" and (kind == row.group or kind not in _FIXES):
        fix = _CHANGED.get(row.group, fix)
    fix = remedy or fix
    if row.is_resharded and row.standing == "different":
        fix = _RESHARDED
    text = f"{who}: {row.component} {verb} after {where}: {values(row, terms)}"
    if row.is_restructured:
        text = f"{who}: the model has another structure after {where}"
    return f"{text}; with it {', '.join(others)}; {fix}" if others else f"{text}; {fix}"


def remedy(analysis: RunAnalysis, row: Row) -> str | None:
    """Return the reason that files or other moments show for a part; None without one."""
    if row.is_restructured:
        return _structure_words(analysis, row)
    if row.group != "model":
        return _moment_words(analysis, row)
    saved = saved_wrong(analysis, row)  # of several files, what came back is that of this one
    if saved is None and is_in_file(analysis, row, row.due):
        return f"the file that was read holds it: {_FIXES['model']}"
    return saved or _moment_words(analysis, row)


def _moment_words(analysis: RunAnalysis, row: Row) -> str | None:
    """Return in words that a part is what the rank had at another moment, if it was seen there.

    The run's own moments count up to the resume, and all of the baseline's.
    """
    if row.standing != "different" or row.ours is None or not row.ours.digest:
        return None
    places = {
        Place(seen.epoch, seen.step)
        for tables in filter(None, (analysis.run, analysis.reference))
        for number, seen in tables.snapshots.all
        if seen.rank == row.rank and (tables is not analysis.run or number < row.number)
        if _holds(seen, row)
    }
    resumed = Place(row.epoch, row.step)
    if not places or min(places) <= resumed <= max(places):
        return None
    is_later = min(places) > resumed
    place = min(places) if is_later else max(places)
    when = "a later" if is_later else "an earlier"
    return f"it is what the job had at {place}: of {when} moment than the resume"


def _holds(seen: StateSeen, row: Row) -> bool:
    assert row.ours is not None
    digest = row.ours.digest
    return any(part.name == row.component and part.digest == digest for part in seen.components)


def _structure_words(analysis: RunAnalysis, row: Row) -> str:
    """Return in words which parameters a model has after a resume, and which it had, by name."""
    ours = _parameters(analysis.history, row.attempt, row.rank)
    due = _parameters(analysis.counterpart, 0, row.rank)
    gone, new = sorted(due - ours), sorted(ours - due)
    for tied in gone:
        names = tied.split(" = ")
        if len(names) > 1 and set(names) <= set(new):
            return (
                f"{' and '.join(f'`{name}`' for name in names)} were one parameter, and are "
                f"{len(names)} now: tie them again after the checkpoint is loaded"
            )
    if gone or new:
        changed = [f"without {_few(gone)}"] if gone else []
        changed += [f"with {_few(new)}"] if new else []
        return f"it trains {plural(len(ours), 'parameter')}, {' and '.join(changed)}"
    count = (0 if part is None else part.count for part in (row.ours, row.due))
    here, there = (plural(each, "parameter") for each in count)
    return f"it trains {here} (in the baseline {there}), of other shapes or types"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f"`{name}`" for name in names[:_SHOWN]) + more


def _parameters(history: History | None, attempt: int, rank: int) -> frozenset[str]:
    records = () if history is None else history.of(ParametersNamed)
    found = (e.names for _, e in records if (e.attempt, e.rank) == (attempt, rank))
    return frozenset(next(found, ()))


def values(row: Row, terms: LauncherWords) -> str:
    """Return in words a component's value in the run, and the baseline's."""
    due, ours = value(row.due, row.group), value(row.ours, row.group)
    if not due and ours in ("empty", "missing"):
        return f"{ours} here, and not in the baseline"
    if not due and not ours:
        return "it is not what was due there"
    if due == ours or not due:
        return f"{ours} here, but not the same to the last bit"
    where = f"at the {terms.save}" if row.of_own else "in the baseline"
    return f"{due} {where}, {ours or 'something else'} here"


def value(part: Component | None, group: str) -> str:
    """Return a component's size in readable form; an empty text where it has none."""
    if part is None or holds_nothing(part):
        return "empty" if part is not None else "missing"
    counted = _COUNTED.get(part.name.rstrip(".0123456789"))
    if counted is not None:
        return f"{part.count} {counted}"
    if part.size is None:
        return ""
    size = part.size if isinstance(part.size, str) else f"{part.size:.4g}"
    return f"norm {size}" if group in _NORMS else size
