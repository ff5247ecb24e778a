"""A file is a save by the model in it, and by the copies that are made of it."""

from functools import partial
from itertools import starmap
from typing import Any

import msgspec
import pytest

from chaos.model import event as ev
from chaos.model.history import History, JournalEntry
from chaos.model.verdict import CheckResult, Verdict
from tests.check.each import judge_each
from tests.check.shorthand import plan_of, told_in
from tests.check.tamper import changed, rows
from tests.findings import expect_in_headline

BASELINE = "g s w:f_1 s r c- s w:f_2 s r c- s w:f_10 s r c- s w:f_11 s r c- ."


def verdict(run: str, baseline: str = BASELINE) -> Verdict:
    return judge_each(plan_of(run), told_in(run), told_in(baseline))


def result(check: str, run: str, baseline: str = BASELINE) -> CheckResult:
    return next(r for r in verdict(run, baseline).results if r.check == check)


def with_parts(history: History, **parts: dict[str, float]) -> History:
    """Tell what is in files, of which the model is the numbers 3 and 4: its norm is 5."""
    model = ev.Component(name="model", digest="m", size=5.000001, count=2)
    at: dict[str, Any] = {"attempt": 0, "rank": 0, "epoch": 0, "step": 0}
    seen = ev.StateSeen(**at, moment="entered", components=(model,))
    for name, sizes in parts.items():
        mine = partial(_begins_with, name)
        history = changed(history, ev.FileSaved, mine, parts=tuple(starmap(_part, sizes.items())))
    first = rows(history, ev.StepDone)[0]
    entry = msgspec.structs.replace(history[first], event=seen)
    return History([*history.entries[:first], entry, *history.entries[first:]])


def _begins_with(name: str, saved: ev.FileSaved) -> bool:
    return saved.path.startswith(name)


def _part(name: str, size: float) -> ev.SavedPart:
    return ev.SavedPart(name=name, digest=name, kind="numbers", size=size)


ANEW = "g s w:{0} s r c- s w:{0} s r c- s x g q:{0} s s r c- s s r c- ."


@pytest.mark.parametrize(
    ("held", "is_blamed"),
    [
        ({"net/0.weight": 3.0, "net/0.bias": 4.0, "adam/0/exp_avg": 2.0}, True),
        ({"net": 5.000001, "adam": 2.0}, True),
        ({"net.weight": 3.0, "adam.exp_avg": 4.1}, False),
    ],
)
def test_a_save_of_no_known_saver_is_known_by_the_model_in_it(
    held: dict[str, float], is_blamed: bool
) -> None:
    line = ANEW.format("a")
    run, clean = (
        changed(with_parts(told_in(one), a=held), ev.FileSaveBegun, saver="npz")
        for one in (line, "g s w:a s r c- s w:a s r c- s s r c- s s r c- .")
    )

    found = judge_each(plan_of(line), run, clean)

    assert ("scratch, although a of" in found.headline) is is_blamed
    if is_blamed:
        expect_in_headline(found, "saves-ignored", newest={"path": "a"})


@pytest.mark.parametrize(
    ("whole", "is_blamed"), [({"net": 5.000001, "adam": 2.0}, False), ({}, True)]
)
def test_a_model_alone_is_no_checkpoint_where_it_is_kept_with_more(
    whole: dict[str, float], is_blamed: bool
) -> None:
    """The restart finds an export of the model; the first checkpoint was not due yet."""
    line = "g s w:export_1 s r c- s x g q:export_1 s s r c- s w:ckpt_2 s r c- ."
    clean = "g s w:export_1 s r c- s w:ckpt_2 s r c- ."
    parts = {"export": {"w": 3.0, "b": 4.0}, "ckpt": whole}

    found = judge_each(
        plan_of(line), with_parts(told_in(line), **parts), with_parts(told_in(clean), **parts)
    )

    assert ("although export_1 of" in found.headline) is is_blamed
    if is_blamed:
        expect_in_headline(
            found, "saves-ignored", attempt=1, newest={"path": "export_1"}, severity="work lost"
        )


def test_what_only_waits_to_be_copied_is_no_save() -> None:
    base = "g s w:f_1 s k:f_1>g_1 r c- s w:f_2 s k:f_2>g_2 r c- ."

    found = result("resume-point", "g s w:f_1 s r c- s x g q:f_1 s s r c- s s r c- .", base)

    assert found.status == "pass"


@pytest.mark.parametrize(
    ("named", "status"),
    [(("p_1>g_1", "p_2>g_2"), "pass"), (("p_1>old_1",), "fail")],
    ids=["each copy gets another name", "the last keeps it"],
)
def test_a_copy_that_has_no_name_of_a_save_yet_is_none(named: tuple[str, ...], status: str) -> None:
    first, second = (*(f"m:{each}" for each in named), "")[:2]
    base = f"g s w:f_1 s k:f_1>p_1 {first} r c- s w:f_2 s k:f_2>p_2 {second} r c- ."
    run = "g s w:f_1 s k:f_1>p_1 r c- s x g q:f_1,p_1 s s r c- s s r c- ."

    assert result("resume-point", run, base).status == status


@pytest.mark.parametrize(
    ("copy", "status"),
    [("k:f_1>/g_1", "pass"), ("k:f_1>/tmp/g_1", "fail"), ("", "fail")],
    ids=["copied later", "copied on its node", "never copied"],
)
def test_what_waited_to_be_copied_is_lost_with_its_node_by_the_jobs_own_choice(
    copy: str, status: str
) -> None:
    base = f"g s w:f_1 s {copy} r c- s w:f_2 s r c- ."
    run = f"g s w:f_1 s x g q:f_1~ s w:f_1 s {copy} r c- s w:f_2 s x g q:f_1,f_2 l:f_2 s r c- ."

    found = result("resume-point", run, base)

    assert found.status == status, found.summary


@pytest.mark.parametrize(
    ("copy", "found", "said"),
    [
        ("k:/tmp/f_2>/store/f_2", "/store/f_2", "although /store/f_2 of epoch 1, step 1 was there"),
        ("h:/tmp/f_2>/store/f_2", "/store/f_2", "although /store/f_2 of epoch 1, step 1 was there"),
        ("h:/tmp/f_2>/store/f_2", "", "/store/f_2 of epoch 1, step 1 was not there any more"),
        ("", "", ""),
    ],
    ids=["is there", "written as a save", "removed again", "not made yet"],
)
def test_a_copy_counts_also_where_an_earlier_restart_has_read_the_original(
    copy: str, found: str, said: str
) -> None:
    first = "g s w:/tmp/f_1 {} s x g q:/tmp/f_1{} l:/tmp/f_1 r c- "
    run = (
        first.format("", "") + f"s w:/tmp/f_2 {copy} s X g q:/tmp/f_1-,/tmp/f_2-,{found} s s r c- ."
    )
    base = "g s w:/tmp/f_1 h:/tmp/f_1>/store/f_1 s r c- s w:/tmp/f_2 s r c- ."

    summary = result("resume-point", run, base).summary

    assert said in summary if said else result("resume-point", run, base).status == "pass", summary


def test_a_copy_that_has_no_name_of_a_save_yet_is_none_after_the_original_was_read() -> None:
    one = "ranks1 g s w:/tmp/f_1 h:/tmp/f_1>/store/p_1 "
    base = one + "m:/store/p_1>/store/f_1 s r c- s s r c- ."
    read = "s x0 g q:/tmp/f_1,/store/p_1 l:/tmp/f_1 s r c- "
    run = one + read + "s x0 g q:/tmp/f_1-,/store/p_1 s s r c- s s r c- ."

    assert "/store/p_1" not in result("resume-point", run, base).summary


@pytest.mark.parametrize(
    ("path", "epochs", "status"),
    [("/store/f_9", 1, "pass"), ("/store/g_9", 1, "fail"), ("/store/f_9", 3, "fail")],
    ids=["at the first save", "another file", "later"],
)
def test_of_another_programs_copies_only_the_first_may_still_be_under_way(
    path: str, epochs: int, status: str
) -> None:
    made = "".join(f"s w:/near/f_{n} s r c- " for n in range(epochs))
    left = "".join(f"/near/f_{n}~," for n in range(epochs)).rstrip(",")
    base = told_in(f"g {made}s s r c- .")
    outside = ev.WroteOutside(path=path, operation="created", removed=True, after_fit=False)
    base = History([*base, JournalEntry(time_ns=0, source="harness", seq=0, event=outside)])
    again = "s s r c- " * (epochs + 1)
    line = f"g {made}s x g q:{left} {again}x g q:/near/f_0 l:/near/f_0 s s r c- ."

    found = judge_each(plan_of(line), told_in(line), base)

    assert next(r.status for r in found.results if r.check == "resume-point") == status
