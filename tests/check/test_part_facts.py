"""A part of the state that did not come back is told with its moment and its structure."""

from typing import Any

import msgspec
import pytest

from chaos.model import event as ev
from chaos.model.history import History
from tests.check.causes import with_files
from tests.check.each import judge_each
from tests.check.parts import KILLED, lost
from tests.check.tamper import (
    restored_wrong,
    shifted,
    told,
    verdict_on,
)
from tests.findings import expect_in_headline


def test_a_model_of_another_moment_is_named_with_its_moment() -> None:
    history = KILLED.history()
    seen = next(
        e for _, e in history.select_events(ev.StateSeen) if (e.epoch, e.moment) == (1, "entered")
    )
    old = next(part for part in seen.components if part.name == "model")
    part = ev.SavedPart(name="model", kind="numbers", digest="x", tensors=old.digest)

    verdict = verdict_on(KILLED, with_files(lost("model", old), part))

    expect_in_headline(
        verdict,
        "wrong-model-saved",
        part="model",
        expects_own_state=False,
        saved={
            "content": "of another moment",
            "dtype": "",
            "saved_at": {"epoch": 0, "step": 6},
        },
    )


# -- its structure ---------------------------------------------------------------------------------


def shaped(structure: str, content: str | None = None) -> Any:
    def of(seen: ev.StateSeen) -> ev.Component:
        own = next(part for part in seen.components if part.name == "model")
        mine = own.digest if content is None else content
        return msgspec.structs.replace(own, structure=structure, digest=mine)

    return of


def untied(names: dict[int, tuple[str, ...]] | None = None) -> tuple[History, History]:
    """Return a run whose model has other shapes since its restart, and its baseline."""
    baseline = restored_wrong(KILLED.baseline(), "model", shaped("one"), since=0)
    history = restored_wrong(KILLED.history(), "model", shaped("one"), since=0)
    history = shifted(restored_wrong(history, "model", shaped("two", "odd")), 2)
    for attempt, told_of in (names or {}).items():
        named = [
            ev.ParametersNamed(attempt=attempt, rank=rank, epoch=0, step=0, names=told_of)
            for rank in (0, 1)
        ]
        history = told(history, *named)
        baseline = told(baseline, *named) if attempt == 0 else baseline
    return history, baseline


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (
            {0: ("a = b", "c"), 1: ("a", "b", "c")},
            "`a` and `b` were one parameter, and are 2 now: tie them again",
        ),
        ({0: ("a", "b"), 1: ("a", "c")}, "It trains 2 parameters, without `b` and with `c`"),
        (None, "It trains 4 parameters (in the baseline 4 parameters), of other shapes or types"),
    ],
)
def test_another_structure_of_the_model_is_a_finding_with_its_names(
    names: dict[int, tuple[str, ...]] | None, words: str
) -> None:
    history, baseline = untied(names)

    verdict = judge_each(KILLED.plan(), history, baseline)

    assert verdict.broken[0].check == "state"
    told_of = "ranks 0 and 1: the model has another structure after the resume at epoch 2. "
    assert f"{told_of}{words}" in verdict.headline


def test_another_structure_is_no_finding_where_every_number_is_right() -> None:
    baseline = restored_wrong(KILLED.baseline(), "model", shaped("one"), since=0)
    history = restored_wrong(KILLED.history(), "model", shaped("one"), since=0)
    history = restored_wrong(history, "model", shaped("two", "odd"))

    found = {r.check: r.status for r in judge_each(KILLED.plan(), history, baseline).results}

    assert found["state"] == "pass"
