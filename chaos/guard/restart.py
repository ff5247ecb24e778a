"""A rank's restart, from its first step until all that can be seen of it was."""

import os
import socket
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from chaos.guard.files import is_there
from chaos.guard.folder import Folder
from chaos.guard.judge import Entry, combined, origin_of, place_findings, state_answer
from chaos.guard.process import say
from chaos.guard.records import Finding, Restart, Save, Start, Step
from chaos.guard.steps import (
    REPLAYED_MAX,
    data_findings,
    loss_findings,
    name_of,
    replay_of,
    salted,
)
from chaos.guard.whole import ALL, is_sharded, ranks_of, whole_entry, whole_saves
from chaos.model.paths import DRAWN_NAME, is_below
from chaos.run.clock import SystemClock, seconds_since
from chaos.words import plural

WAIT_S, POLL_S = 10.0, 0.05  # for the records of the other ranks, where shards are of another size

RUNNING_MAX = 8  # starts of which it is looked up whether they are running
CLOCK_S = 1.0  # between the clock of a record and the kernel's, by which processes begin


class Restarted:
    """One start of a rank. The first one of a training has nothing to be compared with."""

    def __init__(
        self, folder: Folder, entry: Entry, start: Start, accepted: Collection[str] = ()
    ) -> None:
        self._folder, self._entry, self._accepted = folder, entry, accepted
        self.rank, self.ranks, self.start = entry.rank, entry.ranks, start.start
        every = [one for one in folder.starts() if one.start < self.start]
        starts = [one for one in every if one.rank == entry.rank] or every
        if starts:
            is_same, is_none = is_same_job_as(starts, start), start.given == ""
            self._entry = entry = replace(entry, is_same_job=is_same, is_given_none=is_none)
        self._saves, self._starts = [findable(save, start) for save in folder.saves()], starts
        self._is_first = not self._saves
        self._origin = origin_of(entry, self._saves)
        self._first = starts[0].entered if starts else ()
        if self._origin is None and is_sharded(entry.parts) and self._is_resized():
            self._add_up(start, every)
        #: steps that the training has made so far
        self.step = 0 if self._origin is None else self._origin.save.step
        self._old, self._last = self._earlier(starts)
        self._new: list[Step] = []
        self._generators: tuple[str, ...] | None = None
        self._restart: Restart | None = None
        self._state_is_same = False

    def begin(self, *, first_step_s: float) -> str | None:
        """Judge state and place; return a mismatch in words, None without one."""
        if self._is_first:
            return None
        entry, origin = self._entry, self._origin
        findings = list(
            place_findings(entry, origin, self._saves, first=self._first, is_whole=is_whole)
        )
        compared, differing = tuple[str, ...](), tuple[str, ...]()
        if origin is not None:
            save = origin.save
            made_it = (s for s in self._starts if (s.rank, s.start) == (save.rank, save.start))
            began = next((start.entered for start in made_it), ())
            answer = state_answer(entry, save, first=self._first, began=began, others=self._saves)
            compared, differing = answer.compared, answer.differing
            self._generators = answer.generators
            findings += answer.findings
            self._state_is_same = bool(compared) and not answer.findings
        self._restart = Restart(
            start=self.start,
            rank=self.rank,
            ranks=self.ranks,
            at_s=SystemClock().wall_ns() / 1e9,
            step=None if origin is None else origin.save.step,
            is_by_state=origin is not None and origin.is_by_state,
            of_start=None if origin is None else origin.save.start,
            files=() if origin is None else tuple(origin.save.files),
            lost=self._lost(findings),
            first_step_s=first_step_s,
            compared=compared,
            differing=differing,
            findings=combined(findings, self._accepted),
        )
        self._tell(self._restart.findings)
        self._folder.keep_restart(self._restart)
        wrong = [finding.text for finding in self._restart.findings if finding.level == "mismatch"]
        return "; ".join(wrong) or None

    def made(self, step: Step) -> None:
        """Take a step of this start; look at what the steps so far show, ever more seldom."""
        if self._restart is None or self._restart.is_done:
            return
        self._new.append(step)
        count = len(self._new)
        if count >= REPLAYED_MAX or count & (count - 1) == 0:
            self._look(is_done=count >= REPLAYED_MAX)

    def ended(self) -> None:
        """Judge by the steps that there were."""
        if self._restart is not None and not self._restart.is_done and self._new:
            self._look(is_done=True)

    # -- inside ----------------------------------------------------------------------------

    def _is_resized(self) -> bool:
        return any(save.ranks != self.ranks for save in self._saves)

    def _add_up(self, own: Start, before: Sequence[Start]) -> None:
        """Judge by what all ranks have together, once the records of all are there."""
        mine = [start for start in before if start.rank == self.rank]
        before_s = mine[-1].began_s if mine else 0.0
        clock = SystemClock()
        began_ns, ranks = clock.now_ns(), list[Start]()
        while len(ranks) < self.ranks and seconds_since(began_ns, clock) < WAIT_S:
            ranks = ranks_of(own, self._folder.starts(), before_s=before_s)
            clock.sleep(POLL_S)
        if len(ranks) == self.ranks:
            whole = whole_entry(ranks)
            self._entry = replace(self._entry, rank=ALL, parts=whole.parts)
            self._saves = whole_saves(self._saves)
            self._origin = origin_of(self._entry, self._saves)
            first = [start for start in before if start.start == 0]
            self._first = whole_entry(first).parts

    def _look(self, *, is_done: bool) -> None:
        assert self._restart is not None
        found: list[Finding] = []
        replay = replay_of(self._old, self._new)
        if self._origin is not None and self._is_of_as_many_ranks():
            found += data_findings(self._old, self._new, self._generators)
            window = self._origin.save.losses
            same = self._state_is_same
            found += loss_findings(replay, window, self._new, self._generators, is_same_state=same)
        known = self._restart.findings
        fresh = (one for one in found if all(one.kind != old.kind for old in known))
        new = combined([*fresh], self._accepted)
        self._tell(new)
        self._restart = msgspec.structs.replace(
            self._restart,
            replayed=replay.steps,
            same_inputs=replay.same_inputs,
            same_losses=replay.same_losses,
            findings=combined((*known, *new)),
            is_done=is_done,
        )
        self._folder.keep_restart(self._restart)
        if is_done:
            self._say(in_a_line(self._restart))

    def _lost(self, findings: Sequence[Finding]) -> int | None:
        """Return the steps that were lost, None where it is not known from where it went on."""
        is_known = self._origin is not None or any(one.kind == "began-anew" for one in findings)
        return max(0, self._last - self.step) if is_known and self._last is not None else None

    def _is_of_as_many_ranks(self) -> bool:
        return self._origin is not None and self._origin.save.ranks == self.ranks

    def _earlier(self, starts: Sequence[Start]) -> tuple[list[Step], int | None]:
        """Return the steps of the start that trained on from the save, and the last of any."""
        own = [start for start in starts if start.rank == self.rank]
        last = self._folder.steps(self.rank, own[-1].start) if own else []
        furthest = last[-1].number if last else None
        if self._origin is None:
            return [], furthest
        save = self._origin.save
        before = [start for start in own if start.began_s < save.at_s]
        if not before:
            return [], furthest
        return self._steps_of(before[-1]), furthest

    def _steps_of(self, start: Start) -> list[Step]:
        """Return the steps of an earlier start of this rank, comparable with those of this one."""
        salt, steps = self._folder.salt(), self._folder.steps(self.rank, start.start)
        if not start.salt:  # of an earlier version of the guard
            return [salted(step, salt) for step in steps]
        return steps if start.salt == name_of(salt) else []

    def _tell(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            self._say(f"{finding.level}: {finding.text}")

    def _say(self, text: str) -> None:
        say(f"rank {self.rank}: {text}")


def is_same_job_as(starts: Sequence[Start], own: Start) -> bool:
    """Return whether a start does again what the last one did, and beside none of them."""
    running = (start for start in starts[-RUNNING_MAX:] if _is_running(start))
    return own.job == starts[-1].job and next(running, None) is None


def _is_running(start: Start) -> bool:
    if start.host != socket.gethostname() or start.pid == os.getpid():
        return False
    # A first start, and one on another node, waits for no import of psutil.
    from chaos.processes.tree import is_running

    return is_running(start.pid, begun_by=start.began_s + CLOCK_S)


def findable(save: Save, start: Start) -> Save:
    """Return a save without the files that a start has no way to find.

    Such a one has a drawn name, which neither its command nor its folders have: it was a draft,
    from which the save was copied or uploaded elsewhere. Or it is stored in a run of Ray Train, and
    Ray gave the start another one, or none: a report counts once all ranks have made it, and the
    controller has seen it.
    """
    known = f"{start.cwd} {' '.join(start.command)} {start.run}"
    files = {
        path: facts
        for path, facts in save.files.items()
        if all(name in known for name in DRAWN_NAME.findall(path)) and not _is_withheld(path, start)
    }
    return msgspec.structs.replace(save, files=files)


def _is_withheld(path: str, start: Start) -> bool:
    is_of_run = start.run != "" and is_below(path, start.run)
    return is_of_run and not (start.given and is_below(path, start.given))


def is_whole(save: Save) -> bool:
    """Return whether the files of a save are here, and none is cut off or another one by now."""
    try:
        return bool(save.files) and all(
            is_there(Path(path), facts, save.at_s) for path, facts in save.files.items()
        )
    except OSError:
        return False


def in_a_line(restart: Restart) -> str:
    """Return what came back, in one line."""
    if restart.step is None:
        return f"start {restart.start}: it is not known what it went on from"
    from_there = "went on from" if restart.is_by_state else "read the save of"
    state = "with nothing to compare"
    if restart.compared:
        as_saved = "as it was saved" if restart.has_come_back else "not as it was saved"
        if restart.has_come_back and any(one.kind == "state" for one in restart.findings):
            as_saved += " but for what is accepted"
        parts = plural(len(restart.compared), "part")
        state = f"its state {as_saved} ({parts} compared)"
    again = ""
    if restart.replayed:
        again = (
            f"; of {restart.replayed} steps made again {restart.same_inputs} had the same inputs "
            f"and {restart.same_losses} the same loss to the last bit"
        )
    lost = "" if restart.lost is None else f"; {restart.lost} steps lost"
    return f"{from_there} step {restart.step}, {state}{again}{lost}"
