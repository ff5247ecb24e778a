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

from chaos.check.attempt import Resumed
from chaos.check.steps import Step, steps_by_attempt
from chaos.model.event import Component, ResumeEvidence, StateSeen
from chaos.model.events.state import group_of
from chaos.model.history import History
from chaos.model.places import START, Place

_NUMBER = re.compile(r"\.\d+")
STEPS_MAX = 64  # of an attempt that are looked up; data that repeat longer than that fit anywhere


@dataclass(frozen=True, slots=True)
class Seen:
    """One step of a rank: the state before it, its inputs and its losses, each as a key.

    A key is empty where the thing was not seen, that of an optimizer where it holds nothing.
    """

    model: str = ""
    optimizer: str = ""
    inputs: str = ""
    losses: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Assumed:
    """The place of an attempt as it is inferred without its training: by a commit, or a file."""

    place: Place = START
    #: "nothing" where there was neither: then the job begins, as far as is known
    by: ResumeEvidence = "nothing"
    path: str | None = None


@dataclass
class Index:
    """The steps and states of one rank in a run, by which a place is found."""

    #: the steps in order, each with the place before it
    steps: list[tuple[Place, Seen]] = field(default_factory=list)
    #: the places at which a model was seen, by its key
    models: dict[str, set[Place]] = field(default_factory=dict)
    #: the same for what optimizers hold, at places at which a model was seen
    optimizers: dict[str, set[Place]] = field(default_factory=dict)

    def add_state(self, place: Place, parts: Iterable[Component]) -> None:
        """Add a state that was seen at a place."""
        self.add_keys(place, *state_keys(parts))

    def add_keys(self, place: Place, model: str, optimizer: str) -> None:
        """Add a state by its keys (see `state_keys`)."""
        if model:
            self.models.setdefault(model, set()).add(place)
            self.optimizers.setdefault(optimizer, set()).add(place)

    @cached_property
    def by_inputs(self) -> Mapping[str, set[Place]]:
        """The places whose next step has these inputs."""
        found: dict[str, set[Place]] = {}
        for place, seen in self.steps:
            if seen.inputs:
                found.setdefault(seen.inputs, set()).add(place)
        return found

    @cached_property
    def _at(self) -> Mapping[Place, int]:
        return {place: at for at, (place, _) in enumerate(self.steps)}

    def following(self, place: Place, count: int) -> Sequence[Seen]:
        """Return so many steps from a place on, fewer where the run ends."""
        at = self._at.get(place, len(self.steps))
        return [seen for _, seen in self.steps[at : at + count]]

    def heads(self) -> "Index":
        """Return the index with the end of each epoch as the head of the next one."""
        borders = ((q, p) for (q, _), (p, _) in pairwise(self.steps) if p.epoch == q.epoch + 1)
        known = {Place(q.epoch, q.step + 1): Place(p.epoch, 0) for q, p in borders}

        def moved(places: Mapping[str, set[Place]]) -> dict[str, set[Place]]:
            return {key: {known.get(p, p) for p in of} for key, of in places.items()}

        return replace(self, models=moved(self.models), optimizers=moved(self.optimizers))

    def as_fields(self, *, ranks: int) -> dict[str, Any]:
        """Return the index, of one of so many ranks, as JSON can hold it."""
        return {
            "ranks": ranks,
            "steps": [[*place, seen.inputs, seen.losses] for place, seen in self.steps],
            "models": {key: sorted(of) for key, of in self.models.items()},
            "optimizers": {key: sorted(of) for key, of in self.optimizers.items()},
        }

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any], *, ranks: int) -> Self:
        """Return the index of `as_fields`; for another number of ranks, without steps.

        With another number of workers a rank has other batches.
        """
        return cls(
            [
                (Place(epoch, step), Seen(inputs=inputs, losses=tuple(losses)))
                for epoch, step, inputs, losses in fields["steps"]
                if fields["ranks"] == ranks
            ],
            {key: {Place(*p) for p in of} for key, of in fields["models"].items()},
            {key: {Place(*p) for p in of} for key, of in fields["optimizers"].items()},
        )


def indexes(history: History) -> Mapping[int, Index]:
    """Return the index of each rank of a clean run; made once for all runs that are compared."""
    return history.once("resume places", lambda: _indexes(history))


def _indexes(history: History) -> dict[int, Index]:
    found: dict[int, Index] = {}
    for made in steps_by_attempt(history).values():
        for rank, steps in made.by_rank.items():
            places = [(Place(step.epoch, step.step - 1), seen_of(step)) for step in steps]
            found.setdefault(rank, Index()).steps.extend(places)
    for _, seen in history.of(StateSeen):
        found.setdefault(seen.rank, Index()).add_state(place_of(seen), seen.components)
    return {rank: index.heads() for rank, index in found.items()}


def saved_indexes(baseline: History | None) -> Mapping[int, str]:
    """Return the index of each rank as a file holds it."""
    if baseline is None:
        return {}
    found = indexes(baseline)
    return baseline.once(
        "saved resume places",
        lambda: {r: json.dumps(index.as_fields(ranks=len(found))) for r, index in found.items()},
    )


def seen_of(step: Step) -> Seen:
    """Return the keys of a step, without those of the state before it."""
    return Seen(
        inputs="" if step.inputs is None else step.inputs.digest, losses=tuple(step.losses or ())
    )


def place_of(seen: StateSeen) -> Place:
    """Return the place at which a job resumes that continues from a state."""
    if seen.moment == "left":
        return Place(seen.epoch + 1, 0)
    return Place(seen.epoch, seen.step)


def state_keys(parts: Iterable[Component]) -> tuple[str, str]:
    """Return the key of a model, and that of what optimizers hold; empty where none was seen.

    Buffers and settings are left out: a forward call, or a schedule, moves them before a step.
    """
    models, others = list[str](), list[str]()
    for part in parts:
        group = group_of(part.name)
        # The number in a name is that of the moment: another attempt may have an optimizer more.
        # The structure takes its place, as wherever parts are matched.
        key = f"{_NUMBER.sub('', part.name)} {part.structure}={part.digest}"
        if group == "model":
            models.append(key)
        elif group == "optimizer" and part.digest:
            others.append(key)
    return ",".join(sorted(models)), ",".join(sorted(others))


def resumed_at(
    steps: Sequence[Seen], index: Index, assumed: Assumed, own: Index | None = None
) -> Resumed:
    """Return the place at which a rank resumed whose first steps are these.

    `index` is of the baseline, `own` of the earlier attempts of the run itself: what it loads is
    its own state, also where its numbers are not the baseline's.
    """
    # The order of evidence, each with what it would get wrong if it came first:
    #
    #   inputs alone       a repeated epoch has the inputs of one place and the state of another;
    #                      the state is where it resumed, the inputs are the finding
    #   a model at START   a lost model and a job that begins anew look alike (`_is_lost`)
    #   a model alone      with the optimizer of another place only one of them was loaded: it must
    #                      stay where the commit is, or the finding would be "the inputs"
    #   the assumed place  a store that is no file is not seen to be read; so it comes last
    first = steps[0]
    models, optimizers = _states(first, index, own)
    inputs = index.by_inputs.get(first.inputs, set())
    alike = {
        place
        for place in inputs
        if first.losses and [s.losses for s in index.following(place, 1)] == [first.losses]
    }
    if _is_lost(first, models, optimizers, inputs, assumed):
        models, alike = set(), set()
    evidence: tuple[tuple[ResumeEvidence, set[Place]], ...] = (
        ("state and inputs", models & optimizers & inputs or models & inputs),
        ("state", models & optimizers - {START}),
        # From another state no loss is the same: a state that is known elsewhere outweighs it.
        ("inputs and losses", set() if models else alike),
    )
    for by, places in evidence:
        if places:
            return _chosen(places, by, steps, index, assumed)
    if assumed.by == "nothing" and START not in models:
        return _unread(steps, index, assumed, models, optimizers, inputs)
    return Resumed(assumed.place, assumed.by)


def _states(first: Seen, index: Index, own: Index | None) -> tuple[set[Place], set[Place]]:
    known = [index] if own is None else [index, own]
    models = (of.models.get(first.model, set()) for of in known)
    optimizers = (of.optimizers.get(first.optimizer, set()) for of in known)
    return set().union(*models), set().union(*optimizers)


def _is_lost(
    first: Seen, models: set[Place], optimizers: set[Place], inputs: set[Place], assumed: Assumed
) -> bool:
    """Return whether a model at its first values was lost by a job that did not begin anew.

    The inputs are those of the place of its commit or its file, or its optimizer holds what only
    training gives it.
    """
    if models != {START}:
        return False
    is_elsewhere = assumed.place != START and assumed.place in inputs
    return is_elsewhere or bool(first.optimizer and optimizers and START not in optimizers)


def _unread(
    steps: Sequence[Seen],
    index: Index,
    assumed: Assumed,
    models: set[Place],
    optimizers: set[Place],
    inputs: set[Place],
) -> Resumed:
    """Return the place of a rank of which nothing was seen to be read.

    A state that only training gives was read somewhere.
    """
    trained = optimizers - {START} if steps[0].optimizer else set()
    evidence: tuple[tuple[ResumeEvidence, set[Place]], ...] = (
        ("state", models),
        ("optimizer", trained & inputs or trained),
        ("inputs", inputs),
    )
    by, places = next(((by, places) for by, places in evidence if places), ("nothing", set()))
    return _chosen(places, by, steps, index, assumed) if places else Resumed(assumed.place, by)


def _chosen(
    places: set[Place],
    by: ResumeEvidence,
    steps: Sequence[Seen],
    index: Index,
    assumed: Assumed,
) -> Resumed:
    """Return the place whose next steps are the rank's; of several, the one that is assumed."""
    # Several places fit where data repeat from epoch to epoch, or a state does not change. Each
    # further step is one more question; an answer that no place passes is left out (`or fits`),
    # since a broken resume leaves the baseline at some step, and the steps before it still tell.
    fits = sorted(places)
    for at, seen in enumerate(steps[:STEPS_MAX]):
        if len(fits) == 1:
            break
        due = {place: index.following(place, at + 1)[at:] for place in fits}
        fits = [p for p in fits if [s.inputs for s in due[p]] == [seen.inputs]] or fits
        fits = [p for p in fits if [s.losses for s in due[p]] == [seen.losses]] or fits
    if by in ("state", "optimizer"):  # that of an epoch's end is that of the next one's head
        fits = [p for p in fits if not (p.step and Place(p.epoch + 1, 0) in fits)] or fits
    if assumed.place in fits:
        others = [p for p in fits if p != assumed.place and assumed.by == "nothing"]
        return Resumed(assumed.place, by, tuple(others))
    return Resumed(fits[-1], by, tuple(fits[:-1]))
