"""What a look at a run's storage finds, whatever the job calls its checkpoints."""

from pathlib import Path

import pytest
from pyarrow import fs

from chaos.launch.raytrain.bucket import RemoteStorage, save_remote_storage
from chaos.launch.raytrain.storage import capture_storage, find_orphans, search_storage
from chaos.model.event import Committed, FitCalled, Leftover, PartUploaded, StorageSeen
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.file_digest import folder_digests
from chaos.run.journal import Journal, read_history


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory(tmp_path)
    for name in ("checkpoint_1/deep", "epoch_002", "own/epoch_003", "logs"):
        folder = directory.storage / "run" / name
        folder.mkdir(parents=True)
        (folder / "a.pt").write_text(name)
    (directory.storage / ".session" / "checkpoint_9").mkdir(parents=True)
    return directory


def committed(*names: str) -> list[Committed]:
    return [
        Committed(attempt=0, epoch=epoch, checkpoint=name, metrics=())
        for epoch, name in enumerate(names)
    ]


def uploaded(name: str) -> PartUploaded:
    return PartUploaded(attempt=0, rank=0, epoch=0, checkpoint=name, files={})


def test_every_directory_of_a_run_is_looked_at(directory: RunDirectory) -> None:
    seen = capture_storage(directory, op=None)

    assert seen is not None
    run = directory.storage / "run"
    assert {c.name: c.files for c in seen.checkpoints} == {
        name: folder_digests(run / name) for name in ("checkpoint_1", "epoch_002", "logs", "own")
    }
    assert seen.checkpoints[-1].files.keys() == {"epoch_003/a.pt"}


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_what_was_uploaded_or_is_named_by_ray_and_was_not_committed_is_left_over(
    directory: RunDirectory, is_elsewhere: bool
) -> None:
    place = str(directory.storage.resolve())
    if is_elsewhere:
        save_remote_storage(
            directory, RemoteStorage(fs.LocalFileSystem(), place, "run", "file:///there")
        )
    journal = Journal(directory.path, "harness", role="harness", clock=SystemClock())
    called = FitCalled(
        trainer="T",
        workers=1,
        run_name="run",
        storage_path=place,
        settings={},
        original_settings={},
    )

    search_storage(journal, [called, uploaded("own/epoch_003")], directory)

    history = read_history(directory.path)
    left = [event.name for _, event in history.select_events(Leftover)]
    assert left == ["checkpoint_1", "own/epoch_003"]
    assert history.count(StorageSeen) == 1


@pytest.mark.parametrize(
    ("seen", "left"),
    [
        ([], ["checkpoint_1"]),
        (committed("checkpoint_1"), []),
        (committed("checkpoint_1/deep"), []),
        ([uploaded("epoch_002"), *committed("checkpoint_1")], ["epoch_002"]),
        ([uploaded("epoch_002"), *committed("checkpoint_1", "epoch_002")], []),
        ([uploaded("gone"), *committed("checkpoint_1")], []),
    ],
)
def test_only_what_no_commit_names_is_an_orphan(
    seen: list[Committed | PartUploaded], left: list[str]
) -> None:
    names = ["checkpoint_1", "checkpoint_1/deep", "epoch_002", "logs"]

    assert find_orphans(seen, names) == left
