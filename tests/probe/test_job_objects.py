"""Objects that a rank puts into a store: followed from their putting to their reading."""

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from chaos.errors import InjectedError
from chaos.faults.delayed_visibility import DelayedVisibility
from chaos.faults.fail_upload import FailUpload
from chaos.faults.slow_upload import SlowUpload
from chaos.model.event import (
    FileCopied,
    FileLoaded,
    FileSaved,
    FilesSeen,
    FileTouched,
    FileWritten,
)
from tests.objects.store import BUCKET
from tests.probe.opening_rank import own as own  # noqa: PLC0414 - a fixture
from tests.probe.opening_rank import stepped
from tests.probe.saving_rank import New
from tests.probe.saving_rank import new as new  # noqa: PLC0414 - a fixture
from tests.probe.store_objects import effects, in_training, read, state
from tests.probe.store_objects import s3 as s3  # noqa: PLC0414 - a fixture
from tests.probe.store_objects import store as store  # noqa: PLC0414 - a fixture
from tests.probe.wrapping import being
from tests.s3 import WHY_NOT, is_there

pytestmark = [pytest.mark.skipif(not is_there(), reason=WHY_NOT), pytest.mark.usefixtures("own")]
IN_PARTS = TransferConfig(multipart_threshold=1)


def put(store: Any, key: str, content: bytes) -> None:
    store.put_object(Bucket=BUCKET, Key=key, Body=content)


def by_bytes(store: Any, content: bytes) -> None:
    put(store, "a/state.pt", content)


def by_stream(store: Any, content: bytes) -> None:
    store.put_object(Bucket=BUCKET, Key="a/state.pt", Body=io.BytesIO(content))


def by_transfer(store: Any, content: bytes) -> None:
    store.upload_fileobj(io.BytesIO(content), BUCKET, "a/state.pt")


def in_parts(store: Any, content: bytes) -> None:
    store.upload_fileobj(io.BytesIO(content), BUCKET, "a/state.pt", Config=IN_PARTS)


WAYS = [by_bytes, by_stream, by_transfer, in_parts]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_later_attempt_goes_on_from_an_object_that_was_put(
    new: New, tmp_path: Path, store: Any, way: Callable[[Any, bytes], None]
) -> None:
    first = in_training(new, tmp_path)
    way(store, state())
    first.files.enter_step()

    second = in_training(new, tmp_path, attempt=1)
    read(store, "a/state.pt")
    second.files.enter_step()

    (saved,), (touched,) = first.of(FileSaved), first.of(FileTouched)
    assert (saved.path, saved.epoch, saved.step) == ("s3://coast/a/state.pt", 0, 3)
    assert touched.operation == ("completing" if way is in_parts else "putting")
    (loaded,) = second.of(FileLoaded)
    assert (loaded.path, loaded.saved_step) == (saved.path, 3)
    assert (second.cursor.epoch, second.cursor.step) == (0, 3)


def test_an_object_that_is_removed_is_not_there_any_more(
    new: New, tmp_path: Path, store: Any
) -> None:
    first = in_training(new, tmp_path)
    put(store, "old.pt", state(1))
    put(store, "new.pt", state(2))
    store.copy_object(Bucket=BUCKET, Key="kept.pt", CopySource=f"{BUCKET}/new.pt")
    store.delete_object(Bucket=BUCKET, Key="old.pt")
    first.files.scan_files()

    second = in_training(new, tmp_path, attempt=1)

    (seen,) = second.of(FilesSeen)
    assert {(file.path, file.state) for file in seen.files} == {
        ("s3://coast/new.pt", "there"),
        ("s3://coast/kept.pt", "there"),
    }
    hows = [(touched.operation, touched.path[-6:]) for touched in first.of(FileTouched)]
    assert hows == [
        ("putting", "old.pt"),
        ("putting", "new.pt"),
        ("putting", "ept.pt"),
        ("removing", "old.pt"),
    ]


def test_a_local_file_that_is_uploaded_is_a_copy_of_it_and_so_is_what_comes_back(
    new: New, tmp_path: Path, store: Any
) -> None:
    first = in_training(new, tmp_path)
    near = tmp_path / "storage/own/state.pt"
    near.write_bytes(state())
    first.files.scan_files(at_rest=True)
    stepped(first, 4)
    store.upload_file(str(near), BUCKET, "state.pt")
    first.files.scan_files(at_rest=True)
    store.download_file(BUCKET, "state.pt", str(near.with_name("back.pt")))
    first.files.scan_files(at_rest=True)

    assert [saved.path for saved in first.of(FileSaved)] == [str(near)]
    copies = [copied.path for copied in first.of(FileCopied)]
    assert copies[0] == "s3://coast/state.pt"
    assert all(Path(path).name.startswith("back.pt") for path in copies[1:])


def test_text_is_a_log_as_it_is_in_a_file(new: New, tmp_path: Path, store: Any) -> None:
    rank = in_training(new, tmp_path)
    put(store, "newest.json", b'{"epoch": 3}')
    rank.files.report_begun()

    assert not rank.of(FileSaved)
    assert [text.path for text in rank.of(FileWritten)] == ["s3://coast/newest.json"]


@pytest.mark.parametrize("moment", ["putting", "completing", "removing"])
def test_a_rank_stops_before_the_request(new: New, tmp_path: Path, store: Any, moment: str) -> None:
    put(store, "a/state.pt", state(1))
    rank = in_training(new, tmp_path)
    seen: list[bytes] = []

    def arrive() -> None:
        seen.append(read(store, "a/state.pt"))
        raise InjectedError("here")

    rank.listener.answer(
        save_reached=lambda at, _, path: (
            arrive if at == moment and path == "s3://coast/a/state.pt" else None
        )
    )
    acts: dict[str, Callable[[], object]] = {
        "putting": lambda: by_bytes(store, state(2)),
        "completing": lambda: in_parts(store, state(2)),
        "removing": lambda: store.delete_object(Bucket=BUCKET, Key="a/state.pt"),
    }

    with pytest.raises(InjectedError):
        acts[moment]()

    assert seen == [state(1)]
    assert read(store, "a/state.pt") == state(1)


def test_a_put_is_refused_as_the_store_refuses_it(new: New, tmp_path: Path, store: Any) -> None:
    in_training(new, tmp_path, FailUpload())

    with being(0):
        with pytest.raises(ClientError, match="AccessDenied"):
            put(store, "a", state())
        put(store, "a", state())

    assert effects(tmp_path) == ["raised"]


def test_a_put_is_late(new: New, tmp_path: Path, store: Any) -> None:
    in_training(new, tmp_path, SlowUpload(delay_s=0.05))

    with being(0):
        put(store, "a", state())

    assert effects(tmp_path) == ["delayed"]


def test_a_late_listing_lacks_the_newest_and_its_folder_and_its_name_finds_it(
    new: New, tmp_path: Path, store: Any
) -> None:
    put(store, "run/1/state.pt", state(1))
    in_training(new, tmp_path, DelayedVisibility(for_s=60))
    with being(0):
        put(store, "run/2/state.pt", state(2))
    in_training(new, tmp_path, DelayedVisibility(for_s=60), attempt=1)

    found = store.list_objects_v2(Bucket=BUCKET, Prefix="run/")
    folders = store.list_objects_v2(Bucket=BUCKET, Prefix="run/", Delimiter="/")

    assert ([one["Key"] for one in found["Contents"]], found["KeyCount"]) == (["run/1/state.pt"], 1)
    assert [one["Prefix"] for one in folders["CommonPrefixes"]] == ["run/1/"]
    assert read(store, "run/2/state.pt") == state(2)
    assert "raised" in effects(tmp_path)


def test_an_object_in_no_listing_is_not_one_that_a_new_attempt_could_find(
    new: New, tmp_path: Path, store: Any
) -> None:
    in_training(new, tmp_path, DelayedVisibility(for_s=60))
    with being(0):
        put(store, "new.pt", state(2))

    rank = in_training(new, tmp_path, DelayedVisibility(for_s=60), attempt=1)

    (seen,) = rank.of(FilesSeen)
    assert [file.state for file in seen.files] == ["gone"]


def test_a_fork_of_the_rank_is_not_followed(new: New, tmp_path: Path, store: Any) -> None:
    rank = in_training(new, tmp_path)
    rank.files.opened_files._pid = os.getpid() + 1

    put(store, "a", state())

    assert not rank.of(FileSaved)
