"""The state snapshots of a rank: as it enters an epoch, at sampled steps, as it leaves it.

A job that saves a file of its own within an epoch can be resumed there. So the step after
the save is treated as if it entered the epoch, which costs about as much as the save.

After a step only model and optimizer are looked at, and no norms are taken.

If the whole state is on the host, the event is written at once. If a part is on an
accelerator, its fingerprint is computed there, and the event is written by `write_pending`,
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

from chaos import declaration
from chaos.extension_modules import load_extension_module
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
from chaos.probe.cursor import Recorder
from chaos.probe.job_code import find_naming_line, find_outer_loops
from chaos.probe.loaders import watch_loader_starts
from chaos.probe.state import components
from chaos.probe.state.census import TIME_MAX_NS, Census, CopiedValues, find_hook_owners
from chaos.probe.state.keras_parts import take_keras_parts
from chaos.probe.state.part import UnreadComponent
from chaos.probe.state.restored_values import (
    HeldValue,
    LoopTrace,
    ValueOrders,
    find_global_generators,
)
from chaos.probe.state.roots import RootModules
from chaos.probe.state.stored_attributes import iterate_saved_tensors
from chaos.resume.resume_place import build_state_keys
from chaos.run.clock import SystemClock


def find_kind(stepper: Any) -> str:  # whatever begins a step
    """Return the kind of an object that makes steps: `optimizer` (torch), `keras` or `booster`."""
    if hasattr(stepper, "param_groups"):
        return "optimizer"
    return "keras" if hasattr(type(stepper), "trainable_weights") else "booster"


class StateObjects:
    """Optimizers, schedules, scalers and averaged models of this process."""

    def __init__(self, on_optimizer: Callable[[], None] = lambda: None) -> None:
        self._on_optimizer = on_optimizer
        self._last_step_epoch: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._objects_by_kind: dict[str, list[weakref.ref[Any]]] = {}

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

    def add_object(self, kind: str, new_object: Any) -> None:  # any object of that kind
        """Remember an object, unless it is known; an optimizer is also added at its first step."""
        if not any(known_object is new_object for known_object in self.list_objects(kind)):
            self._objects_by_kind.setdefault(kind, []).append(weakref.ref(new_object))
            if kind == "optimizer":
                self._on_optimizer()

    def list_objects(self, kind: str) -> list[Any]:
        """Return the objects of a kind that still exist."""
        return [
            live_object
            for ref in self._objects_by_kind.get(kind, ())
            if (live_object := ref()) is not None
        ]

    def record_step(self, optimizer: Any, epoch: int) -> None:
        self._last_step_epoch[optimizer] = epoch

    def list_optimizers(self, epoch: int) -> list[Any]:
        """Return the optimizers that train, in the order of their making.

        An optimizer that made steps, but none since the last epoch began, trains no more: it is
        of an earlier phase, or of a trial of the job. Another attempt may not have it.
        """
        return [
            optimizer
            for optimizer in self.list_objects("optimizer")
            if self._last_step_epoch.get(optimizer, epoch) >= epoch - 1
        ]

    def _watch_making(self, kind: str, cls: Any) -> None:  # a class
        # The class's own constructor, so that subclasses of a job's are seen as well, whatever
        # module they come from. The object is added when the constructor is over: before that it
        # has no parameters to tell it by.
        original: Callable[..., None] = cls.__init__

        @functools.wraps(original)
        def make(new_object: Any, *args: Any, **kwargs: Any) -> None:
            original(new_object, *args, **kwargs)
            self.add_object(kind, new_object)

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
class _Snapshot:
    place_fields: dict[str, int]
    moment: Moment
    parts: tuple[UnreadComponent, ...]

    @property
    def is_on_accelerator(self) -> bool:
        return any(part.encoding.is_on_accelerator for part in self.parts)

    def build_event(self) -> StateSeen:
        components_seen = tuple(part.build_component() for part in self.parts)
        return StateSeen(**self.place_fields, moment=self.moment, components=components_seen)


class StateWatch:
    """The watch of one rank's state."""

    def __init__(self, record: Recorder, *, sample_steps: int) -> None:
        self.state_objects = StateObjects(self._on_optimizer)
        self._cursor, self._cost = record.cursor, record.cost
        self._write, self._report_failure = record.write, record.report_failure
        self._sample_steps = sample_steps
        self._roots: RootModules | None = None
        self._entered_epoch: int | None = None
        self._waiting_snapshot: _Snapshot | None = None
        self._gradient_part: UnreadComponent | None = None
        self._pending_snapshots: list[_Snapshot] = []
        self._failed_groups: set[str] = set()
        self._has_named_parameters = False
        self._census: Census | None = None
        self._census_place: tuple[int, int] | None = None
        #: the newest of each loop whose body began, where an order asks for it
        self._loop_censuses: dict[int, Census] = {}
        self._generator_digests: dict[str, str] = {}
        #: iterators of persistent loaders, with the data set as their processes were given it
        self._loader_copies: list[tuple[weakref.ref[Any], Any, CopiedValues]] = []
        self._written_entries: dict[str, Held] = {}
        self._is_stepping = False
        self.value_orders: ValueOrders | None = None
        self._trace: LoopTrace | None = None

    def install(self, roots: RootModules) -> None:
        """Find, from now on, the objects that hold state as they are made."""
        self._roots = roots
        self.state_objects.watch()

    def set_orders(self, orders: ValueOrders) -> None:
        """Keep values of the job, or give it such that were kept."""
        self.value_orders = orders
        if orders.loader_paths and not orders.is_finished:
            watch_loader_starts(self._restore_loader_copy)
        if orders.loops and not orders.is_finished:
            self._trace = LoopTrace(orders.loops, self._on_loop_begin)
            self._trace.start()

    def loader_started(self, iterator: Any) -> None:  # torch's, of a loader with processes
        """Remember the data set as the processes of a persistent loader were given it."""
        try:
            dataset = iterator._dataset  # noqa: SLF001
            copied_values = CopiedValues.from_object(dataset, SystemClock().thread_ns)
            self._loader_copies = [
                loader_copy for loader_copy in self._loader_copies if loader_copy[0]() is not None
            ]
            self._loader_copies.append((weakref.ref(iterator), weakref.ref(dataset), copied_values))
        except Exception:  # noqa: BLE001, S110 - nothing is judged by it
            pass

    def _restore_loader_copy(self, loader: Any) -> Callable[[], None]:  # torch's
        """Set values of the data set that a loader's processes are about to be given."""
        try:
            if self.value_orders is not None and not self.value_orders.is_finished:
                census = self._build_census(sys._getframe(2))  # noqa: SLF001
                if census.find_path(loader.dataset) is not None:
                    return self.value_orders.restore_copies(census.wanted_values)
        except Exception as error:  # noqa: BLE001 - must not fail the user's loader
            self._report_failure("census", error)
        return lambda: None

    def _on_loop_begin(self, loop: int, frame: FrameType) -> None:
        try:
            if self.value_orders is not None and self.value_orders.needs_census(
                loop, self._cursor.training_place
            ):
                census = self._build_census(frame)
                self.value_orders.exchange_values(loop, census.wanted_values)
                self._loop_censuses[loop] = census
        except Exception as error:  # noqa: BLE001 - must not fail the user's step
            self._report_failure("census", error)

    def step_begins(
        self,
        optimizer: Any,  # see `find_kind`
        *,
        may_be_entered: bool = False,
    ) -> None:
        """Take the state with which an epoch is entered, before its first step.

        `may_be_entered`: a resumed rank may enter the epoch at this step, too, by a saved file.
        """
        self._is_stepping = True
        kind = find_kind(optimizer)
        self.state_objects.add_object(kind, optimizer)
        if kind == "optimizer":
            self.state_objects.record_step(optimizer, self._cursor.epoch)
        if self._entered_epoch == self._cursor.epoch and not may_be_entered:
            return
        self._entered_epoch = self._cursor.epoch
        self._write_census()
        with self._cost.watch_time, self._cost.state_time:
            # The optimizer is the first that is seen of a step, and usually the modules were called
            # before it. Where it takes a closure they are called within it: the state is taken now,
            # before anything moves, and the model is added at its first call (`add_root`).
            snapshot = self._take_snapshot("entered")
            self._gradient_part = None
            if (
                self._roots is not None
                and self._roots.is_searching
                and not self._roots.list_roots()
            ):
                self._waiting_snapshot = (
                    snapshot  # a step with a closure: its forward call is still to come
                )
            else:
                self._keep_snapshot(snapshot)
        self._name_parameters()

    def take_census(self, can_resume: Callable[[], bool], *, has_read_late: bool = False) -> None:
        """Take a census before the first call of a model since the last step, where that is due.

        `can_resume`: whether an attempt may resume at this place; `has_read_late`: it does so after
        steps that came before its save was read.
        """
        current_place = (self._cursor.epoch, self._cursor.step)
        is_first = self._census_place is None
        if current_place == self._census_place or not (
            is_first or self._cursor.step == 0 or can_resume()
        ):
            return
        with self._cost.state_time:
            try:
                self._census = self._build_census(sys._getframe(1))  # noqa: SLF001
                orders = self.value_orders
                if orders is not None and has_read_late:
                    orders.restart()
                if orders is not None and orders.exchange_values(None, self._census.wanted_values):
                    self._census = self._build_census(sys._getframe(1))  # noqa: SLF001
                if orders is not None and orders.is_finished and self._trace is not None:
                    self._trace.stop()
                self._generator_digests = _digest_generators()
            except Exception:  # noqa: BLE001 - nothing is judged by it
                self._census = None
            self._census_place = current_place
            if self._is_stepping:  # a step with a closure, whose place is known
                self._write_census()

    def reset_entry(self) -> None:
        """Take the state at the next step as one that enters an epoch: the place is another."""
        self._entered_epoch = None

    def take_gradients(self, *, is_second: bool) -> None:
        """Take the gradients accumulated so far, for the next snapshot at an entry.

        None of a step that has several places at which some were pending.
        """
        with self._cost.state_time:
            optimizers = self.list_optimizers()
            self._gradient_part = None if is_second else components.take_gradient_part(optimizers)

    def find_state_keys(self) -> tuple[str, str]:
        with self._cost.watch_time, self._cost.state_time:
            return build_state_keys(
                part.build_component() for part in self._take_snapshot("step").parts
            )

    def add_root(self) -> None:
        """Take the model, before its first call, that was unknown when the epoch was entered."""
        snapshot, self._waiting_snapshot = self._waiting_snapshot, None
        if snapshot is None:
            return
        with self._cost.watch_time, self._cost.state_time:
            other_parts = tuple(
                part for part in snapshot.parts if not part.name.startswith("model")
            )
            models = self._take_group("model", self._take_models(full=True))
            models += self._take_group(
                "buffers", components.take_buffer_parts(self._list_roots(), full=True)
            )
            self._keep_snapshot(
                _Snapshot(snapshot.place_fields, snapshot.moment, (*models, *other_parts))
            )
        self._name_parameters()

    def _name_parameters(self) -> None:
        """Record once, as soon as the modules are known, which parameters are trained."""
        roots = [] if self._has_named_parameters else self._list_roots()
        if not roots:
            return
        self._has_named_parameters = True
        try:
            names = components.list_parameter_names(roots, self.list_optimizers())
            if 0 < len(names) <= NAMED_MAX:
                self._write(ParametersNamed(**self._cursor.place_fields(), names=tuple(names)))
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
            self._report_failure("state: names", error)

    def step_done(self) -> None:
        """Take a sample, if one is due at this step."""
        self._census, self._is_stepping = None, False
        if self._roots is not None and self._roots.is_searching:
            self._roots.count_searched_step(self.list_optimizers())
        if self._waiting_snapshot is not None:  # no module was called in the step
            snapshot, self._waiting_snapshot = self._waiting_snapshot, None
            self._keep_snapshot(snapshot)
        step = self._cursor.step
        if step > 1 and step & (step - 1) == 0:
            self._write_generators()
        if self._cursor.step % self._sample_steps == 0:
            with self._cost.watch_time, self._cost.state_time:
                self._keep_snapshot(self._take_snapshot("step"))

    def _write_generators(self) -> None:
        """Write what the shared generators are, after 2, 4, 8, … steps: few may draw from them."""
        with self._cost.watch_time, self._cost.state_time:
            try:
                self._write(
                    GeneratorsSeen(**self._cursor.place_fields(), digests=_digest_generators())
                )
            except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
                self._report_failure("state: generators", error)

    def report_begun(self) -> None:
        """Take the state at the end of an epoch, and write all pending snapshots."""
        with self._cost.watch_time, self._cost.state_time:
            self._keep_snapshot(self._take_snapshot("left"))
            self.write_pending()
        self._entered_epoch = None
        self._on_optimizer()  # so that each epoch of any attempt finds the same modules

    def write_pending(self) -> None:
        """Read the pending snapshots from the accelerator, and write them."""
        snapshots, self._pending_snapshots = self._pending_snapshots, []
        for snapshot in snapshots:
            self._write(snapshot.build_event())

    # -- inside ------------------------------------------------------------------------------

    def _on_optimizer(self) -> None:
        if self._roots is not None:
            self._roots.begin_search()

    def list_optimizers(self) -> list[Any]:
        return self.state_objects.list_optimizers(self._cursor.epoch)

    def _build_census(self, frame: FrameType) -> Census:
        """Take a census from a frame outwards."""
        orders = self.value_orders
        wanted_paths = (
            frozenset[str]() if orders is None else orders.wanted_paths.union(orders.loader_paths)
        )
        is_first = not self._cursor.attempt and not self._cursor.rank and self._census_place is None
        # The time of the thread: beside other processes a clock would end each census elsewhere.
        census = Census(
            SystemClock().thread_ns,
            wanted_paths,
            keeps_all=is_first,
            wants_all=orders is not None and orders.is_keeping,
            compared_tensors=self._find_compared_tensors(),
            optimizers=self.state_objects.list_objects("optimizer"),
            limit_ns=TIME_MAX_NS * (1 if orders is None or orders.is_finished else ORDERED_TIMES),
        )
        census.add_frames(frame)
        stepped_objects = {
            kind: self.state_objects.list_objects(kind)
            for kind in ("optimizer", "schedule", "scaler")
        }
        parts = {
            components.build_name(kind, index): state_object
            for kind, kind_objects in {"model": self._list_roots(), **stepped_objects}.items()
            for index, state_object in enumerate(kind_objects)
        }
        census.add_values(parts.items())
        census.add_values(find_hook_owners(self._list_roots()))
        if not wanted_paths.isdisjoint(shared_generators := find_global_generators()):
            census.add_values(shared_generators.items())
        if orders is not None and orders.wants_state:
            parts_module = load_extension_module("controls.state_parts", "a planted loss")
            owners = self._list_roots(), self.list_optimizers(), self.state_objects
            census.add_state(parts_module.collect_parts(*owners))
        census.expand_all()
        for iterator, dataset, copied_values in self._loader_copies:
            if iterator() is not None and (path := census.find_path(dataset())) is not None:
                census.add_copy(path, copied_values)
        if census.named_values is not None:
            self._record_names(census.named_values, parts, find_outer_loops(frame))
            census.named_values = None
        return census

    def _find_compared_tensors(self) -> frozenset[int]:
        """Return the ids of the tensors that the parts of the state are made of."""
        modules = (*self._list_roots(), *self.state_objects.list_objects("ema"))
        tensor_ids = {id(tensor) for module in modules for tensor in iterate_saved_tensors(module)}
        groups = (
            group
            for optimizer in self.state_objects.list_objects("optimizer")
            for group in optimizer.param_groups
        )
        return frozenset(
            tensor_ids.union(id(parameter) for group in groups for parameter in group["params"])
        )

    def _record_names(
        self,
        named_values: list[tuple[str, HeldValue]],
        parts: Mapping[str, Any],
        loops: tuple[LoopBody, ...],
    ) -> None:
        """Record the lines of the job that made what a census has reached."""
        head_by_object = {id(part): head for head, part in parts.items()}
        lines: dict[str, CodeLine] = {}
        path_by_head: dict[str, str] = {}
        for path, (value, holder, name) in named_values:
            head = head_by_object.get(id(value))
            is_new = path not in lines and len(lines) < LINES_MAX
            line = find_naming_line(holder, name) if is_new or head is not None else None
            if line is not None:
                lines.setdefault(path, line)
                if head is not None:
                    path_by_head.setdefault(head, path)
        self._write(
            NamesGiven(**self._cursor.rank_fields(), lines=lines, parts=path_by_head, loops=loops)
        )

    def _write_census(self) -> None:
        """Write the census that was taken, with the place that is known now."""
        census, self._census = self._census, None
        if census is not None:
            if self.value_orders is not None:
                self.value_orders.write_values(self._cursor.training_place)
            old_entries, self._written_entries = (
                self._written_entries,
                {entry.path: entry for entry in census.entries},
            )
            changed_entries = tuple(
                entry for entry in census.entries if old_entries.get(entry.path) != entry
            )
            removed_paths = tuple(old_entries.keys() - self._written_entries.keys())
            place, omitted_paths = self._cursor.place_fields(), tuple(census.omitted_paths)
            digests = self._generator_digests
            self._write(
                CensusTaken(
                    **place,
                    held=changed_entries,
                    gone=removed_paths,
                    left_out=omitted_paths,
                    generators=digests,
                )
            )
            if (
                self.value_orders is not None
                and self._cursor.training_place in self.value_orders.census_places
            ):
                for loop, loop_census in sorted(self._loop_censuses.items()):
                    self._write(_build_loop_census(loop, loop_census, self._cursor.place_fields()))

    def _keep_snapshot(self, snapshot: _Snapshot) -> None:
        if not snapshot.is_on_accelerator:
            self._write(snapshot.build_event())
            return
        self._pending_snapshots.append(snapshot)
        # Fingerprints wait on the accelerator until a report, so that a step is not held up. A job
        # that reports seldom must not keep any number of them there.
        if len(self._pending_snapshots) >= PENDING_MAX:
            self.write_pending()

    def take_parts(self, moment: Moment) -> list[UnreadComponent]:
        """Take the parts of the state: of model and optimizer, and at an epoch's ends of all."""
        full = moment != "step"
        groups: list[tuple[str, Iterator[UnreadComponent]]] = [
            ("model", self._take_models(full=full)),
            ("buffers", components.take_buffer_parts(self._list_roots(), full=full)),
            ("keras", take_keras_parts(self.state_objects.list_objects("keras"), full=full)),
        ]
        for index, optimizer in enumerate(self.list_optimizers()):
            name = components.build_name("optimizer", index)
            groups.append((name, components.take_optimizer_parts(name, optimizer, full=full)))
        if full:
            groups += self._build_costly_groups()
        parts = [part for name, group in groups for part in self._take_group(name, group)]
        if moment == "entered" and self._gradient_part is not None:
            parts.append(self._gradient_part)
        return parts

    def _take_snapshot(self, moment: Moment) -> _Snapshot:
        return _Snapshot(self._cursor.place_fields(), moment, tuple(self.take_parts(moment)))

    def _build_costly_groups(self) -> list[tuple[str, Iterator[UnreadComponent]]]:
        """Return the parts that are too costly after single steps.

        For instance, to read a scaler's state waits for the accelerator.
        """
        return [
            (
                "model.trees",
                components.take_booster_parts(self.state_objects.list_objects("booster")),
            ),
            ("ema", components.take_average_parts(self.state_objects.list_objects("ema"))),
            ("schedule", self._take_schedules()),
            ("scaler", self._take_scalers()),
            ("rng", components.take_generator_parts()),
            ("declared", components.take_declared_parts(declaration.list_declared_parts())),
        ]

    def _take_group(self, name: str, group: Iterator[UnreadComponent]) -> list[UnreadComponent]:
        """Take a group; an error is recorded once, and does not affect the other groups."""
        taken: list[UnreadComponent] = []
        try:
            taken.extend(group)
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
            if name not in self._failed_groups:
                self._failed_groups.add(name)
                self._report_failure(f"state: {name}", error)
        return taken

    def _take_models(self, *, full: bool) -> Iterator[UnreadComponent]:
        return components.take_model_parts(self._list_roots(), self.list_optimizers(), full=full)

    def _list_roots(self) -> list[Any]:
        return self._roots.list_roots() if self._roots is not None else []

    def _take_schedules(self) -> Iterator[UnreadComponent]:
        for index, schedule in enumerate(self.state_objects.list_objects("schedule")):
            name = components.build_name("schedule", index)
            yield components.take_schedule_part(name, schedule)

    def _take_scalers(self) -> Iterator[UnreadComponent]:
        used = [
            scaler for scaler in self.state_objects.list_objects("scaler") if scaler.is_enabled()
        ]
        for index, scaler in enumerate(used):
            name = components.build_name("scaler", index)
            yield UnreadComponent.from_value(name, scaler.state_dict(), with_size=False)


def _build_loop_census(loop: int, census: Census, place: dict[str, int]) -> CensusTaken:
    """Return the census of a loop's beginning, at the place at which a step then began."""
    return CensusTaken(
        attempt=place["attempt"],
        rank=place["rank"],
        epoch=place["epoch"],
        step=place["step"],
        held=census.entries,
        left_out=tuple(census.omitted_paths),
        loop=loop,
    )


def _digest_generators() -> dict[str, str]:
    """Return the digests of the shared generators, by the names of their parts of the state."""
    return {
        part.name: part.digest
        for part in map(UnreadComponent.build_component, components.take_generator_parts())
    }
