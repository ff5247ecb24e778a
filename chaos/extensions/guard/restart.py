"""A rank's restart, from its first step until all that can be seen of it was."""

import os
import socket
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from chaos.extensions.guard.consequences import Consequences
from chaos.extensions.guard.files import is_unchanged
from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.judge import (
    OF_NO_SAVE,
    Origin,
    RankEntry,
    StateAnswer,
    compare_state,
    find_origin,
    find_place_defects,
    merge_findings,
)
from chaos.extensions.guard.merged_ranks import (
    ALL,
    collect_rank_starts,
    is_sharded,
    merge_saves,
    merge_starts,
)
from chaos.extensions.guard.process import write_line
from chaos.extensions.guard.records import (
    GuardedStart,
    GuardFinding,
    RankSave,
    RankStep,
    RestartAnswer,
)
from chaos.extensions.guard.startups import CLOCK_S
from chaos.extensions.guard.steps import (
    REPLAYED_MAX,
    RepeatedTrainingSteps,
    compare_replay,
    describe_stopped,
    find_data_defects,
    find_loss_defects,
    has_continuous_inputs,
    name_salt,
    salt_step,
)
from chaos.model.paths import TEMPFILE_NAME, is_in_folder
from chaos.run.clock import SystemClock, elapsed_seconds
from chaos.wording import plural

WAIT_S, POLL_S = 10.0, 0.05  # for the records of the other ranks, where shards are of another size

RUNNING_MAX = 8  # starts of which it is looked up whether they are running
_UNKNOWN = GuardFinding("notice", "unknown", OF_NO_SAVE)


class RestartJudge:
    """One start of a rank. The first one of a training has nothing to be compared with."""

    def __init__(
        self,
        folder: GuardFolder,
        entry: RankEntry,
        start: GuardedStart,
        accepted: Collection[str] = (),
    ) -> None:
        self._folder, self._entry, self._accepted = folder, entry, accepted
        self.rank, self.ranks, self.start = entry.rank, entry.ranks, start.start
        earlier_starts = [
            earlier_start
            for earlier_start in folder.load_starts()
            if earlier_start.start < self.start
        ]
        starts = [
            earlier_start for earlier_start in earlier_starts if earlier_start.rank == entry.rank
        ] or earlier_starts
        if starts:
            is_same, is_none = repeats_job(starts, start), start.given == ""
            self._entry = entry = replace(entry, is_same_job=is_same, has_no_checkpoint=is_none)
        self._saves, self._starts = (
            [drop_unreachable_files(save, start) for save in folder.load_saves()],
            starts,
        )
        self._is_first = not self._saves
        self._origin = find_origin(entry, self._saves)
        self._has_peer_origin = False
        self._initial_parts = starts[0].entered if starts else ()
        if self._origin is None and is_sharded(entry.parts) and self._is_resized():
            self._merge_ranks(start, earlier_starts)
        elif self._origin is None and self._find_peers() and self._has_unknown_origin():
            self._adopt_peer_origin()
        #: steps that the training has made so far
        self.step = 0 if self._origin is None else self._origin.save.step
        self._old_steps, self._last_step = self._load_earlier_steps(starts)
        self._new_steps: list[RankStep] = []
        self._stopped_generators: tuple[str, ...] | None = None
        self._restart: RestartAnswer | None = None
        self._state_is_same = self._has_same_generators = False
        self._consequences = Consequences({})
        self._findings: list[GuardFinding] = []  # before steps decide on some of them
        self._late_mismatches: list[str] = []  # mismatches that stand, once steps have decided

    def begin(self, *, first_step_s: float) -> str | None:
        """Judge state and place; return a mismatch in words, None without one."""
        if self._is_first:
            return None
        origin = self._origin
        findings = self._judge_place(origin)
        answer = StateAnswer((), ()) if origin is None else self._compare_state(origin.save)
        findings += answer.findings
        self._stopped_generators, self._has_same_generators = (
            answer.stopped_generators,
            answer.has_same_generators,
        )
        self._state_is_same = bool(answer.compared_names) and not answer.findings
        self._restart = RestartAnswer(
            start=self.start,
            rank=self.rank,
            ranks=self.ranks,
            at_s=SystemClock().wall_ns() / 1e9,
            step=None if origin is None else origin.save.step,
            is_by_state=origin is not None and origin.is_by_state,
            of_start=None if origin is None else origin.save.start,
            files=() if origin is None else tuple(origin.save.files),
            lost=self._count_lost_steps(findings),
            first_step_s=first_step_s,
            compared=answer.compared_names,
            differing=answer.differing_names,
            findings=merge_findings(findings, self._accepted),
        )
        self._findings = list(self._restart.findings)
        self._consequences = Consequences(
            {
                finding: optimizers
                for finding, optimizers in answer.provable_findings.items()
                if finding in self._findings
            }
        )
        self._report_findings(
            [
                finding
                for finding in self._findings
                if finding not in self._consequences.undecided_findings
            ]
        )
        self._decide(
            compare_replay(
                [finding for finding in self._old_steps if finding.number > self.step], []
            )
        )
        self._folder.write_restart(self._restart)
        decided_findings = [
            finding
            for finding in self._findings
            if finding not in self._consequences.undecided_findings
        ]
        self._late_mismatches.clear()
        return (
            "; ".join(finding.text for finding in decided_findings if finding.level == "mismatch")
            or None
        )

    @property
    def is_done(self) -> bool:
        """Whether it has seen all that it can see."""
        return self._restart is None or self._restart.is_done

    @property
    def has_undecided_findings(self) -> bool:
        """Whether its next steps decide what a finding comes to."""
        return bool(self._consequences.undecided_findings)

    def add_move(self, step: int, optimizer: str) -> None:
        """Take a step that an optimizer begins, by its name in the state."""
        self._consequences.add_move(step, optimizer)

    def take_late_mismatch(self) -> str | None:
        """Return a mismatch that steps have decided since the last call, in words."""
        texts, self._late_mismatches = self._late_mismatches, []
        return "; ".join(texts) or None

    def add_step(self, step: RankStep) -> None:
        """Take a step of this start; look at what the steps so far show, ever more seldom."""
        if self._restart is None or self._restart.is_done:
            return
        self._new_steps.append(step)
        count = len(self._new_steps)
        if count >= REPLAYED_MAX or count & (count - 1) == 0 or self._consequences:
            self._examine_steps(is_done=count >= REPLAYED_MAX)

    def finish(self) -> None:
        """Judge by the steps that there were."""
        if self._restart is None or self._restart.is_done:
            return
        if self._new_steps:
            self._examine_steps(is_done=True)
        else:
            self._report_findings([*self._consequences.undecided_findings])

    # -- inside ----------------------------------------------------------------------------

    def _compare_state(self, save: RankSave) -> StateAnswer:
        if self._has_peer_origin:
            return StateAnswer((), (_UNKNOWN,), provable_findings={_UNKNOWN: ()})
        origin_starts = (
            candidate
            for candidate in self._starts
            if (candidate.rank, candidate.start) == (save.rank, save.start)
        )
        start_parts = next((start.entered for start in origin_starts), ())
        return compare_state(
            self._entry,
            save,
            initial_parts=self._initial_parts,
            start_entry_parts=start_parts,
            all_saves=self._saves,
        )

    def _decide(self, replay: RepeatedTrainingSteps, *, is_done: bool = False) -> None:
        """Let the steps so far decide on findings, and tell those that are decided."""
        assert self._restart is not None
        earlier_harmless = {*self._consequences.harmless_findings}
        confirmed_findings = self._consequences.decide(replay, is_done=is_done)
        new_harmless = [
            finding
            for finding in self._consequences.harmless_findings
            if finding not in earlier_harmless
        ]
        self._late_mismatches += [
            finding.text for finding in confirmed_findings if finding.level == "mismatch"
        ]
        is_by_steps = _UNKNOWN in self._consequences.harmless_findings
        described_findings = self._consequences.describe(new_harmless)
        self._report_findings(
            [
                *confirmed_findings,
                *(finding for finding in described_findings if finding.group is not None),
            ]
        )
        all_findings = self._consequences.describe(self._findings)
        self._restart = msgspec.structs.replace(
            self._restart,
            findings=merge_findings(
                finding
                for finding in all_findings
                if finding.kind != "latent" or finding.group is not None
            ),
            is_by_steps=is_by_steps,
        )

    def _judge_place(self, origin: Origin | None) -> list[GuardFinding]:
        return list(
            find_place_defects(
                self._entry,
                origin,
                self._saves,
                initial_parts=self._initial_parts,
                is_whole=is_whole,
            )
        )

    def _has_unknown_origin(self) -> bool:
        """Return whether its state is neither a save's nor that of a new beginning."""
        return self._judge_place(None) == [_UNKNOWN]

    def _find_peers(self) -> set[int]:
        """Return the ranks that save for this one: those of it have its state in no record."""
        live_saves = [save for save in self._saves if save.is_live and save.ranks == self.ranks]
        ranks = {save.rank for save in live_saves}
        return set() if self.rank in ranks else ranks

    def _adopt_peer_origin(self) -> None:
        """Take the place of a rank that has saved for this one, once its answer is there."""
        peers, clock = self._find_peers(), SystemClock()
        began_ns = clock.now_ns()
        while elapsed_seconds(began_ns, clock) < WAIT_S:
            for restart in self._folder.load_restarts():
                if restart.start == self.start and restart.rank in peers:
                    self._origin = self._find_peer_origin(restart)
                    self._has_peer_origin = self._origin is not None
                    return
            clock.sleep(POLL_S)

    def _find_peer_origin(self, peer: RestartAnswer) -> Origin | None:
        candidates = (
            live_save
            for live_save in self._saves
            if (live_save.start, live_save.step) == (peer.of_start, peer.step)
        )
        save = next(
            (
                candidate
                for candidate in candidates
                if candidate.is_live and candidate.rank == peer.rank
            ),
            None,
        )
        return None if save is None else Origin(save, is_by_state=peer.is_by_state)

    def _is_resized(self) -> bool:
        return any(save.ranks != self.ranks for save in self._saves)

    def _merge_ranks(self, own_start: GuardedStart, earlier_starts: Sequence[GuardedStart]) -> None:
        """Judge by what all ranks have together, once the records of all are there."""
        rank_starts = [start for start in earlier_starts if start.rank == self.rank]
        before_s = rank_starts[-1].began_s if rank_starts else 0.0
        clock = SystemClock()
        began_ns, ranks = clock.now_ns(), list[GuardedStart]()
        while len(ranks) < self.ranks and elapsed_seconds(began_ns, clock) < WAIT_S:
            ranks = collect_rank_starts(own_start, self._folder.load_starts(), before_s=before_s)
            clock.sleep(POLL_S)
        if len(ranks) == self.ranks:
            whole = merge_starts(ranks)
            self._entry = replace(self._entry, rank=ALL, parts=whole.parts)
            self._saves = merge_saves(self._saves)
            self._origin = find_origin(self._entry, self._saves)
            first_starts = [start for start in earlier_starts if start.start == 0]
            self._initial_parts = merge_starts(first_starts).parts

    def _examine_steps(self, *, is_done: bool) -> None:
        assert self._restart is not None
        findings: list[GuardFinding] = []
        replay = compare_replay(self._old_steps, self._new_steps)
        if self._origin is not None and not self._has_same_size():
            text = f"its {plural(self.ranks, 'rank')} are not as many as at the save"
            findings.append(
                GuardFinding("notice", "unknown", f"{text}: inputs and losses are not compared")
            )
        elif self._origin is not None:
            findings += find_data_defects(
                self._old_steps, self._new_steps, self._stopped_generators
            )
            window = self._origin.save.losses
            is_same_state = self._state_is_same
            findings += find_loss_defects(
                replay,
                window,
                self._new_steps,
                self._stopped_generators,
                is_same_state=is_same_state,
            )
            if is_same_state and not replay.step_count and self._stopped_generators:
                text = f"{describe_stopped(self._stopped_generators)}, and no step was made again"
                findings.append(GuardFinding("notice", "generators", text))
        unseen = (
            finding
            for finding in findings
            if all(finding.kind != known_finding.kind for known_finding in self._findings)
        )
        new_findings = merge_findings([*unseen], self._accepted)
        self._report_findings(new_findings)
        self._findings += new_findings
        self._decide(replay, is_done=is_done)
        self._restart = msgspec.structs.replace(
            self._restart,
            replayed=replay.step_count,
            same_inputs=replay.same_inputs,
            same_losses=replay.same_losses,
            equal_losses=replay.equal_losses,
            continues=self._is_continuous(replay),
            is_done=is_done,
        )
        self._folder.write_restart(self._restart)
        if is_done:
            self._write_line(describe_restart(self._restart))
            self._report_findings(find_unproven(self._restart))

    def _is_continuous(self, replay: RepeatedTrainingSteps) -> bool:
        is_same = (
            self._state_is_same and self._has_same_generators and replay.first_difference is None
        )
        return is_same and has_continuous_inputs(self._old_steps, self._new_steps)

    def _count_lost_steps(self, findings: Sequence[GuardFinding]) -> int | None:
        """Return the steps that were lost, None where it is not known from where it went on."""
        is_known = self._origin is not None or any(
            finding.kind == "began-anew" for finding in findings
        )
        return (
            max(0, self._last_step - self.step)
            if is_known and self._last_step is not None
            else None
        )

    def _has_same_size(self) -> bool:
        return self._origin is not None and self._origin.save.ranks == self.ranks

    def _load_earlier_steps(
        self, starts: Sequence[GuardedStart]
    ) -> tuple[list[RankStep], int | None]:
        """Return the steps of the start that trained on from the save, and the last of any."""
        rank_starts = [start for start in starts if start.rank == self.rank]
        last_steps = (
            self._folder.load_steps(self.rank, rank_starts[-1].start) if rank_starts else []
        )
        last_number = last_steps[-1].number if last_steps else None
        if self._origin is None:
            return [], last_number
        save = self._origin.save
        starts_before_save = [start for start in rank_starts if start.began_s < save.at_s]
        if not starts_before_save:
            return [], last_number
        return self._load_comparable_steps(starts_before_save[-1]), last_number

    def _load_comparable_steps(self, start: GuardedStart) -> list[RankStep]:
        """Return the steps of an earlier start of this rank, comparable with those of this one."""
        salt, steps = self._folder.ensure_salt(), self._folder.load_steps(self.rank, start.start)
        if not start.salt:  # of an earlier version of the guard
            return [salt_step(step, salt) for step in steps]
        return steps if start.salt == name_salt(salt) else []

    def _report_findings(self, findings: Sequence[GuardFinding]) -> None:
        for finding in findings:
            self._write_line(f"{finding.level}: {finding.text}")

    def _write_line(self, text: str) -> None:
        write_line(f"rank {self.rank}: {text}")


def repeats_job(starts: Sequence[GuardedStart], own_start: GuardedStart) -> bool:
    """Return whether a start does again what the last one did, and beside none of them."""
    running_starts = (start for start in starts[-RUNNING_MAX:] if _is_running(start))
    return own_start.job == starts[-1].job and next(running_starts, None) is None


def _is_running(start: GuardedStart) -> bool:
    if start.host != socket.gethostname() or start.pid == os.getpid():
        return False
    # A first start, and one on another node, waits for no import of psutil.
    from chaos.processes.tree import is_running

    return is_running(start.pid, latest_start=start.began_s + CLOCK_S)


def drop_unreachable_files(save: RankSave, start: GuardedStart) -> RankSave:
    """Return a save without the files that a start has no way to find.

    Such a one has a drawn name, which neither its command nor its folders have: it was a draft,
    from which the save was copied or uploaded elsewhere. Or it is stored in a run of Ray Train, and
    Ray gave the start another one, or none: a report counts once all ranks have made it, and the
    controller has seen it.
    """
    command_text = f"{start.cwd} {' '.join(start.command)} {start.run}"
    files = {
        path: facts
        for path, facts in save.files.items()
        if all(name in command_text for name in TEMPFILE_NAME.findall(path))
        and not _is_withheld(path, start)
    }
    return msgspec.structs.replace(save, files=files)


def _is_withheld(path: str, start: GuardedStart) -> bool:
    is_of_run = start.run != "" and is_in_folder(path, start.run)
    return is_of_run and not (start.given and is_in_folder(path, start.given))


def is_whole(save: RankSave) -> bool:
    """Return whether the files of a save are here, and none is cut off or another one by now."""
    try:
        return bool(save.files) and all(
            is_unchanged(Path(path), facts, save.at_s) for path, facts in save.files.items()
        )
    except OSError:
        return False


def describe_restart(restart: RestartAnswer) -> str:
    """Return what came back, in one line."""
    if restart.step is None:
        return f"start {restart.start}: it is not known what it went on from"
    origin_text = "went on from" if restart.is_by_state else "read the save of"
    state_text = "with nothing to compare"
    if restart.compared:
        result_text = "as it was saved" if restart.has_come_back else "not as it was saved"
        if restart.has_come_back and any(finding.kind == "state" for finding in restart.findings):
            result_text += " but for what is accepted"
        elif any(finding.kind == "latent" for finding in restart.findings):
            result_text += " but for what had no consequence"
        parts = plural(len(restart.compared), "part")
        state_text = f"its state {result_text} ({parts} compared)"
    replay_text = ""
    if restart.replayed:
        replay_text = (
            f"; of {restart.replayed} steps made again {restart.same_inputs} had the same inputs "
            f"and {restart.same_losses} the same loss to the last bit"
        )
    lost_text = "" if restart.lost is None else f"; {restart.lost} steps lost"
    return f"{origin_text} step {restart.step}, {state_text}{replay_text}{lost_text}"


def find_unproven(restart: RestartAnswer) -> list[GuardFinding]:
    """Return what was not seen of a restart whose state came back, without which it may be wrong.

    That is a step made again, with the same inputs and loss; or generators as they were at the
    save, and inputs that follow on.
    """
    has_finding = any(
        finding.kind in ("data", "generators", "loss", "unknown") for finding in restart.findings
    )
    if restart.is_wrong or restart.has_continued or has_finding or not restart.has_come_back:
        return []
    if not restart.replayed:
        observation = "no step was made again, and its generators are not known to have gone on"
    elif not restart.same_inputs:
        observation = f"of {plural(restart.replayed, 'step')} made again, none had the same inputs"
    else:
        observation = (
            f"of {plural(restart.same_inputs, 'step')} with the same inputs, none had the same loss"
        )
    text = f"{observation}: it was not seen that training went on as before"
    return [GuardFinding("notice", "unknown", text)]
