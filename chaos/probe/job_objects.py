"""The objects that a rank puts into a store, reads and removes there, as its files are followed.

An object comes whole or not at all, so that its place is before its request: `putting`, also of a
copy within the store, and `completing` of one that comes in parts, which are all sent by then.
Listings and answers are where storage faults of a job's own saves take effect.
"""

import io
import os
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from threading import get_ident
from typing import Any

from chaos.errors import InjectedError
from chaos.faults.delayed_visibility import DelayedVisibility
from chaos.faults.fail_upload import FailUpload
from chaos.faults.lose_answer import LoseAnswer
from chaos.faults.slow_upload import SlowUpload
from chaos.model.objects import build_object_path, split_object_path
from chaos.model.places import TrainingPlace
from chaos.model.plan import Op
from chaos.probe.cursor import Cursor
from chaos.probe.job_code import find_running_line
from chaos.probe.job_files import JobFiles
from chaos.probe.open_watch import OpenedFile
from chaos.probe.process_identity import HERE
from chaos.probe.storage_faults import StorageInjector
from chaos.probe.stores import ClientCall, Loses, Steps, StoreRequest, make_call
from chaos.probe.training_listener import FileOperation
from chaos.probe.write_ledger import set_call_handler
from chaos.run.file_digest import WHOLE_MAX, stream_digest

_PUTS = {"PutObject": "putting", "CopyObject": "putting", "CompleteMultipartUpload": "completing"}


class JobObjects:
    """The objects of one rank."""

    def __init__(
        self,
        files: JobFiles,
        cursor: Cursor,
        faults: StorageInjector,
        report_failure: Callable[[str, Exception], None],
    ) -> None:
        self._files = files
        self._saves, self._record_safely = files.save_folder, files.record_safely
        self._cursor = cursor
        self._faults = faults
        self._report_failure = report_failure
        self._read_objects: set[tuple[str, str]] = set()
        self._handlers: Mapping[str, Callable[[ClientCall], Steps]] = {
            **dict.fromkeys(_PUTS, self._handle_put),
            "DeleteObject": self._handle_removal,
            "DeleteObjects": self._handle_removal,
            "GetObject": self._handle_get,
            "ListObjects": self._handle_listing,
            "ListObjectsV2": self._handle_listing,
        }

    def watch(self) -> None:
        """Follow the calls of this process from now on."""
        set_call_handler(self._handle_call)

    def _handle_call(self, call: ClientCall) -> Steps:
        is_job_thread = self._files.opened_files.is_job_thread()
        handler = self._handlers.get(call.operation, make_call) if is_job_thread else make_call
        return (yield from handler(call))

    # -- writing -----------------------------------------------------------------------------

    def _handle_put(self, call: ClientCall) -> Steps:
        path, copy_source = call.path, call.params.get("CopySource", "")
        source_path = (
            copy_source
            if isinstance(copy_source, str)
            else build_object_path(copy_source["Bucket"], copy_source["Key"])
        )
        place = self._stop_before_request(call, path, source_path)
        content = yield from self._find_body(call)
        if content is not None:
            self._record_begin(path, place, content)
        HERE.upload_count += 1
        planned_faults = list(self._faults.find_faults(path))
        answer = yield self._build_request(call, path, planned_faults)
        if content is None:
            content = yield from self._fetch_content(path)
        if content is not None:
            self._record_object(path, place, content)
        return answer

    def _handle_removal(self, call: ClientCall) -> Steps:
        for path in call.paths:
            self._stop_before_request(call, path)
        return (yield call.request)

    def _stop_before_request(
        self, call: ClientCall, path: str, source_path: str = ""
    ) -> TrainingPlace:
        """Stop at an op whose place is before a request; return the place of the request."""
        # A client of asyncio has a thread of its own, which serves all of training, and the
        # thread that trains waits for it.
        threads = self._files.thread_places
        place = self._cursor.training_place if call.is_async else threads.find_work_place()
        moment: Any = _PUTS.get(call.operation, "removing")
        with self._files.pause_watch():
            self._files.opened_files.add_operation(FileOperation(moment, path, place, source_path))
        if moment == "removing":
            self._record_safely("files", lambda: self._saves.record_removal(path))
        return place

    def _record_begin(self, path: str, place: TrainingPlace, content: bytes) -> None:
        """Remember an object that is about to be put: its process may end before more is known."""
        save = self._files.save_recorder.build_save(path, place, digest="")
        self._record_safely("save", lambda: self._saves.record_begin(save))
        self._record_safely("save", lambda: self._saves.set_mark("size", len(content)))

    def _record_object(self, path: str, place: TrainingPlace, content: bytes) -> None:
        """Record an object as a file of these bytes would be."""
        opening = OpenedFile(
            path, place, is_append=False, thread=get_ident(), code=find_running_line()
        )
        self._record_safely("save", lambda: self._record_bytes(opening, content))

    def _record_bytes(self, opening: OpenedFile, content: bytes) -> None:
        name = f"object-{os.getpid()}-{get_ident()}{PurePosixPath(opening.path).suffix}"
        copy = self._saves.make_scratch_path(name)
        copy.write_bytes(content)
        try:
            self._files.save_recorder.record_bytes(opening, opening.path, copy, None)
        finally:
            copy.unlink()
        self._files.save_recorder.report_operations()

    def _build_request(
        self, call: ClientCall, path: str, planned_faults: list[tuple[Op, Any]]
    ) -> StoreRequest:
        delay_s, loses_answer = 0.0, None
        for op, fault in planned_faults:
            match fault:
                case FailUpload():
                    self._faults.record_effect(op, path, "raised", f"raised `{fault.error}`")
                    raise _build_refusal(call.operation, fault.error)
                case SlowUpload(delay_s=float(wait_s)):
                    self._faults.record_effect(op, path, "delayed", f"waits {wait_s:g} s")
                    delay_s += wait_s
                case LoseAnswer():
                    loses_answer = self._build_answer_loss(op, fault, path)
                case DelayedVisibility():
                    self._faults.hide(op, path)
                case _:  # refused for such a place when the plan was made
                    pass
        return StoreRequest(call.operation, call.params, loses_answer=loses_answer, delay_s=delay_s)

    def _build_answer_loss(self, op: Op, fault: LoseAnswer, path: str) -> Loses:
        remaining = iter(range(fault.times))

        def loses_answer() -> bool:
            if next(remaining, None) is None:
                return False
            self._faults.record_effect(op, path, "raised", "did it, and its answer was lost")
            return True

        return loses_answer

    def _find_body(self, call: ClientCall) -> Steps:
        """Return the bytes that a call sends, if they are at hand."""
        yield from ()
        body = call.params.get("Body")
        return bytes(body) if isinstance(body, bytes | bytearray | memoryview) else None

    # -- reading -----------------------------------------------------------------------------

    def _handle_get(self, call: ClientCall) -> Steps:
        answer = yield call.request
        try:
            size, tag = _find_whole_size(answer), str(answer.get("ETag"))
            is_to_look = (
                self._files.opened_files.is_reading and (call.path, tag) not in self._read_objects
            )
            if is_to_look and self._saves.has_mark("size", size):
                self._read_objects.add((call.path, tag))
                content = yield from self._fetch_content(call.path)
                if content is not None:
                    self._record_reading(call.path, content)
        except InjectedError:
            raise
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the job's call
            self._report_failure("load", error)
        return answer

    def _record_reading(self, path: str, content: bytes) -> None:
        """Look at an object that is being read; stop at an op inside its load."""
        digest = stream_digest(io.BytesIO(content))
        self._record_safely("load", lambda: self._files.load_recorder.record_bytes(path, digest))

    def _fetch_content(self, path: str) -> Steps:
        """Return the bytes of an object, as the store has them; None where that is too many."""
        bucket, key = split_object_path(path)
        object_key = {"Bucket": bucket, "Key": key}
        try:
            head = yield StoreRequest("HeadObject", object_key)
            if head["ContentLength"] > WHOLE_MAX:
                return None
            answer = yield StoreRequest("GetObject", object_key, needs_body=True)
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the job's call
            self._report_failure("files", error)
            return None
        return answer["Body"]

    def _handle_listing(self, call: ClientCall) -> Steps:
        """Make a listing, without the objects that a fault hides and folders that hold no other."""
        answer = yield call.request
        entries = answer.get("Contents")
        if entries:
            answer["Contents"] = [
                entry
                for entry in entries
                if not self._is_hidden(build_object_path(call.bucket, entry["Key"]))
            ]
        for folder in list(answer.get("CommonPrefixes", ())):
            if (yield from self._is_folder_hidden(call.bucket, folder["Prefix"])):
                answer["CommonPrefixes"].remove(folder)
        if "KeyCount" in answer:
            listed_entries = (answer.get(part, ()) for part in ("Contents", "CommonPrefixes"))
            answer["KeyCount"] = sum(map(len, listed_entries))
        return answer

    def _is_folder_hidden(self, bucket: str, prefix: str) -> Steps:
        folder_path = build_object_path(bucket, prefix)
        hidden_paths = [
            path for path in self._faults.list_hidden_paths() if path.startswith(folder_path)
        ]
        if not hidden_paths:
            return False
        keys_max = len(hidden_paths) + 1
        listing = yield StoreRequest(
            "ListObjectsV2", {"Bucket": bucket, "Prefix": prefix, "MaxKeys": keys_max}
        )
        names = {build_object_path(bucket, entry["Key"]) for entry in listing.get("Contents", ())}
        return names <= set(hidden_paths) and all(map(self._is_hidden, hidden_paths))

    def _is_hidden(self, path: str) -> bool:
        op = self._faults.find_hiding_op(path)
        if op is not None:
            self._faults.record_effect(op, path, "raised", "was not in a listing yet")
        return op is not None


def _find_whole_size(answer: Mapping[str, Any]) -> int:
    """Return the bytes of the whole object, of which the answer may have a part."""
    size_text = str(answer.get("ContentRange", "")).rpartition("/")[2]
    return int(size_text) if size_text.isdigit() else int(answer["ContentLength"])


def _build_refusal(operation: str, text: str) -> Exception:
    from botocore.exceptions import ClientError

    answer = {
        "Error": {"Code": "AccessDenied", "Message": text},
        "ResponseMetadata": {"HTTPStatusCode": 403},
    }
    error: Exception = ClientError(answer, operation)
    return error
