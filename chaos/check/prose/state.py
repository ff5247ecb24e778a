"""Sentences of findings about the job's state: its parts at a resume, and its copies on ranks."""

from collections.abc import Mapping, Sequence

from chaos.check.kinds.state import (
    ChangeHint,
    GeneratorCopied,
    ModelRestructured,
    PartChanged,
    PartFacts,
    PartNotRestored,
    PartOfOtherMoment,
    PartStanding,
    PartValue,
    RestoreHint,
    SavedModelUnused,
    ShardsMisplaced,
    StructureFacts,
    UnequalReplicas,
    UntiedParameters,
    WrongModelSaved,
    WrongSave,
)
from chaos.check.prose.places import describe_place
from chaos.check.prose.registry import describes
from chaos.model.events.state import find_group
from chaos.model.launcher_facts import LauncherWords
from chaos.model.places import TrainingPlace
from chaos.wording import capitalize_first, describe_ranks, plural

_NORMS = ("model", "buffers", "gradients", "optimizer", "averaged model")
_COUNTED = {"model.trees": "rounds", "optimizer.iterations": "steps"}
_VERBS: Mapping[PartStanding, str] = {
    "not restored": "is not restored",
    "reset": "is back at its first value",
    "different": "is not what it was",
}
_KERAS_HINT = (
    "`model.save_weights` to `.h5` and `get_weights` leave the optimizer out, and so does "
    "`tf.train.Checkpoint` that is not given it; `model.compile` after loading makes a new one"
)
_RESTORE_HINTS: Mapping[RestoreHint, str] = {
    "model": "likely `model.load_state_dict` was not called, matched no name (`strict=False`, a "
    "`module.` prefix), or came before the model was built anew",
    "buffers": "its parameters came back; likely its buffers, such as the running statistics of "
    "batch normalisation, were not saved or not loaded: `state_dict()` has them, `parameters()` "
    "has not, and `strict=False` leaves them out where names do not match",
    "gradients": "gradients of an accumulation that was not finished are lost with the process: "
    "save after `optimizer.step()`, or save them too",
    "model.trees": "likely the checkpoint's booster was not given to the training as `xgb_model` "
    "(LightGBM: `init_model`)",
    "model.weights": "likely the checkpoint was not read, or holds no weights under the model's "
    "name in `tf.train.Checkpoint`; or the model was built anew after it",
    "optimizer": "likely it was not saved, or `optimizer.load_state_dict` was not called, or came "
    "before the optimizer was given its parameters",
    "saved optimizer": "the file that was read holds an optimizer's state of as many parameters: "
    "likely `optimizer.load_state_dict` was not called, or the optimizer that trains was made, or "
    "given its parameters, after it",
    "optimizer.iterations": _KERAS_HINT,
    "optimizer.slots": _KERAS_HINT,
    "optimizer settings": "likely the optimizer's settings were set anew after its state was "
    "loaded, or its state was not loaded",
    "schedule": "likely it was not saved, or `scheduler.load_state_dict` was not called, or its "
    "state was saved before `scheduler.step()`",
    "scaler": "likely it was not saved, or `scaler.load_state_dict` was not called, or the scaler "
    "was made after it",
    "averaged model": "the averaged weights, and how many they average, belong in the checkpoint; "
    "likely they were built anew from the model",
    "declared": "it belongs in the checkpoint; likely it was not saved or not loaded",
    "rng": "every rank saves its own generators' state, and sets it after all else that draws "
    "from them",
}
#: of a part for which no reason was seen
CHANGE_HINTS: Mapping[ChangeHint, str] = {
    "model": "it was saved so, or changed after it was loaded: neither was seen",
    "saved buffers": "the file that was read has as many tensors as the model with its buffers: "
    "likely they were not loaded from it, or a forward call before this step moved them",
    "optimizer": "it was saved so, of another moment than the model, or changed after it was "
    "loaded: none of these was seen",
}
_RESHARDED = (
    "another number of workers saved it: shards must be put together by their places in the whole "
    "tensor, as `torch.distributed.checkpoint` does, and the last one may be shorter"
)

_SHOWN = 3  # of the names of parameters


# -- parts at a resume -----------------------------------------------------------------------------


@describes(
    PartNotRestored,
    usual_cause="The part is not in the checkpoint, or nothing loads it from there.",
    remedy="Save its `state_dict()` with the model's, and load it after the object is built.",
)
def _describe_part_not_restored(facts: PartNotRestored, terms: LauncherWords) -> str:
    return _describe_part(facts, terms, _RESTORE_HINTS[facts.hint])


@describes(
    PartChanged,
    usual_cause="The part was saved at another moment, or something changes it after the load.",
    remedy="Save all parts at one moment, and compare the part right after the load.",
)
def _describe_part_changed(facts: PartChanged, terms: LauncherWords) -> str:
    return _describe_part(facts, terms, CHANGE_HINTS[facts.hint])


@describes(
    WrongModelSaved,
    usual_cause="An averaged, rounded or older copy of the model is saved in its place.",
    remedy=(
        "Save the `state_dict()` of the trained model in its own type; save an average beside it."
    ),
)
def _describe_wrong_model_saved(facts: WrongModelSaved, terms: LauncherWords) -> str:
    return _describe_part(facts, terms, _describe_wrong_save(facts.saved))


def _describe_wrong_save(saved: WrongSave) -> str:
    match saved.content:
        case "rounded":
            return (
                f"the file holds it rounded: saved as {saved.dtype}, trained as float32; save the "
                "parameters as they are trained"
            )
        case "of another moment":
            return f"the file holds it so: the model of {saved.saved_at} was saved"
        case "other weights":
            return (
                "the file holds it so: what was saved is not the model that was trained, but other "
                "weights, such as those of an average, of a copy, or of an optimizer in its "
                "`eval()` mode"
            )


@describes(
    SavedModelUnused,
    usual_cause=(
        "`load_state_dict` matches no name, is not called, or the model is built anew after it."
    ),
    remedy="Load with `strict=True` into the model that is trained, before the first step.",
)
def _describe_saved_model_unused(facts: SavedModelUnused, terms: LauncherWords) -> str:
    return _describe_part(
        facts, terms, f"the file that was read holds it: {_RESTORE_HINTS['model']}"
    )


@describes(
    PartOfOtherMoment,
    usual_cause="The part is saved at another moment, or read from an older file.",
    remedy="Save all parts in one checkpoint at one moment, and load all of them from it.",
)
def _describe_part_of_other_moment(facts: PartOfOtherMoment, terms: LauncherWords) -> str:
    age_text = "a later" if facts.moment > facts.resumed_at else "an earlier"
    reason = f"it is what the job had at {facts.moment}: of {age_text} moment than the resume"
    return _describe_part(facts, terms, reason)


@describes(
    ShardsMisplaced,
    usual_cause=(
        "Each rank loads the shard with its own number, though the number of ranks changed."
    ),
    remedy="Save and load with `torch.distributed.checkpoint`, which shards anew.",
)
def _describe_shards_misplaced(facts: ShardsMisplaced, terms: LauncherWords) -> str:
    return _describe_part(facts, terms, _RESHARDED)


def _describe_part(facts: PartFacts, terms: LauncherWords, reason: str) -> str:
    text = (
        f"{describe_ranks(facts.ranks)}: {facts.part} {_VERBS[facts.standing]} after "
        f"{_describe_resume(facts.resumed_at)}: {describe_values(facts, terms)}"
    )
    return f"{text}{_describe_other_parts(facts.other_parts)}. {capitalize_first(reason)}"


def _describe_resume(place: TrainingPlace) -> str:
    return f"the resume at {describe_place(place)}"


def _describe_other_parts(parts: Sequence[str]) -> str:
    return f"; with it {', '.join(parts)}" if parts else ""


def describe_values(facts: PartFacts, terms: LauncherWords) -> str:
    """Return in words a part's value in the run, and the one that was expected."""
    group = find_group(facts.part)
    baseline_text, run_text = (
        describe_part_value(value, facts.part, group)
        for value in (facts.expected_value, facts.value)
    )
    if not baseline_text and run_text in ("empty", "missing"):
        return f"{run_text} here, and not in the baseline"
    if not baseline_text and not run_text:
        return "it is not what was due there"
    if baseline_text == run_text or not baseline_text:
        return f"{run_text} here, but not the same to the last bit"
    reference_text = f"at the {terms.save}" if facts.expects_own_state else "in the baseline"
    return f"{baseline_text} {reference_text}, {run_text or 'something else'} here"


def describe_part_value(value: PartValue | None, part: str, group: str) -> str:
    """Return a part's size in readable form; an empty text where it has none."""
    if value is None or value.is_empty:
        return "empty" if value is not None else "missing"
    unit = _COUNTED.get(part.rstrip(".0123456789"))
    if unit is not None:
        return f"{value.entry_count} {unit}"
    if value.size is None:
        return ""
    size = value.size if isinstance(value.size, str) else f"{value.size:.4g}"
    return f"norm {size}" if group in _NORMS else size


# -- the structure of the model --------------------------------------------------------------------


@describes(
    UntiedParameters,
    usual_cause="Loading puts a tensor of its own in each place of a shared parameter.",
    remedy="Tie the parameters again after the load, before the optimizer is made.",
)
def _describe_untied_parameters(facts: UntiedParameters, _: LauncherWords) -> str:
    names = facts.parameters
    reason = (
        f"{' and '.join(f'`{name}`' for name in names)} were one parameter, and are "
        f"{len(names)} now: tie them again after the checkpoint is loaded"
    )
    return _describe_structure(facts, reason)


@describes(
    ModelRestructured,
    usual_cause=(
        "The model is built by other settings after the restart, or layers were added, frozen "
        "or cast once."
    ),
    remedy="Build the model the same way at every start, then load.",
)
def _describe_model_restructured(facts: ModelRestructured, _: LauncherWords) -> str:
    changes = []
    if facts.missing_parameters:
        changes.append(f"without {_describe_names(facts.missing_parameters)}")
    if facts.added_parameters:
        changes.append(f"with {_describe_names(facts.added_parameters)}")
    run_text, baseline_text = (
        plural(count, "parameter")
        for count in (facts.parameter_count, facts.baseline_parameter_count)
    )
    reason = f"it trains {run_text} (in the baseline {baseline_text}), of other shapes or types"
    if changes:
        reason = f"it trains {run_text}, {' and '.join(changes)}"
    return _describe_structure(facts, reason)


def _describe_structure(facts: StructureFacts, reason: str) -> str:
    return (
        f"{describe_ranks(facts.ranks)}: the model has another structure after "
        f"{_describe_resume(facts.resumed_at)}{_describe_other_parts(facts.other_parts)}. "
        f"{capitalize_first(reason)}"
    )


def _describe_names(names: Sequence[str]) -> str:
    more_text = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f"`{name}`" for name in names[:_SHOWN]) + more_text


# -- ranks beside each other -----------------------------------------------------------------------


@describes(
    GeneratorCopied,
    usual_cause="Rank 0 alone saves its generators' state, and every rank loads that.",
    remedy="Save and load the generators of every rank.",
)
def _describe_generator_copied(facts: GeneratorCopied, _: LauncherWords) -> str:
    return (
        f"{describe_ranks(facts.ranks)} went on with {facts.generator} of rank "
        f"{facts.owner_rank} at epoch {facts.epoch}: every rank must save and load a generator's "
        "state of its own"
    )


@describes(
    UnequalReplicas,
    usual_cause="Some ranks load another checkpoint, or none, or other optimizer settings.",
    remedy="Load the same checkpoint on every rank, before DDP wraps the model.",
)
def _describe_unequal_replicas(facts: UnequalReplicas, terms: LauncherWords) -> str:
    text = (
        f"from {terms.describe_place(facts.epoch, facts.step, facts.moment)} on, {facts.part} is "
        f"not the same on all ranks (attempt {facts.attempt})"
    )
    if not facts.checkpoint_epochs:
        return text
    epoch_text = describe_ranks(facts.checkpoint_epochs, "epoch")
    return f"{text}; committed with it: the checkpoints of {epoch_text}"
