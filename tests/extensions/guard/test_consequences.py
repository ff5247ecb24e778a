"""Parts that are other than at the save, and the steps made again that outvote them or do not."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.judge import SHOWN_AFTER
from chaos.extensions.guard.records import RankSave, RankStep, RestartAnswer
from chaos.extensions.guard.report import find_answer, load_judged_restarts
from chaos.extensions.guard.restart import RestartJudge
from chaos.extensions.guard.steps import name_salt
from chaos.model.event import Component
from tests.accepted import expect_text
from tests.extensions.guard.saved_states import FRESH, save, start, state
from tests.extensions.guard.test_judge import entry

SAVED = 8
OTHER_MOMENTUM = state(SAVED, optimizer__momentum_buffer="x")
OTHER_RATE = state(SAVED, optimizer__lr="x")


def steps(
    count: int,
    *,
    differs_from: int = 99,
    inputs: str = "in",
    losses: Callable[[int], float] = lambda n: 1 / (n + 2),
) -> list[RankStep]:
    """Return steps after the save; from one on, counted from 1, their losses are others."""
    return [
        RankStep(SAVED + n, losses(n) + (n >= differs_from) / 2, f"{inputs}{n}", f"{n:08x}")
        for n in range(1, count + 1)
    ]


class Restarting:
    """A training that was killed some steps after its save, and has begun again."""

    def __init__(
        self,
        root: Path,
        parts: Sequence[Component],
        *,
        lost: int = 6,
        losses: Callable[[int], float] = lambda n: 1 / (n + 2),
        saves: Sequence[RankSave] = (),
        rank: int = 0,
    ) -> None:
        self.folder, ranks = GuardFolder(str(root)), rank + 1
        salt = name_salt(self.folder.ensure_salt())
        before = start(0, rank=rank, ranks=ranks, salt=salt)
        self.folder.write_start(before)
        for one in saves or [save(4), save(SAVED)]:
            self.folder.write_save(msgspec.structs.replace(one, ranks=ranks))
        trail = self.folder.begin_trail(rank, 0, 1)
        for step in [RankStep(SAVED, 0.0, "before", f"{0:08x}"), *steps(lost, losses=losses)]:
            trail.add(step)
        self.own = start(1, rank=rank, ranks=ranks, began_s=20.0, entered=tuple(parts), salt=salt)
        self.folder.write_start(self.own)
        seen = entry(parts, rank=rank, ranks=ranks)
        self.restarted = RestartJudge(self.folder, seen, self.own)
        self.stops = self.restarted.begin(first_step_s=1.0)

    def make(self, made: Sequence[RankStep], *, optimizers: Sequence[str] = ("optimizer",)) -> None:
        for at, step in enumerate(made):
            self.restarted.add_move(step.number, optimizers[at % len(optimizers)])
            self.restarted.add_step(step)

    @property
    def restart(self) -> RestartAnswer:
        (found,) = [one for one in load_judged_restarts(self.folder) if one.rank == self.own.rank]
        return found

    @property
    def answer(self) -> tuple[str, list[tuple[str, str]]]:
        found = self.restart
        return find_answer(found), [(one.level, one.kind) for one in found.findings]


@pytest.mark.parametrize(
    ("parts", "needed"),
    [
        (OTHER_MOMENTUM, SHOWN_AFTER["optimizer"]),
        (OTHER_RATE, SHOWN_AFTER["optimizer settings"]),
    ],
    ids=["momentum", "rate"],
)
def test_equal_losses_outvote_a_part_from_the_step_on_at_which_it_must_have_shown(
    tmp_path: Path, parts: Sequence[Component], needed: int
) -> None:
    again = Restarting(tmp_path, parts)
    assert again.stops is None  # the next steps decide
    again.make(steps(needed))
    assert again.answer == ("mismatch", [("mismatch", "state")])
    again.make(steps(needed + 1)[needed:])
    assert again.answer == ("came back", [("notice", "latent")])
    assert again.restarted.take_late_mismatch() is None
    (finding,) = again.restart.findings
    expect_text(finding.text)


@pytest.mark.parametrize("first", [1, 2, 3, 5])
def test_a_part_that_moves_a_loss_is_a_mismatch(tmp_path: Path, first: int) -> None:
    again = Restarting(tmp_path, OTHER_MOMENTUM)
    again.make(steps(6, differs_from=first))
    assert again.answer == ("mismatch", [("mismatch", "state")])
    stop = again.restarted.take_late_mismatch()
    assert stop is not None
    expect_text(stop)


@pytest.mark.parametrize("lost", [0, 2])
def test_with_too_few_steps_to_make_again_a_part_is_a_mismatch(tmp_path: Path, lost: int) -> None:
    again = Restarting(tmp_path, OTHER_MOMENTUM, lost=lost)
    again.make(steps(6))
    assert again.answer == ("mismatch", [("mismatch", "state")])
    assert (again.stops is None) is (lost > 0)


def test_a_restart_that_ends_before_its_steps_decide_is_a_mismatch(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    again = Restarting(tmp_path, OTHER_MOMENTUM)
    again.make(steps(1))
    assert "mismatch" not in capfd.readouterr().err
    again.restarted.finish()
    assert "mismatch: optimizer" in capfd.readouterr().err
    assert again.answer == ("mismatch", [("mismatch", "state")])


def test_other_inputs_outvote_nothing(tmp_path: Path) -> None:
    again = Restarting(tmp_path, OTHER_MOMENTUM)
    again.make(steps(6, inputs="other"))
    assert again.answer[0] == "mismatch"


def test_a_schedule_shows_later_than_any_step_made_again(tmp_path: Path) -> None:
    again = Restarting(tmp_path, state(SAVED, schedule="x"))
    again.make(steps(6))
    assert ("mismatch", "state") in again.answer[1]


def test_losses_of_16_bits_outvote_nothing(tmp_path: Path) -> None:
    # Three steps without their momentum move no loss that is known to three digits.
    again = Restarting(tmp_path, OTHER_MOMENTUM, losses=lambda n: 2 + n / 64)
    again.make(steps(6, losses=lambda n: 2 + n / 64))
    assert again.answer == ("mismatch", [("mismatch", "state")])


def test_the_optimizer_of_the_part_must_have_made_the_steps(tmp_path: Path) -> None:
    again = Restarting(tmp_path, OTHER_MOMENTUM)
    again.make(steps(6), optimizers=["optimizer.1", "optimizer.2"])
    assert again.answer == ("mismatch", [("mismatch", "state")])


def test_a_part_that_is_empty_at_the_save_is_not_compared(tmp_path: Path) -> None:
    # The state of an optimizer that wraps another is filled at a load alone.
    empty = state(SAVED, optimizer__momentum_buffer="")
    saves = [save(SAVED, made=empty, entered=empty)]
    again = Restarting(tmp_path, state(SAVED), saves=saves)
    again.make(steps(6))
    assert again.answer == ("came back", [])
    assert "optimizer.momentum_buffer" not in again.restart.compared


# -- what was seen -------------------------------------------------------------------------------


def test_a_restart_without_an_equal_step_is_unknown_and_says_so(tmp_path: Path) -> None:
    again = Restarting(tmp_path, state(SAVED))
    again.make(steps(4, inputs="other"))
    assert again.answer == ("unknown", [("notice", "unknown")])
    expect_text(again.restart.findings[0].text)


def test_an_equal_step_shows_that_a_restart_came_back(tmp_path: Path) -> None:
    again = Restarting(tmp_path, state(SAVED))
    again.make(steps(1))
    assert again.answer == ("came back", [])


def drawn(at: str) -> tuple[Component, ...]:
    return state(SAVED, rng__torch=at)


@pytest.mark.parametrize(
    ("now", "earlier", "expected"),
    [
        ("r8", "r4", ("came back", [])),
        ("r9", "r4", ("unknown", [("notice", "generators")])),
        # The job draws between a save and its next step: its own generator is not known.
        ("r8", "drawn", ("unknown", [("notice", "unknown")])),
        ("r9", "drawn", ("unknown", [("notice", "unknown")])),
    ],
)
def test_right_behind_a_save_generators_are_compared_if_the_job_draws_from_none_there(
    tmp_path: Path, now: str, earlier: str, expected: tuple[str, list[tuple[str, str]]]
) -> None:
    saves = [
        save(4, made=state(4), entered=state(4, rng__torch=earlier)),
        save(SAVED, entered=(), is_past=False),
    ]
    again = Restarting(tmp_path, drawn(now), lost=0, saves=saves)
    again.make(steps(6))
    assert again.answer == expected


def test_right_behind_a_save_inputs_must_be_new_ones(tmp_path: Path) -> None:
    saves = [save(4), save(SAVED, entered=(), is_past=False)]
    again = Restarting(tmp_path, drawn("r8"), lost=0, saves=saves)
    again.make([RankStep(SAVED + 1, 1.0, "before", f"{0:08x}")])
    assert again.answer == ("unknown", [("notice", "unknown")])


# -- the older part, and other ranks ---------------------------------------------------------------


@pytest.mark.parametrize("rank", [0, 1])
def test_of_two_parts_the_older_one_is_called_old(tmp_path: Path, rank: int) -> None:
    # The weights of a stale copy are in each save; the optimizer's state is right.
    saves = [save(4), save(SAVED, is_live=False, tensors=())]
    again = Restarting(tmp_path, state(SAVED, model="m4"), saves=saves, rank=rank)
    again.make(steps(6, differs_from=1))
    assert again.answer[0] == "mismatch"
    (finding,) = again.restart.findings
    expect_text(finding.text)
    assert again.restart.step == SAVED


def test_a_part_of_a_newer_save_is_called_newer(tmp_path: Path) -> None:
    later = save(12, is_live=False, tensors=())
    saves = [save(4), save(SAVED), later]
    again = Restarting(tmp_path, state(SAVED, schedule="s12"), saves=saves)
    (finding,) = (one for one in again.restart.findings if one.group == "schedule")
    expect_text(finding.text)


def with_peer(
    root: Path, made: Sequence[RankStep], parts: Sequence[Component] | None = None
) -> Restarting:
    """Return rank 1 of a sharded training, whose saves rank 0 makes: it goes by rank 0's place."""
    folder = GuardFolder(str(root))
    peer = RestartAnswer(
        start=1, rank=0, ranks=2, at_s=20.0, step=SAVED, is_by_state=True, of_start=0
    )
    folder.write_restart(peer)
    own = [
        msgspec.structs.replace(part, digest=f"shard-{part.digest}") if part.count else part
        for part in state(SAVED)
    ]
    again = Restarting(root, parts or own, rank=1)
    again.make(made)
    return again


def test_a_rank_that_another_one_saves_for_is_known_by_its_steps(tmp_path: Path) -> None:
    again = with_peer(tmp_path, steps(6))
    assert again.restart.step == SAVED
    assert again.answer == ("came back", [])


def test_a_rank_that_begins_anew_has_no_place_of_a_peer(tmp_path: Path) -> None:
    again = with_peer(tmp_path, steps(6), parts=FRESH)
    assert again.answer == ("unknown", [("notice", "began-anew")])  # no file of a save is here


@pytest.mark.parametrize("made", [steps(2), steps(6, differs_from=2), steps(6, inputs="other")])
def test_a_rank_whose_steps_show_nothing_is_unknown(tmp_path: Path, made: list[RankStep]) -> None:
    again = with_peer(tmp_path, made)
    assert again.answer == ("unknown", [("notice", "unknown")])
