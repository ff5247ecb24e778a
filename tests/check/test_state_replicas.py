"""The ranks beside each other: rank-randomness, replicas, agreement."""

from chaos.check.judge import judge
from chaos.model import event as ev
from tests.check.parts import KILLED, fresh, lost
from tests.check.tamper import changed, restored_wrong, verdict_on
from tests.check.watching import components, digest
from tests.findings import expect_in_headline


def of_rank_0(seen: ev.StateSeen) -> ev.Component:
    done = seen.epoch * KILLED.steps + seen.step
    drawn = seen.moment == "entered"
    parts = components(0, done, seen.epoch, drawn=drawn)
    return next(part for part in parts if part.name == "rng.torch")


def test_another_ranks_generator_is_named_with_its_owner() -> None:
    verdict = verdict_on(KILLED, lost("rng.torch", of_rank_0))

    assert verdict.broken[0].check == "rank-randomness"
    expect_in_headline(
        verdict, "generator-copied", generator="rng.torch", ranks=(1,), owner_rank=0, epoch=2
    )
    assert "rng.torch of rank 0" in verdict.diagnosis[0].sentence


def test_replicas_that_part_later_are_found() -> None:
    odd = ev.Component(name="model", digest="odd", size=7.0)
    history = restored_wrong(KILLED.history(), "model", odd, rank=1)
    entered = changed(
        history,
        ev.StateSeen,
        lambda e: (e.attempt, e.epoch, e.moment) == (1, 2, "entered"),
        components=lambda e: components(e.rank, 12, 2, drawn=True),
    )

    verdict = verdict_on(KILLED, entered)

    assert verdict.broken[0].check == "replicas"
    expect_in_headline(verdict, "unequal-replicas", part="model", epoch=2, checkpoint_epochs=(2, 3))


def test_a_shard_is_no_replica() -> None:
    def shard(seen: ev.StateSeen) -> ev.Component:
        done = seen.epoch * KILLED.steps + seen.step
        return ev.Component(name="model", digest=digest("shard", seen.rank, done), size=1.0)

    history = restored_wrong(KILLED.history(), "model", shard, since=0)
    baseline = restored_wrong(KILLED.baseline(), "model", shard, since=0)

    assert judge(KILLED.plan(), history, baseline).status == "pass"


def test_ranks_that_enter_with_different_models_do_not_agree() -> None:
    verdict = verdict_on(KILLED, lost("model", fresh("model"), rank=1))

    assert verdict.broken[0].check == "agreement"
    expect_in_headline(verdict, "different-models", attempt=1, rank=1, other_rank=0)
