"""The page of a guard's folder, read back with a parser as a browser would."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from chaos.cli.commands import app
from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.records import GuardFinding, RankStep
from tests.accepted import expect_text
from tests.extensions.guard.restarts import WRONG, restart
from tests.extensions.guard.saved_states import save, start
from tests.report.test_html import EVIL, Element, Parser


@pytest.fixture
def folder(tmp_path: Path) -> GuardFolder:
    return GuardFolder(str(tmp_path / "guard"))


def page(folder: GuardFolder) -> Element:
    Path(folder.location).mkdir(exist_ok=True)
    path = Path(folder.location).parent / "page.html"
    CliRunner().invoke(app, ["guard", "report", folder.location, "-o", str(path)])
    parser = Parser()
    parser.feed(path.read_text(encoding="utf-8"))
    return parser.root


def cells(root: Element, label: str) -> list[list[str]]:
    own = [e for e in root.all("div") if e.attrs.get("aria-labelledby") == label]
    rows = own[0].all("tbody")[0].all("tr")
    return [[cell.words for cell in row.children if cell.tag in ("td", "th")] for row in rows]


def trail(folder: GuardFolder, number: int, steps: range) -> None:
    made = folder.begin_trail(0, number, steps[0])
    for step in steps:
        made.add(RankStep(step, 0.5 + step / 100, "in", ""))
    made.flush()


def test_each_restart_has_what_came_back_by_rank_its_losses_and_its_save(
    folder: GuardFolder,
) -> None:
    for number in (0, 1):
        folder.write_start(start(number, ranks=2))
    folder.write_save(save(8, ranks=2, losses=tuple(0.5 + step / 100 for step in range(1, 9))))
    trail(folder, 0, range(1, 12))
    trail(folder, 1, range(9, 20))
    parts = ("model", "optimizer.state")
    of_save = {"ranks": 2, "compared": parts, "of_start": 0, "files": ("/saves/step_8.pt",)}
    folder.write_restart(restart(1, **of_save))
    folder.write_restart(restart(1, WRONG, rank=1, differing=("model",), **of_save))
    root = page(folder)
    assert root.of_class("banner")[0].words.endswith(
        "0 of 1 restart came back 2 starts, 1 restart."
    )
    assert cells(root, "parts-1") == [
        ["model", "rank 0", "rank 1", ""],
        ["optimizer.state", "ranks 0 and 1", "", ""],
    ]
    assert cells(root, "ranks-1")[0] == ["0", "8", "3", "2.50 s", "0", "0", "0"]
    assert cells(root, "save-1") == [
        ["/saves/step_8.pt", "ranks 0 and 1", "10 bytes", "1970-01-01 00:00:08"]
    ]
    captions = " ".join(caption.words for caption in root.all("figcaption"))
    expect_text(captions)


def test_a_part_of_which_an_older_record_does_not_tell_is_not_said_to_have_come_back(
    folder: GuardFolder,
) -> None:
    folder.write_restart(restart(1, WRONG))
    assert cells(page(folder), "parts-1") == [["model", "", "", "rank 0"]]


def test_ranks_that_follow_one_another_are_named_as_one(folder: GuardFolder) -> None:
    for rank in range(64):
        is_odd = rank % 2
        answer = [WRONG] if is_odd else []
        other = ("model",) if is_odd else ()
        of_all = ("model", "schedule")
        made = restart(1, *answer, rank=rank, ranks=64, compared=of_all, differing=other)
        folder.write_restart(made)
    root = page(folder)
    of_half = [f"32 ranks, the first of them {rank}" for rank in (0, 1)]
    assert cells(root, "parts-1") == [
        ["model", *of_half, ""],
        ["schedule", "ranks 0 to 63", "", ""],
    ]
    assert [fold.words for fold in root.all("summary")] == ["64 ranks"]


def test_nothing_of_a_record_becomes_a_tag(folder: GuardFolder) -> None:
    found = GuardFinding("notice", "older", EVIL)
    folder.write_restart(restart(1, found, compared=(EVIL,), files=(EVIL,), step=None))
    root = page(folder)
    assert root.all("img") == []
    assert EVIL.capitalize()[:9].lower() in root.words.lower()


def test_a_folder_without_restarts_says_so(folder: GuardFolder) -> None:
    folder.write_start(start(0))
    root = page(folder)
    assert "No start has followed another one yet." in root.words
    assert root.all("figure") == []
