"""The lines of the job's code behind a resume that is wrong."""

import msgspec

from chaos.check.analysis import RunAnalysis
from chaos.check.census import CensusDifference
from chaos.check.code_lines import describe_save_contents, find_code_lines, find_value_lines
from chaos.check.judge import judge, judge_analysis
from chaos.model import event as ev
from chaos.model.events.state import SHARED_STATE
from chaos.model.history import Baseline, History
from chaos.model.verdict import JobLine, Verdict
from tests.accepted import expect_text
from tests.check.parts import KILLED, lost
from tests.findings import expect_in_headline

MADE = ev.CodeLine(file="/cwd/train.py", line=3, first=1, around=("a", "b", "opt = SGD()", "c"))
NAMES = ev.NamesGiven(
    attempt=0,
    rank=0,
    lines={"opt": MADE, "kl": msgspec.structs.replace(MADE, line=2)},
    parts={"optimizer": "opt"},
)

PART = "optimizer.momentum_buffer"


def named(history: History) -> History:
    """Return a history in which the job's lines are known."""
    entries = list(history)
    entries.insert(1, type(entries[0])(time_ns=entries[1].time_ns, source="x", seq=0, event=NAMES))
    return History(entries)


def judged(name: str) -> Verdict:
    plan = KILLED.plan().model_copy(update={"cwd": "/cwd"})
    return judge(plan, named(lost(name)), Baseline([KILLED.baseline()]))


def test_a_part_that_is_lost_has_the_line_that_made_it() -> None:
    (made, *_) = judged("optimizer.momentum_buffer").lines

    assert (made.role, made.names, made.part) == ("made", ("opt",), "optimizer")
    assert str(made).split(": ") == ["`opt`, train.py:3", "opt = SGD()"]


def test_a_part_of_which_no_line_is_known_has_none() -> None:
    assert not [line for line in judged("rng.torch").lines if line.role == "made"]


def test_of_a_part_that_may_have_been_saved_so_it_is_not_said_that_it_belongs_in_a_save() -> None:
    odd = ev.Component(name="optimizer.momentum_buffer", digest="odd", size=7.0, count=4)
    plan = KILLED.plan().model_copy(update={"cwd": "/cwd"})

    verdict = judge(plan, named(lost(odd.name, odd)), Baseline([KILLED.baseline()]))

    expect_in_headline(verdict, "part-changed", hint="optimizer")
    assert not [line for line in verdict.lines if line.role == "made"]


def test_a_model_that_is_built_otherwise_is_not_said_to_belong_in_a_save() -> None:
    analysis = RunAnalysis(KILLED.plan(), named(lost(PART)), Baseline([KILLED.baseline()]))
    (broken, *_) = judged(PART).broken
    (anomaly,) = broken.anomalies

    for kind, count in ((anomaly.kind, 1), ("model-restructured", 0), ("untied-parameters", 0)):
        result = broken.replace(anomalies=(anomaly.replace(kind=kind),))
        lines = find_code_lines(analysis, result, judged(PART).diagnosis)
        assert len([line for line in lines if line.role == "made"]) == count


def test_a_run_that_is_right_has_no_lines() -> None:
    right = judge(KILLED.plan(), named(KILLED.history()), Baseline([KILLED.baseline()]))

    assert not right.lines


def test_values_have_the_line_of_what_holds_them_and_share_it() -> None:
    analysis = RunAnalysis(KILLED.plan(), named(KILLED.history()), Baseline([KILLED.baseline()]))
    values = [
        CensusDifference(path, "", "", is_initial=True) for path in ("kl.value", "kl.count", "gone")
    ]
    before = [line("made", "opt", part="optimizer"), line("read")]

    made, read = find_value_lines(analysis, values, before)

    assert (made.names, made.line, made.part) == (("kl.value", "kl.count"), 2, "")
    assert read.role == "read"


def test_whose_object_a_value_is_belongs_in_no_save() -> None:
    analysis = RunAnalysis(KILLED.plan(), named(KILLED.history()), Baseline([KILLED.baseline()]))
    value = CensusDifference(f"kl{SHARED_STATE}", "", "", is_initial=True)

    (made,) = find_value_lines(analysis, [value], [])

    assert (made.names, made.line) == ((), 2)


def line(role: str, *names: str, part: str = "") -> JobLine:
    return JobLine.model_validate(
        {"role": role, "names": names, "part": part, "file": "a/t.py", "line": 7, "first": 7}
    )


def test_what_belongs_in_a_save_is_said_with_the_lines() -> None:
    part = line("made", "opt", part="optimizer")

    expect_text(describe_save_contents([part, line("saved"), line("read")]), "a part")
    values = [line("made", "a.x", "a.y"), line("saved"), line("read")]
    expect_text(describe_save_contents(values), "two values")
    expect_text(describe_save_contents([part, line("saved")]), "never read")
    assert not describe_save_contents([part])
    assert not describe_save_contents([line("saved"), line("read")])
    assert not describe_save_contents([])


def test_of_what_the_file_holds_the_load_alone_is_asked_for() -> None:
    part = line("made", "opt", part="optimizer").replace(is_saved=True)

    text = describe_save_contents([part, line("saved"), line("read")])

    expect_text(text)


def test_a_verdict_with_lines_is_the_same_from_a_file() -> None:
    verdict = judged("optimizer.momentum_buffer")

    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict
    assert judge_analysis(RunAnalysis(KILLED.plan(), KILLED.history())).lines == ()
