"""The place at which an attempt resumed, as its training shows it.

A job may keep its checkpoints anywhere: in a database, in a mapped file, on a server, in the memory
of another process. So the place is not taken from what was read. The baseline is an index: for each
rank the state before a step, the inputs of the step, and the loss that came of them. The first
steps of a later attempt are looked up in it:

    baseline     state   a b c d e f        the attempt's first step has state d and inputs 4:
                 inputs  1 2 3 4 5 6        it resumed after 3 steps

State comes first. Where the inputs are those of another place, the job resumed where its state is,
and the inputs are a finding. But the state of a job that begins is no evidence of its beginning
anew: a model that was lost looks the same. Only where nothing agrees, because the resume is broken
or the numbers do not repeat, the place is inferred: from Ray's commit, from the file that was read.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

from chaos.model.event import Component, ResumeEvidence, StateSeen
from chaos.model.events.state import find_group
from chaos.model.history import History
from chaos.model.places import START, TrainingPlace
from chaos.resume.attempt import ResumePoint
from chaos.resume.steps import Step, group_steps_by_attempt

_NUMBER = re.compile(r"\.\d+")
STEPS_MAX = 64  # of an attempt that are looked up; data that repeat longer than that fit anywhere


@dataclass(frozen=True, slots=True)
class StepKeys:
    """One step of a rank: the state before it, its inputs and its losses, each as a key.

    A key is empty where the thing was not seen, that of an optimizer where it holds nothing.
    """

    model: str = ""
    optimizer: str = ""
    inputs: str = ""
    losses: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class InferredPlace:
    """The place of an attempt as it is inferred without its training: by a commit, or a file."""

    training_place: TrainingPlace = START
    #: "nothing" where there was neither: then the job begins, as far as is known
    evidence: ResumeEvidence = "nothing"
    path: str | None = None


@dataclass
class ResumePlaceIndex:
    """The steps and states of one rank in a run, by which a place is found."""

    #: the steps in order, each with the place before it
    steps: list[tuple[TrainingPlace, StepKeys]] = field(default_factory=list)
    #: the places at which a model was seen, by its key
    models: dict[str, set[TrainingPlace]] = field(default_factory=dict)
    #: the same for what optimizers hold, at places at which a model was seen
    optimizers: dict[str, set[TrainingPlace]] = field(default_factory=dict)

    def add_state(self, place: TrainingPlace, parts: Iterable[Component]) -> None:
        """Add a state that was seen at a place."""
        self.add_keys(place, *build_state_keys(parts))

    def add_keys(self, place: TrainingPlace, model: str, optimizer: str) -> None:
        """Add a state by its keys (see `build_state_keys`)."""
        if model:
            self.models.setdefault(model, set()).add(place)
            self.optimizers.setdefault(optimizer, set()).add(place)

    @cached_property
    def places_by_inputs(self) -> Mapping[str, set[TrainingPlace]]:
        """The places whose next step has these inputs."""
        places: dict[str, set[TrainingPlace]] = {}
        for place, keys in self.steps:
            if keys.inputs:
                places.setdefault(keys.inputs, set()).add(place)
        return places

    @cached_property
    def _positions(self) -> Mapping[TrainingPlace, int]:
        return {place: position for position, (place, _) in enumerate(self.steps)}

    def select_steps(self, place: TrainingPlace, count: int) -> Sequence[StepKeys]:
        """Return so many steps from a place on, fewer where the run ends."""
        position = self._positions.get(place, len(self.steps))
        return [keys for _, keys in self.steps[position : position + count]]

    def replace_epoch_ends(self) -> "ResumePlaceIndex":
        """Return the index with the end of each epoch as the head of the next one."""
        borders = ((q, p) for (q, _), (p, _) in pairwise(self.steps) if p.epoch == q.epoch + 1)
        heads_by_end = {
            TrainingPlace(q.epoch, q.step + 1): TrainingPlace(p.epoch, 0) for q, p in borders
        }

        def move_places(places: Mapping[str, set[TrainingPlace]]) -> dict[str, set[TrainingPlace]]:
            return {
                key: {heads_by_end.get(p, p) for p in key_places}
                for key, key_places in places.items()
            }

        return replace(
            self, models=move_places(self.models), optimizers=move_places(self.optimizers)
        )

    def build_fields(self, *, ranks: int) -> dict[str, Any]:
        """Return the index, of one of so many ranks, as JSON can hold it."""
        return {
            "ranks": ranks,
            "steps": [[*place, keys.inputs, keys.losses] for place, keys in self.steps],
            "models": {key: sorted(places) for key, places in self.models.items()},
            "optimizers": {key: sorted(places) for key, places in self.optimizers.items()},
        }

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any], *, ranks: int) -> Self:
        """Return the index of `build_fields`; for another number of ranks, without steps.

        With another number of workers a rank has other batches.
        """
        return cls(
            [
                (TrainingPlace(epoch, step), StepKeys(inputs=inputs, losses=tuple(losses)))
                for epoch, step, inputs, losses in fields["steps"]
                if fields["ranks"] == ranks
            ],
            {key: {TrainingPlace(*p) for p in places} for key, places in fields["models"].items()},
            {
                key: {TrainingPlace(*p) for p in places}
                for key, places in fields["optimizers"].items()
            },
        )


def get_indexes(history: History) -> Mapping[int, ResumePlaceIndex]:
    """Return the index of each rank of a clean run; made once for all runs that are compared."""
    return history.compute_once("resume places", lambda: _build_indexes(history))


def _build_indexes(history: History) -> dict[int, ResumePlaceIndex]:
    indexes: dict[int, ResumePlaceIndex] = {}
    for attempt_steps in group_steps_by_attempt(history).values():
        for rank, steps in attempt_steps.steps_by_rank.items():
            places = [
                (TrainingPlace(step.epoch, step.step - 1), build_step_keys(step)) for step in steps
            ]
            indexes.setdefault(rank, ResumePlaceIndex()).steps.extend(places)
    for _, state in history.select_events(StateSeen):
        indexes.setdefault(state.rank, ResumePlaceIndex()).add_state(
            find_resume_place(state), state.components
        )
    return {rank: index.replace_epoch_ends() for rank, index in indexes.items()}


def serialize_indexes(baseline: History | None) -> Mapping[int, str]:
    """Return the index of each rank as a file holds it."""
    if baseline is None:
        return {}
    rank_indexes = get_indexes(baseline)
    return baseline.compute_once(
        "saved resume places",
        lambda: {
            r: json.dumps(index.build_fields(ranks=len(rank_indexes)))
            for r, index in rank_indexes.items()
        },
    )


def build_step_keys(step: Step) -> StepKeys:
    """Return the keys of a step, without those of the state before it."""
    return StepKeys(
        inputs="" if step.inputs is None else step.inputs.digest, losses=tuple(step.losses or ())
    )


def find_resume_place(state: StateSeen) -> TrainingPlace:
    """Return the place at which a job resumes that continues from a state."""
    if state.moment == "left":
        return TrainingPlace(state.epoch + 1, 0)
    return TrainingPlace(state.epoch, state.step)


def build_state_keys(parts: Iterable[Component]) -> tuple[str, str]:
    """Return the key of a model, and that of what optimizers hold; empty where none was seen.

    Buffers and settings are left out: a forward call, or a schedule, moves them before a step.
    """
    models, optimizers = list[str](), list[str]()
    for part in parts:
        group = find_group(part.name)
        # The number in a name is that of the moment: another attempt may have an optimizer more.
        # The structure takes its place, as wherever parts are matched.
        key = f"{_NUMBER.sub('', part.name)} {part.structure}={part.digest}"
        if group == "model":
            models.append(key)
        elif group == "optimizer" and part.digest:
            optimizers.append(key)
    return ",".join(sorted(models)), ",".join(sorted(optimizers))


def find_resume_point(
    steps: Sequence[StepKeys],
    index: ResumePlaceIndex,
    assumed_place: InferredPlace,
    run_index: ResumePlaceIndex | None = None,
) -> ResumePoint:
    """Return the place at which a rank resumed whose first steps are these.

    `index` is of the baseline, `run_index` of the earlier attempts of the run itself: what it loads
    is its own state, also where its numbers are not the baseline's.
    """
    # The order of evidence, each with what it would get wrong if it came first:
    #
    #   inputs alone       a repeated epoch has the inputs of one place and the state of another;
    #                      the state is where it resumed, the inputs are the finding
    #   a model at START   a lost model and a job that begins anew look alike (`_is_lost`)
    #   a model alone      with the optimizer of another place only one of them was loaded: it must
    #                      stay where the commit is, or the finding would be "the inputs"
    #   the assumed place  a store that is no file is not seen to be read; so it comes last
    first_step = steps[0]
    models, optimizers = _find_state_places(first_step, index, run_index)
    inputs = index.places_by_inputs.get(first_step.inputs, set())
    matching_places = {
        place
        for place in inputs
        if first_step.losses
        and [step.losses for step in index.select_steps(place, 1)] == [first_step.losses]
    }
    if _is_lost(first_step, models, optimizers, inputs, assumed_place):
        models, matching_places = set(), set()
    evidence: tuple[tuple[ResumeEvidence, set[TrainingPlace]], ...] = (
        ("state and inputs", models & optimizers & inputs or models & inputs),
        ("state", models & optimizers - {START}),
        # From another state no loss is the same: a state that is known elsewhere outweighs it.
        ("inputs and losses", set() if models else matching_places),
    )
    for kind, places in evidence:
        if places:
            return _choose_place(places, kind, steps, index, assumed_place)
    if assumed_place.evidence == "nothing" and START not in models:
        return _find_unread_place(steps, index, assumed_place, models, optimizers, inputs)
    return ResumePoint(assumed_place.training_place, assumed_place.evidence)


def _find_state_places(
    first_step: StepKeys, index: ResumePlaceIndex, run_index: ResumePlaceIndex | None
) -> tuple[set[TrainingPlace], set[TrainingPlace]]:
    all_indexes = [index] if run_index is None else [index, run_index]
    models = (source.models.get(first_step.model, set()) for source in all_indexes)
    optimizers = (source.optimizers.get(first_step.optimizer, set()) for source in all_indexes)
    return set().union(*models), set().union(*optimizers)


def _is_lost(
    first_step: StepKeys,
    models: set[TrainingPlace],
    optimizers: set[TrainingPlace],
    inputs: set[TrainingPlace],
    assumed_place: InferredPlace,
) -> bool:
    """Return whether a model at its first values was lost by a job that did not begin anew.

    The inputs are those of the place of its commit or its file, or its optimizer holds what only
    training gives it.
    """
    if models != {START}:
        return False
    is_elsewhere = assumed_place.training_place != START and assumed_place.training_place in inputs
    return is_elsewhere or bool(first_step.optimizer and optimizers and START not in optimizers)


def _find_unread_place(
    steps: Sequence[StepKeys],
    index: ResumePlaceIndex,
    assumed_place: InferredPlace,
    models: set[TrainingPlace],
    optimizers: set[TrainingPlace],
    inputs: set[TrainingPlace],
) -> ResumePoint:
    """Return the place of a rank of which nothing was seen to be read.

    A state that only training gives was read somewhere.
    """
    trained_places = optimizers - {START} if steps[0].optimizer else set()
    evidence: tuple[tuple[ResumeEvidence, set[TrainingPlace]], ...] = (
        ("state", models),
        ("optimizer", trained_places & inputs or trained_places),
        ("inputs", inputs),
    )
    kind, places = next(((kind, places) for kind, places in evidence if places), ("nothing", set()))
    return (
        _choose_place(places, kind, steps, index, assumed_place)
        if places
        else ResumePoint(assumed_place.training_place, kind)
    )


def _choose_place(
    places: set[TrainingPlace],
    kind: ResumeEvidence,
    steps: Sequence[StepKeys],
    index: ResumePlaceIndex,
    assumed_place: InferredPlace,
) -> ResumePoint:
    """Return the place whose next steps are the rank's; of several, the one that is assumed."""
    # Several places fit where data repeat from epoch to epoch, or a state does not change. Each
    # further step is one more question; an answer that no place passes is left out
    # (`or candidates`), since a broken resume leaves the baseline at some step, and the steps
    # before it still tell.
    candidates = sorted(places)
    for position, step in enumerate(steps[:STEPS_MAX]):
        if len(candidates) == 1:
            break
        expected_steps = {
            place: index.select_steps(place, position + 1)[position:] for place in candidates
        }
        candidates = [
            p for p in candidates if [s.inputs for s in expected_steps[p]] == [step.inputs]
        ] or candidates
        candidates = [
            p for p in candidates if [s.losses for s in expected_steps[p]] == [step.losses]
        ] or candidates
    if kind in ("state", "optimizer"):  # that of an epoch's end is that of the next one's head
        candidates = [
            p for p in candidates if not (p.step and TrainingPlace(p.epoch + 1, 0) in candidates)
        ] or candidates
    if assumed_place.training_place in candidates:
        alternatives = [
            p
            for p in candidates
            if p != assumed_place.training_place and assumed_place.evidence == "nothing"
        ]
        return ResumePoint(assumed_place.training_place, kind, tuple(alternatives))
    return ResumePoint(candidates[-1], kind, tuple(candidates[:-1]))
