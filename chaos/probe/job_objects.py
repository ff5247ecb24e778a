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
from chaos.model.objects import bucket_and_key, object_path
from chaos.model.places import Place
from chaos.model.plan import Op
from chaos.probe.job_code import running_line
from chaos.probe.job_files import JobFiles
from chaos.probe.open_watch import Opening, Operation
from chaos.probe.process_identity import HERE
from chaos.probe.storage_faults import StorageInjector
from chaos.probe.stores import Call, Loses, Request, Steps, plainly
from chaos.probe.written import surround
from chaos.run.file_digest import WHOLE_MAX, stream_digest

_PUTS = {
    "PutObject": "putting",
    "CopyObject": "putting",
    "CompleteMultipartUpload": "completing",
}


class JobObjects:
    """The objects of one rank. `now` is the place of training, for a client's own thread."""

    def __init__(
        self,
        files: JobFiles,
        now: Callable[[], Place],
        faults: StorageInjector,
        failed: Callable[[str, Exception], None],
    ) -> None:
        self._files = files
        self._saves, self._guarded = files.saves, files.guarded
        self._now = now
        self._faults = faults
        self._failed = failed
        self._read: set[tuple[str, str]] = set()
        self._acts: Mapping[str, Callable[[Call], Steps]] = {
            **dict.fromkeys(_PUTS, self._puts),
            "DeleteObject": self._removes,
            "DeleteObjects": self._removes,
            "GetObject": self._gets,
            "ListObjects": self._lists,
            "ListObjectsV2": self._lists,
        }

    def watch(self) -> None:
        """Follow the calls of this process from now on."""
        surround(self._around)

    def _around(self, call: Call) -> Steps:
        is_here = self._files.opened.is_here()
        act = self._acts.get(call.operation, plainly) if is_here else plainly
        return (yield from act(call))

    # -- writing -----------------------------------------------------------------------------

    def _puts(self, call: Call) -> Steps:
        path, copied = call.path, call.params.get("CopySource", "")
        to = copied if isinstance(copied, str) else object_path(copied["Bucket"], copied["Key"])
        place = self._stops(call, path, to)
        content = yield from self._sent(call)
        if content is not None:
            self._begins(path, place, content)
        HERE.upload += 1
        due = list(self._faults.due(path))
        answer = yield self._with_faults(call, path, due)
        if content is None:
            content = yield from self._content(path)
        if content is not None:
            self._is_there(path, place, content)
        return answer

    def _removes(self, call: Call) -> Steps:
        for path in call.paths:
            self._stops(call, path)
        return (yield call.request)

    def _stops(self, call: Call, path: str, to: str = "") -> Place:
        """Stop at an op whose place is before a request; return the place of the request."""
        # A client of asyncio has a thread of its own, which serves all of training, and the
        # thread that trains waits for it.
        place = self._now() if call.is_async else self._files.thread_places.place()
        moment: Any = _PUTS.get(call.operation, "removing")
        with self._files.quietly():
            self._files.opened.operates(Operation(moment, path, place, to))
        if moment == "removing":
            self._guarded("files", lambda: self._saves.drop(path))
        return place

    def _begins(self, path: str, place: Place, content: bytes) -> None:
        """Remember an object that is about to be put: its process may end before more is known."""
        save = self._files.save_of(path, place, digest="")
        self._guarded("save", lambda: self._saves.begin(save))
        self._guarded("save", lambda: self._saves.mark("size", len(content)))

    def _is_there(self, path: str, place: Place, content: bytes) -> None:
        """Record an object as a file of these bytes would be."""
        opening = Opening(path, place, appends=False, thread=get_ident(), code=running_line())
        self._guarded("save", lambda: self._record(opening, content))

    def _record(self, opening: Opening, content: bytes) -> None:
        name = f"object-{os.getpid()}-{get_ident()}{PurePosixPath(opening.path).suffix}"
        copy = self._saves.scratch(name)
        copy.write_bytes(content)
        try:
            self._files.stored(opening, opening.path, copy, None)
        finally:
            copy.unlink()
        self._files.tell_operations()

    def _with_faults(self, call: Call, path: str, due: list[tuple[Op, Any]]) -> Request:
        delay_s, loses = 0.0, None
        for op, fault in due:
            match fault:
                case FailUpload():
                    self._faults.record(op, path, "raised", f"raised `{fault.error}`")
                    raise _refused(call.operation, fault.error)
                case SlowUpload(delay_s=float(wait_s)):
                    self._faults.record(op, path, "delayed", f"waits {wait_s:g} s")
                    delay_s += wait_s
                case LoseAnswer():
                    loses = self._losing(op, fault, path)
                case DelayedVisibility():
                    self._faults.hide(op, path)
                case _:  # refused for such a place when the plan was made
                    pass
        return Request(call.operation, call.params, loses=loses, delay_s=delay_s)

    def _losing(self, op: Op, fault: LoseAnswer, path: str) -> Loses:
        left = iter(range(fault.times))

        def loses() -> bool:
            if next(left, None) is None:
                return False
            self._faults.record(op, path, "raised", "did it, and its answer was lost")
            return True

        return loses

    def _sent(self, call: Call) -> Steps:
        """Return the bytes that a call sends, if they are at hand."""
        yield from ()
        body = call.params.get("Body")
        return bytes(body) if isinstance(body, bytes | bytearray | memoryview) else None

    # -- reading -----------------------------------------------------------------------------

    def _gets(self, call: Call) -> Steps:
        answer = yield call.request
        try:
            size, tag = _size_of(answer), str(answer.get("ETag"))
            is_to_look = self._files.opened.is_reading and (call.path, tag) not in self._read
            if is_to_look and self._saves.has("size", size):
                self._read.add((call.path, tag))
                content = yield from self._content(call.path)
                if content is not None:
                    self._is_read(call.path, content)
        except InjectedError:
            raise
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the job's call
            self._failed("load", error)
        return answer

    def _is_read(self, path: str, content: bytes) -> None:
        """Look at an object that is being read; stop at an op inside its load."""
        digest = stream_digest(io.BytesIO(content))
        self._guarded("load", lambda: self._files.loads.reading_bytes(path, digest))

    def _content(self, path: str) -> Steps:
        """Return the bytes of an object, as the store has them; None where that is too many."""
        bucket, key = bucket_and_key(path)
        where = {"Bucket": bucket, "Key": key}
        try:
            head = yield Request("HeadObject", where)
            if head["ContentLength"] > WHOLE_MAX:
                return None
            answer = yield Request("GetObject", where, reads=True)
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the job's call
            self._failed("files", error)
            return None
        return answer["Body"]

    def _lists(self, call: Call) -> Steps:
        """Make a listing, without the objects that a fault hides and folders that hold no other."""
        answer = yield call.request
        found = answer.get("Contents")
        if found:
            answer["Contents"] = [
                one for one in found if not self._is_hidden(object_path(call.bucket, one["Key"]))
            ]
        for folder in list(answer.get("CommonPrefixes", ())):
            if (yield from self._is_hidden_whole(call.bucket, folder["Prefix"])):
                answer["CommonPrefixes"].remove(folder)
        if "KeyCount" in answer:
            left = (answer.get(part, ()) for part in ("Contents", "CommonPrefixes"))
            answer["KeyCount"] = sum(map(len, left))
        return answer

    def _is_hidden_whole(self, bucket: str, prefix: str) -> Steps:
        where = object_path(bucket, prefix)
        hidden = [path for path in self._faults.hidden() if path.startswith(where)]
        if not hidden:
            return False
        most = len(hidden) + 1
        inside = yield Request(
            "ListObjectsV2", {"Bucket": bucket, "Prefix": prefix, "MaxKeys": most}
        )
        names = {object_path(bucket, one["Key"]) for one in inside.get("Contents", ())}
        return names <= set(hidden) and all(map(self._is_hidden, hidden))

    def _is_hidden(self, path: str) -> bool:
        op = self._faults.turned_away(path)
        if op is not None:
            self._faults.record(op, path, "raised", "was not in a listing yet")
        return op is not None


def _size_of(answer: Mapping[str, Any]) -> int:
    """Return the bytes of the whole object, of which the answer may have a part."""
    whole = str(answer.get("ContentRange", "")).rpartition("/")[2]
    return int(whole) if whole.isdigit() else int(answer["ContentLength"])


def _refused(operation: str, text: str) -> Exception:
    from botocore.exceptions import ClientError

    answer = {
        "Error": {"Code": "AccessDenied", "Message": text},
        "ResponseMetadata": {"HTTPStatusCode": 403},
    }
    error: Exception = ClientError(answer, operation)
    return error
