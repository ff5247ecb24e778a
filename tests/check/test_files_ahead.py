"""Which files may be ahead of the checkpoint that an attempt resumed from."""

from chaos.check.analysis import RunAnalysis
from chaos.check.files_ahead import find_files_ahead
from chaos.model import event as ev
from chaos.model.history import History
from tests.check.story import Story, Strike
from tests.check.tamper import shifted, told

STORY = Story((Strike(2, 3, 1),), files=True)


def wrote(path: str, *, removed: bool = True) -> ev.WroteOutside:
    return ev.WroteOutside(path=path, operation="created", removed=removed, after_fit=False)


def files(*events: ev.WroteOutside, run: History | None = None) -> tuple[str, ...]:
    run = shifted(STORY.history(), 2) if run is None else run
    return find_files_ahead(RunAnalysis(STORY.plan(), run, told(STORY.baseline(), *events)))


def test_databases_come_first_and_logs_last() -> None:
    found = files(wrote("/a/run.log"), wrote("/a/seen.json"), wrote("/a/items.db"))

    assert found == ("/a/items.db", "/a/seen.json", "/a/run.log")


def test_what_a_job_has_prepared_before_it_trains_is_not_ahead() -> None:
    assert files(wrote("/a/cache.bin", removed=False)) == ()


def test_a_save_is_not_ahead_of_itself() -> None:
    saves = {e.path for _, e in STORY.baseline().select_events(ev.FileSaved)}
    assert saves

    assert files(*map(wrote, sorted(saves))) == ()


def test_a_file_of_a_later_place_that_was_read_is_the_likeliest() -> None:
    read = ev.FileLoaded(
        attempt=1,
        rank=0,
        epoch=2,
        step=0,
        path="/a/table.json",
        digest="ab",
        saved_attempt=0,
        saved_rank=0,
        saved_epoch=2,
        saved_step=3,
    )
    run = told(shifted(STORY.history(), 2), read)

    assert files(wrote("/a/items.db"), run=run) == ("/a/table.json", "/a/items.db")


def test_where_nothing_resumed_no_file_is_ahead() -> None:
    assert files(wrote("/a/items.db"), run=STORY.baseline()) == ()
