"""A rank's restart, from its first step until all that can be seen of it was."""

import os
import socket
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from chaos.guard.consequences import Consequences
from chaos.guard.files import is_there
from chaos.guard.folder import Folder
from chaos.guard.judge import (
    OF_NO_SAVE,
    Entry,
    Origin,
    StateAnswer,
    combined,
    origin_of,
    place_findings,
    state_answer,
)
from chaos.guard.process import say
from chaos.guard.records import Finding, Restart, Save, Start, Step
from chaos.guard.startups import CLOCK_S
from chaos.guard.steps import (
    REPLAYED_MAX,
    Replay,
    data_findings,
    describe_stopped,
    inputs_continue,
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
_UNKNOWN = Finding("notice", "unknown", OF_NO_SAVE)


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
        self._is_by_peer = False
        self._first = starts[0].entered if starts else ()
        if self._origin is None and is_sharded(entry.parts) and self._is_resized():
            self._add_up(start, every)
        elif self._origin is None and self._peers() and self._is_of_no_save():
            self._go_by_peer()
        #: steps that the training has made so far
        self.step = 0 if self._origin is None else self._origin.save.step
        self._old, self._last = self._earlier(starts)
        self._new: list[Step] = []
        self._generators: tuple[str, ...] | None = None
        self._restart: Restart | None = None
        self._state_is_same = self._has_same_generators = False
        self._consequences = Consequences({})
        self._findings: list[Finding] = []  # before steps decide on some of them
        self._late: list[str] = []  # mismatches that stand, once steps have decided

    def begin(self, *, first_step_s: float) -> str | None:
        """Judge state and place; return a mismatch in words, None without one."""
        if self._is_first:
            return None
        origin = self._origin
        findings = self._judge_place(origin)
        answer = StateAnswer((), ()) if origin is None else self._compare_state(origin.save)
        findings += answer.findings
        self._generators, self._has_same_generators = answer.generators, answer.has_same_generators
        self._state_is_same = bool(answer.compared) and not answer.findings
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
            compared=answer.compared,
            differing=answer.differing,
            findings=combined(findings, self._accepted),
        )
        self._findings = list(self._restart.findings)
        self._consequences = Consequences(
            {one: by for one, by in answer.provable.items() if one in self._findings}
        )
        self._tell([one for one in self._findings if one not in self._consequences.open])
        self._decide(replay_of([one for one in self._old if one.number > self.step], []))
        self._folder.keep_restart(self._restart)
        wrong = [one for one in self._findings if one not in self._consequences.open]
        self._late.clear()
        return "; ".join(one.text for one in wrong if one.level == "mismatch") or None

    @property
    def is_done(self) -> bool:
        """Whether it has seen all that it can see."""
        return self._restart is None or self._restart.is_done

    @property
    def is_open(self) -> bool:
        """Whether its next steps decide what a finding comes to."""
        return bool(self._consequences.open)

    def add_move(self, step: int, optimizer: str) -> None:
        """Take a step that an optimizer begins, by its name in the state."""
        self._consequences.add_move(step, optimizer)

    def late_mismatch(self) -> str | None:
        """Return a mismatch that steps have decided since the last call, in words."""
        late, self._late = self._late, []
        return "; ".join(late) or None

    def made(self, step: Step) -> None:
        """Take a step of this start; look at what the steps so far show, ever more seldom."""
        if self._restart is None or self._restart.is_done:
            return
        self._new.append(step)
        count = len(self._new)
        if count >= REPLAYED_MAX or count & (count - 1) == 0 or self._consequences:
            self._look(is_done=count >= REPLAYED_MAX)

    def ended(self) -> None:
        """Judge by the steps that there were."""
        if self._restart is None or self._restart.is_done:
            return
        if self._new:
            self._look(is_done=True)
        else:
            self._tell([*self._consequences.open])

    # -- inside ----------------------------------------------------------------------------

    def _compare_state(self, save: Save) -> StateAnswer:
        if self._is_by_peer:
            return StateAnswer((), (_UNKNOWN,), provable={_UNKNOWN: ()})
        made_it = (s for s in self._starts if (s.rank, s.start) == (save.rank, save.start))
        began = next((start.entered for start in made_it), ())
        return state_answer(self._entry, save, first=self._first, began=began, others=self._saves)

    def _decide(self, replay: Replay, *, is_done: bool = False) -> None:
        """Let the steps so far decide on findings, and tell those that are decided."""
        assert self._restart is not None
        was = {*self._consequences.outvoted}
        standing = self._consequences.decide(replay, is_done=is_done)
        outvoted = [one for one in self._consequences.outvoted if one not in was]
        self._late += [one.text for one in standing if one.level == "mismatch"]
        is_by_steps = _UNKNOWN in self._consequences.outvoted
        shown = self._consequences.describe(outvoted)
        self._tell([*standing, *(one for one in shown if one.group is not None)])
        found = self._consequences.describe(self._findings)
        self._restart = msgspec.structs.replace(
            self._restart,
            findings=combined(
                one for one in found if one.kind != "latent" or one.group is not None
            ),
            is_by_steps=is_by_steps,
        )

    def _judge_place(self, origin: Origin | None) -> list[Finding]:
        return list(
            place_findings(self._entry, origin, self._saves, first=self._first, is_whole=is_whole)
        )

    def _is_of_no_save(self) -> bool:
        """Return whether its state is neither a save's nor that of a new beginning."""
        return self._judge_place(None) == [_UNKNOWN]

    def _peers(self) -> set[int]:
        """Return the ranks that save for this one: those of it have its state in no record."""
        live = [save for save in self._saves if save.is_live and save.ranks == self.ranks]
        ranks = {save.rank for save in live}
        return set() if self.rank in ranks else ranks

    def _go_by_peer(self) -> None:
        """Take the place of a rank that has saved for this one, once its answer is there."""
        peers, clock = self._peers(), SystemClock()
        began_ns = clock.now_ns()
        while seconds_since(began_ns, clock) < WAIT_S:
            for one in self._folder.restarts():
                if one.start == self.start and one.rank in peers:
                    self._origin = self._origin_at(one)
                    self._is_by_peer = self._origin is not None
                    return
            clock.sleep(POLL_S)

    def _origin_at(self, peer: Restart) -> Origin | None:
        own = (s for s in self._saves if (s.start, s.step) == (peer.of_start, peer.step))
        save = next((one for one in own if one.is_live and one.rank == peer.rank), None)
        return None if save is None else Origin(save, is_by_state=peer.is_by_state)

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
        if self._origin is not None and not self._is_of_as_many_ranks():
            text = f"its {plural(self.ranks, 'rank')} are not as many as at the save"
            found.append(
                Finding("notice", "unknown", f"{text}: inputs and losses are not compared")
            )
        elif self._origin is not None:
            found += data_findings(self._old, self._new, self._generators)
            window = self._origin.save.losses
            same = self._state_is_same
            found += loss_findings(replay, window, self._new, self._generators, is_same_state=same)
            if same and not replay.steps and self._generators:
                text = f"{describe_stopped(self._generators)}, and no step was made again"
                found.append(Finding("notice", "generators", text))
        fresh = (one for one in found if all(one.kind != old.kind for old in self._findings))
        new = combined([*fresh], self._accepted)
        self._tell(new)
        self._findings += new
        self._decide(replay, is_done=is_done)
        self._restart = msgspec.structs.replace(
            self._restart,
            replayed=replay.steps,
            same_inputs=replay.same_inputs,
            same_losses=replay.same_losses,
            equal_losses=replay.equal_losses,
            continues=self._continues(replay),
            is_done=is_done,
        )
        self._folder.keep_restart(self._restart)
        if is_done:
            self._say(in_a_line(self._restart))
            self._tell(unseen_findings(self._restart))

    def _continues(self, replay: Replay) -> bool:
        is_same = self._state_is_same and self._has_same_generators and replay.differs is None
        return is_same and inputs_continue(self._old, self._new)

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
        elif any(one.kind == "latent" for one in restart.findings):
            as_saved += " but for what had no consequence"
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


def unseen_findings(restart: Restart) -> list[Finding]:
    """Return what was not seen of a restart whose state came back, without which it may be wrong.

    That is a step made again, with the same inputs and loss; or generators as they were at the
    save, and inputs that follow on.
    """
    is_told = any(one.kind in ("data", "generators", "loss", "unknown") for one in restart.findings)
    if restart.is_wrong or restart.has_continued or is_told or not restart.has_come_back:
        return []
    if not restart.replayed:
        what = "no step was made again, and its generators are not known to have gone on"
    elif not restart.same_inputs:
        what = f"of {plural(restart.replayed, 'step')} made again, none had the same inputs"
    else:
        what = (
            f"of {plural(restart.same_inputs, 'step')} with the same inputs, none had the same loss"
        )
    text = f"{what}: it was not seen that training went on as before"
    return [Finding("notice", "unknown", text)]
