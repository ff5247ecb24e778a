"""The objects that this process writes and removes, recorded as its files are.

Whether an object was there before is asked of the store, once for each. What a client knows of its
store is kept for the harness, which removes at the run's end what the run has made: in a file
that no other user can read, for it may hold keys, and which goes with the node's folder.
"""

import json
import os
from pathlib import Path
from typing import Any, Protocol

from chaos.model.objects import split_object_path
from chaos.probe.stores import Around, ClientCall, Steps, StoreRequest

_PUTS = ("PutObject", "CopyObject", "CompleteMultipartUpload")
_REMOVES = ("DeleteObject", "DeleteObjects")
_BEGINS = "CreateMultipartUpload"
STORES = "stores.jsonl"  # beside a ledger
_GONE = 404
_recorded_stores: set[tuple[Path, bytes]] = set()


class ObjectLedger(Protocol):
    """The part of `WriteLedger` that concerns objects."""

    file: Path

    def check_write(self, path: str, effect: Any) -> None:
        """Raise if this harms what was there before."""

    def check_store(self, path: str) -> None:
        """Raise if the store is elsewhere, and may not be written to."""

    def find_put_effect(self, path: str) -> Any:
        """Return how an object was put before, None if it was not."""

    def record_write(self, path: str, effect: Any, *, is_output: bool) -> None:
        """Record that an object was put, or removed."""


def record_call(call: ClientCall, ledger: ObjectLedger | None, handle_call: Around) -> Steps:
    """Make a call by `handle_call`, and record what it does to objects; raise where it may not."""
    if ledger is None or call.operation not in (*_PUTS, *_REMOVES, _BEGINS):
        return (yield from handle_call(call))
    for path in call.paths:
        if not call.is_local:
            ledger.check_store(path)
        yield from _record_object(call, path, ledger)
    answer = yield from handle_call(call)
    if call.operation == _BEGINS:
        ledger.record_write(f"{call.path}?{answer['UploadId']}", "begun", is_output=True)
    return answer


def _record_object(call: ClientCall, path: str, ledger: ObjectLedger) -> Steps:
    """Record one object, if what it was before is not known."""
    is_removal = call.operation in _REMOVES
    if not is_removal and (effect := ledger.find_put_effect(path)) is not None:
        ledger.record_write(path, effect, is_output=False)  # it may have become output since
        return
    has_object = yield from _ask_existence(path)
    if has_object is not False:  # what cannot be asked for is spared
        ledger.check_write(path, "removed" if is_removal else "replaced")
    if call.operation == _BEGINS:
        _keep_store(call, ledger.file.parent)
    elif has_object is not False:
        ledger.record_write(path, "removed" if is_removal else "replaced", is_output=False)
    elif not is_removal:
        _keep_store(call, ledger.file.parent)
        ledger.record_write(path, "created", is_output=False)


def _ask_existence(path: str) -> Steps:
    """Ask whether a store has an object; None where it does not tell."""
    bucket, key = split_object_path(path)
    try:
        yield StoreRequest("HeadObject", {"Bucket": bucket, "Key": key})
    except Exception as error:  # noqa: BLE001 - a client's own, of whatever library
        answer: Any = getattr(error, "response", None) or {}
        status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return False if status == _GONE else None
    return True


def _keep_store(call: ClientCall, folder: Path) -> None:
    """Keep the way to a store, once, for the run's end."""
    client, config = call.client, call.client.meta.config
    keys = getattr(client._request_signer, "_credentials", None)  # noqa: SLF001 - it has no public name
    fields = {
        "bucket": call.bucket,
        "endpoint_url": call.endpoint,
        "region_name": client.meta.region_name,
        "style": (getattr(config, "s3", None) or {}).get("addressing_style"),
        "keys": None if keys is None else [keys.access_key, keys.secret_key, keys.token],
    }
    line = f"{json.dumps(fields)}\n".encode()
    if (folder, line) not in _recorded_stores:
        _recorded_stores.add((folder, line))
        fd = os.open(folder / STORES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)
