"""The pattern of a file's path, by which a place is found again in another run."""

import pytest

from chaos.model.trigger import (
    AtMoment,
    AtStart,
    AtStep,
    AtTime,
    Trigger,
    build_path_pattern,
    build_path_patterns,
    find_only_attempt,
    find_path_end,
    has_drawn_name,
)


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("last.pt", "last.pt"),
        ("/runs/a/out/epoch_12.pt", "out/epoch_*.pt"),
        ("/tmpab12cd34/model.pt", "tmp*/model.pt"),
        (f"blobs/{'0a' * 16}", "blobs/*"),
        ("out/a[1].pt", "out/a?*?.pt"),
    ],
)
def test_numbers_and_drawn_names_are_left_open(path: str, pattern: str) -> None:
    assert build_path_pattern(path) == pattern


def test_files_of_one_name_are_told_apart_by_longer_patterns() -> None:
    run = ("/r/actor/out/last.pt", "/r/critic/out/last.pt")

    assert build_path_patterns([run, run]) == {
        run[0]: "actor/out/last.pt",
        run[1]: "critic/out/last.pt",
    }


def test_folders_with_another_name_in_each_run_tell_nothing_apart() -> None:
    runs = [("/r/first/out/last.pt",), ("/r/second/out/last.pt",)]

    assert set(build_path_patterns(runs).values()) == {"out/last.pt"}


def test_a_drawn_name_is_one_of_the_file_or_of_its_folder() -> None:
    assert has_drawn_name("/x/tmpab12cd34/model.pt")
    assert has_drawn_name("/x/tmpab12cd34")
    assert not has_drawn_name("/tmpab12cd34/x/model.pt")


def test_the_end_of_a_path_has_at_most_its_own_parts() -> None:
    assert find_path_end("/a/b/c", 2) == "b/c"
    assert find_path_end("/a", 3) == "a"


@pytest.mark.parametrize(
    ("trigger", "attempt"),
    [
        (AtStart(starting=2), 2),
        (AtStep(epoch=1, step=1, attempt=1), 1),
        (AtStep(epoch=1, step=1), None),
        (AtMoment(epoch=1, moment="reported"), None),
        (AtTime(seconds=1), None),
    ],
)
def test_only_some_places_are_of_one_attempt(trigger: Trigger, attempt: int | None) -> None:
    assert find_only_attempt(trigger) == attempt
