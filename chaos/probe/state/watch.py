"""The state snapshots of a rank: as it enters an epoch, at sampled steps, as it leaves it.

A job that saves a file of its own within an epoch can be resumed there. So the step after
the save is treated as if it entered the epoch, which costs about as much as the save.

After a step only model and optimizer are looked at, and no norms are taken.

If the whole state is on the host, the event is written at once. If a part is on an
accelerator, its fingerprint is computed there, and the event is written by `settle`,
at the next report. It keeps the place at which it was taken.

The objects that hold a job's state are remembered as the job makes them. They are referenced
weakly: an object that the job drops is no longer its state. They are in the order of their
making, which a job repeats in every attempt.
"""

import functools
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal, TypeAlias

from chaos import declared
from chaos.check.resume_place import state_keys
from chaos.model.event import (
    CensusTaken,
    CodeLine,
    GeneratorsSeen,
    Held,
    LoopBody,
    NamesGiven,
    ParametersNamed,
    StateSeen,
)
from chaos.model.places import Place
from chaos.probe.cursor import Recorder
from chaos.probe.job_code import loops_around, naming_line
from chaos.probe.loaders import before_loaders
from chaos.probe.state import components
from chaos.probe.state.census import TIME_MAX_NS, Census, Copied, hook_owners
from chaos.probe.state.give_back import LoopTrace, Orders, Reached, global_generators
from chaos.probe.state.keras_parts import keras_parts
from chaos.probe.state.part import UnreadPart
from chaos.probe.state.roots import Roots
from chaos.probe.state.stored import saved_tensors
from chaos.run.clock import SystemClock


def kind_of(stepped: Any) -> str:  # whatever begins a step
    """Return the kind of an object that makes steps: `optimizer` (torch), `keras` or `booster`."""
    if hasattr(stepped, "param_groups"):
        return "optimizer"
    return "keras" if hasattr(type(stepped), "trainable_weights") else "booster"


class StateObjects:
    """Optimizers, schedules, scalers and averaged models of this process."""

    def __init__(self, optimizer_made: Callable[[], None] = lambda: None) -> None:
        self._optimizer_made = optimizer_made
        self._stepped: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._seen: dict[str, list[weakref.ref[Any]]] = {}

    def watch(self) -> None:
        """Remember objects as they are made from now on."""
        import torch
        from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
        from torch.optim.swa_utils import AveragedModel

        self._watch_making("optimizer", torch.optim.Optimizer)
        self._watch_making("schedule", LRScheduler)
        self._watch_making("schedule", ReduceLROnPlateau)  # does not call its base's constructor
        self._watch_making("scaler", torch.amp.GradScaler)
        self._watch_making("ema", AveragedModel)

    def add(self, kind: str, found: Any) -> None:  # any object of that kind
        """Remember an object, unless it is known; an optimizer is also added at its first step."""
        if not any(known is found for known in self.all(kind)):
            self._seen.setdefault(kind, []).append(weakref.ref(found))
            if kind == "optimizer":
                self._optimizer_made()

    def all(self, kind: str) -> list[Any]:
        """Return the objects of a kind that still exist."""
        return [o for ref in self._seen.get(kind, ()) if (o := ref()) is not None]

    def stepped(self, optimizer: Any, epoch: int) -> None:
        self._stepped[optimizer] = epoch

    def optimizers(self, epoch: int) -> list[Any]:
        """Return the optimizers that train, in the order of their making.

        An optimizer that made steps, but none since the last epoch began, trains no more: it is
        of an earlier phase, or of a trial of the job. Another attempt may not have it.
        """
        return [o for o in self.all("optimizer") if self._stepped.get(o, epoch) >= epoch - 1]

    def _watch_making(self, kind: str, cls: Any) -> None:  # a class
        # The class's own constructor, so that subclasses of a job's are seen as well, whatever
        # module they come from. The object is added when the constructor is over: before that it
        # has no parameters to tell it by.
        original: Callable[..., None] = cls.__init__

        @functools.wraps(original)
        def make(made: Any, *args: Any, **kwargs: Any) -> None:
            original(made, *args, **kwargs)
            self.add(kind, made)

        cls.__init__ = make


Moment: TypeAlias = Literal["entered", "step", "left"]
# Snapshots that may wait on an accelerator for a report.
PENDING_MAX = 64
# Parameters whose names are recorded; above it none is (see `ParametersNamed`).
NAMED_MAX = 1024
# As long a census may take, in times of any other, where an order asks for values.
ORDERED_TIMES = 20
# Values whose lines are recorded, the nearest first.
LINES_MAX = 256


@dataclass(frozen=True)
class _Taken:
    place: dict[str, int]
    moment: Moment
    parts: tuple[UnreadPart, ...]

    @property
    def is_late(self) -> bool:
        return any(part.encoding.is_late for part in self.parts)

    def event(self) -> StateSeen:
        seen = tuple(part.component() for part in self.parts)
        return StateSeen(**self.place, moment=self.moment, components=seen)


class StateWatch:
    """The watch of one rank's state."""

    def __init__(
        self,
        record: Recorder,
        *,
        every: int,
    ) -> None:
        self.found = StateObjects(self._optimizer_made)
        self._cursor, self._cost = record.cursor, record.cost
        self._write, self._failed = record.write, record.failed
        self._every = every
        self._roots: Roots | None = None
        self._entered: int | None = None
        self._waiting: _Taken | None = None
        self._gradients: UnreadPart | None = None
        self._pending: list[_Taken] = []
        self._told: set[str] = set()
        self._are_named = False
        self._census: Census | None = None
        self._counted: tuple[int, int] | None = None
        #: the newest of each loop whose body began, where an order asks for it
        self._at_loops: dict[int, Census] = {}
        self._generators: dict[str, str] = {}
        #: iterators of persistent loaders, with the data set as their processes were given it
        self._copies: list[tuple[weakref.ref[Any], Any, Copied]] = []
        self._held: dict[str, Held] = {}
        self._is_stepping = False
        self.orders: Orders | None = None
        self._trace: LoopTrace | None = None

    def install(self, roots: Roots) -> None:
        """Find, from now on, the objects that hold state as they are made."""
        self._roots = roots
        self.found.watch()

    def follow(self, orders: Orders) -> None:
        """Keep values of the job, or give it such that were kept."""
        self.orders = orders
        if orders.copied and not orders.is_over:
            before_loaders(self._loader_starts)
        if orders.loops and not orders.is_over:
            self._trace = LoopTrace(orders.loops, self._loop_begun)
            self._trace.start()

    def loader_started(self, iterator: Any) -> None:  # torch's, of a loader with processes
        """Remember the data set as the processes of a persistent loader were given it."""
        try:
            dataset = iterator._dataset  # noqa: SLF001
            copied = Copied.of(dataset, SystemClock().thread_ns)
            self._copies = [one for one in self._copies if one[0]() is not None]
            self._copies.append((weakref.ref(iterator), weakref.ref(dataset), copied))
        except Exception:  # noqa: BLE001, S110 - nothing is judged by it
            pass

    def _loader_starts(self, loader: Any) -> Callable[[], None]:  # torch's
        """Set values of the data set that a loader's processes are about to be given."""
        try:
            if self.orders is not None and not self.orders.is_over:
                census = self._taken_census(sys._getframe(2))  # noqa: SLF001
                if census.path_of(loader.dataset) is not None:
                    return self.orders.give_to_copies(census.reached)
        except Exception as error:  # noqa: BLE001 - must not fail the user's loader
            self._failed("census", error)
        return lambda: None

    def _loop_begun(self, loop: int, frame: FrameType) -> None:
        try:
            if self.orders is not None and self.orders.asks(loop, self._here):
                census = self._taken_census(frame)
                self.orders.reached(loop, census.reached)
                self._at_loops[loop] = census
        except Exception as error:  # noqa: BLE001 - must not fail the user's step
            self._failed("census", error)

    @property
    def _here(self) -> Place:
        return Place(self._cursor.epoch, self._cursor.step)

    def step_begins(
        self,
        optimizer: Any,  # see `kind_of`
        *,
        may_be_entered: bool = False,
    ) -> None:
        """Take the state with which an epoch is entered, before its first step.

        `may_be_entered`: a resumed rank may enter the epoch at this step, too, by a saved file.
        """
        self._is_stepping = True
        kind = kind_of(optimizer)
        self.found.add(kind, optimizer)
        if kind == "optimizer":
            self.found.stepped(optimizer, self._cursor.epoch)
        if self._entered == self._cursor.epoch and not may_be_entered:
            return
        self._entered = self._cursor.epoch
        self._write_census()
        with self._cost.watching, self._cost.on_state:
            # The optimizer is the first that is seen of a step, and usually the modules were called
            # before it. Where it takes a closure they are called within it: the state is taken now,
            # before anything moves, and the model is added at its first call (`root_found`).
            taken = self._take("entered")
            self._gradients = None
            if self._roots is not None and self._roots.is_searching and not self._roots.all():
                self._waiting = taken  # a step with a closure: its forward call is still to come
            else:
                self._keep(taken)
        self._name_parameters()

    def called(self, may_resume: Callable[[], bool], *, has_read_late: bool = False) -> None:
        """Take a census before the first call of a model since the last step, where that is due.

        `may_resume`: whether an attempt may resume at this place; `has_read_late`: it does so after
        steps that came before its save was read.
        """
        here = (self._cursor.epoch, self._cursor.step)
        is_first = self._counted is None
        if here == self._counted or not (is_first or self._cursor.step == 0 or may_resume()):
            return
        with self._cost.on_state:
            try:
                self._census = self._taken_census(sys._getframe(1))  # noqa: SLF001
                orders = self.orders
                if orders is not None and has_read_late:
                    orders.again()
                if orders is not None and orders.reached(None, self._census.reached):
                    self._census = self._taken_census(sys._getframe(1))  # noqa: SLF001
                if orders is not None and orders.is_over and self._trace is not None:
                    self._trace.stop()
                self._generators = _generator_digests()
            except Exception:  # noqa: BLE001 - nothing is judged by it
                self._census = None
            self._counted = here
            if self._is_stepping:  # a step with a closure, whose place is known
                self._write_census()

    def enters_anew(self) -> None:
        """Take the state at the next step as one that enters an epoch: the place is another."""
        self._entered = None

    def gradients_due(self) -> None:
        """Take the gradients accumulated so far, for the next snapshot at an entry."""
        with self._cost.on_state:
            self._gradients = components.gradient_part(self.optimizers())

    def drop_gradients(self) -> None:
        """Forget them: a step has several places at which some were pending."""
        self._gradients = None

    def keys(self) -> tuple[str, str]:
        with self._cost.watching, self._cost.on_state:
            return state_keys(part.component() for part in self._take("step").parts)

    def root_found(self) -> None:
        """Take the model, before its first call, that was unknown when the epoch was entered."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        with self._cost.watching, self._cost.on_state:
            others = tuple(p for p in waiting.parts if not p.name.startswith("model"))
            models = self._guarded("model", self._models(full=True))
            models += self._guarded(
                "buffers", components.buffer_parts(self._known_roots(), full=True)
            )
            self._keep(_Taken(waiting.place, waiting.moment, (*models, *others)))
        self._name_parameters()

    def _name_parameters(self) -> None:
        """Record once, as soon as the modules are known, which parameters are trained."""
        roots = [] if self._are_named else self._known_roots()
        if not roots:
            return
        self._are_named = True
        try:
            names = components.parameter_names(roots, self.optimizers())
            if 0 < len(names) <= NAMED_MAX:
                self._write(ParametersNamed(**self._cursor.place(), names=tuple(names)))
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
            self._failed("state: names", error)

    def step_done(self) -> None:
        """Take a sample, if one is due at this step."""
        self._census, self._is_stepping = None, False
        if self._roots is not None and self._roots.is_searching:
            self._roots.searched_a_step(self.optimizers())
        if self._waiting is not None:  # no module was called in the step
            waiting, self._waiting = self._waiting, None
            self._keep(waiting)
        step = self._cursor.step
        if step > 1 and step & (step - 1) == 0:
            self._write_generators()
        if self._cursor.step % self._every == 0:
            with self._cost.watching, self._cost.on_state:
                self._keep(self._take("step"))

    def _write_generators(self) -> None:
        """Write what the shared generators are, after 2, 4, 8, … steps: few may draw from them."""
        with self._cost.watching, self._cost.on_state:
            try:
                self._write(GeneratorsSeen(**self._cursor.place(), digests=_generator_digests()))
            except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
                self._failed("state: generators", error)

    def report_begun(self) -> None:
        """Take the state at the end of an epoch, and write all pending snapshots."""
        with self._cost.watching, self._cost.on_state:
            self._keep(self._take("left"))
            self.settle()
        self._entered = None
        self._optimizer_made()  # so that each epoch of any attempt finds the same modules

    def settle(self) -> None:
        """Read the pending snapshots from the accelerator, and write them."""
        pending, self._pending = self._pending, []
        for taken in pending:
            self._write(taken.event())

    # -- inside ------------------------------------------------------------------------------

    def _optimizer_made(self) -> None:
        if self._roots is not None:
            self._roots.begin_search()

    def optimizers(self) -> list[Any]:
        return self.found.optimizers(self._cursor.epoch)

    def count_trained(self) -> int:
        """Return the number of the numbers in all parameters of the optimizers that train."""
        groups = (group for optimizer in self.optimizers() for group in optimizer.param_groups)
        trained = {id(p): p for group in groups for p in group["params"]}
        return sum(parameter.numel() for parameter in trained.values() if parameter.requires_grad)

    def _taken_census(self, frame: FrameType) -> Census:
        """Take a census from a frame outwards."""
        orders = self.orders
        wanted = frozenset[str]() if orders is None else orders.wanted.union(orders.copied)
        is_first = not self._cursor.attempt and not self._cursor.rank and self._counted is None
        # Beside other processes, a time by the clock would end the one census here and the other
        # there. Where values are looked for, there is time for all that a library's objects hold.
        census = Census(
            SystemClock().thread_ns,
            wanted,
            keeps_all=is_first,
            wants_all=orders is not None and orders.keeps,
            compared=self._compared(),
            most_ns=TIME_MAX_NS * (1 if orders is None or orders.is_over else ORDERED_TIMES),
        )
        census.of_frames(frame)
        known = {kind: self.found.all(kind) for kind in ("optimizer", "schedule", "scaler")}
        parts = {
            components.numbered(kind, index): one
            for kind, found in {"model": self._known_roots(), **known}.items()
            for index, one in enumerate(found)
        }
        census.of(parts.items())
        census.of(hook_owners(self._known_roots()))
        if not wanted.isdisjoint(shared := global_generators()):
            census.of(shared.items())
        census.look_into_all()
        for iterator, dataset, copied in self._copies:
            if iterator() is not None and (path := census.path_of(dataset())) is not None:
                census.of_copy(path, copied)
        if census.named is not None:
            self._name(census.named, parts, loops_around(frame))
            census.named = None
        return census

    def _compared(self) -> frozenset[int]:
        """Return the ids of the tensors that the parts of the state are made of."""
        averaged = (*self._known_roots(), *self.found.all("ema"))
        known = {id(tensor) for module in averaged for tensor in saved_tensors(module)}
        groups = (group for o in self.found.all("optimizer") for group in o.param_groups)
        return frozenset(known.union(id(p) for group in groups for p in group["params"]))

    def _name(
        self,
        named: list[tuple[str, Reached]],
        parts: Mapping[str, Any],
        loops: tuple[LoopBody, ...],
    ) -> None:
        """Record the lines of the job that made what a census has reached."""
        heads = {id(part): head for head, part in parts.items()}
        lines: dict[str, CodeLine] = {}
        made: dict[str, str] = {}
        for path, (value, holder, name) in named:
            head = heads.get(id(value))
            is_new = path not in lines and len(lines) < LINES_MAX
            line = naming_line(holder, name) if is_new or head is not None else None
            if line is not None:
                lines.setdefault(path, line)
                if head is not None:
                    made.setdefault(head, path)
        self._write(NamesGiven(**self._cursor.who(), lines=lines, parts=made, loops=loops))

    def _write_census(self) -> None:
        """Write the census that was taken, with the place that is known now."""
        census, self._census = self._census, None
        if census is not None:
            if self.orders is not None:
                self.orders.at(self._here)
            before, self._held = self._held, {held.path: held for held in census.entries}
            new = tuple(held for held in census.entries if before.get(held.path) != held)
            gone = tuple(before.keys() - self._held.keys())
            place, left_out = self._cursor.place(), tuple(census.left_out)
            digests = self._generators
            self._write(
                CensusTaken(**place, held=new, gone=gone, left_out=left_out, generators=digests)
            )
            if self.orders is not None and self._here in self.orders.places:
                for loop, taken in sorted(self._at_loops.items()):
                    self._write(_census_at_loop(loop, taken, self._cursor.place()))

    def _keep(self, taken: _Taken) -> None:
        if not taken.is_late:
            self._write(taken.event())
            return
        self._pending.append(taken)
        # Fingerprints wait on the accelerator until a report, so that a step is not held up. A job
        # that reports seldom must not keep any number of them there.
        if len(self._pending) >= PENDING_MAX:
            self.settle()

    def parts(self, moment: Moment) -> list[UnreadPart]:
        """Take the parts of the state: of model and optimizer, and at an epoch's ends of all."""
        full = moment != "step"
        groups: list[tuple[str, Iterator[UnreadPart]]] = [
            ("model", self._models(full=full)),
            ("buffers", components.buffer_parts(self._known_roots(), full=full)),
            ("keras", keras_parts(self.found.all("keras"), full=full)),
        ]
        for index, optimizer in enumerate(self.optimizers()):
            name = components.numbered("optimizer", index)
            groups.append((name, components.optimizer_parts(name, optimizer, full=full)))
        if full:
            groups += self._more_groups()
        parts = [part for name, group in groups for part in self._guarded(name, group)]
        if moment == "entered" and self._gradients is not None:
            parts.append(self._gradients)
        return parts

    def _take(self, moment: Moment) -> _Taken:
        return _Taken(self._cursor.place(), moment, tuple(self.parts(moment)))

    def _more_groups(self) -> list[tuple[str, Iterator[UnreadPart]]]:
        """Return the parts that are too costly after single steps.

        For instance, to read a scaler's state waits for the accelerator.
        """
        return [
            ("model.trees", components.booster_parts(self.found.all("booster"))),
            ("ema", components.averaged_parts(self.found.all("ema"))),
            ("schedule", self._schedules()),
            ("scaler", self._scalers()),
            ("rng", components.rng_parts()),
            ("declared", components.declared_parts(declared.declared_parts())),
        ]

    def _guarded(self, name: str, group: Iterator[UnreadPart]) -> list[UnreadPart]:
        """Take a group; an error is recorded once, and does not affect the other groups."""
        taken: list[UnreadPart] = []
        try:
            taken.extend(group)
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
            if name not in self._told:
                self._told.add(name)
                self._failed(f"state: {name}", error)
        return taken

    def _models(self, *, full: bool) -> Iterator[UnreadPart]:
        return components.model_parts(self._known_roots(), self.optimizers(), full=full)

    def _known_roots(self) -> list[Any]:
        return self._roots.all() if self._roots is not None else []

    def _schedules(self) -> Iterator[UnreadPart]:
        for index, schedule in enumerate(self.found.all("schedule")):
            name = components.numbered("schedule", index)
            yield components.schedule_part(name, schedule)

    def _scalers(self) -> Iterator[UnreadPart]:
        used = [scaler for scaler in self.found.all("scaler") if scaler.is_enabled()]
        for index, scaler in enumerate(used):
            name = components.numbered("scaler", index)
            yield UnreadPart.of(name, scaler.state_dict(), with_size=False)


def _census_at_loop(loop: int, taken: Census, place: dict[str, int]) -> CensusTaken:
    """Return the census of a loop's beginning, at the place at which a step then began."""
    return CensusTaken(
        attempt=place["attempt"],
        rank=place["rank"],
        epoch=place["epoch"],
        step=place["step"],
        held=taken.entries,
        left_out=tuple(taken.left_out),
        loop=loop,
    )


def _generator_digests() -> dict[str, str]:
    """Return the digests of the shared generators, by the names of their parts of the state."""
    return {part.name: part.digest for part in map(UnreadPart.component, components.rng_parts())}
