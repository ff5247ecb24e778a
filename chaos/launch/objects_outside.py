"""The objects that a run has put into a store, removed at its end: those that it made, no others.

An object goes if the store said before the run's first request on it that there was none. An
upload in parts is ended if the run itself began it, by its id. Where the store cannot be asked,
what the run made stays, and is recorded so.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from chaos.launch.node_disk import find_disks
from chaos.model.objects import is_store_object, split_object_path
from chaos.probe.address import RunAddress
from chaos.probe.object_ledger import STORES
from chaos.probe.stores import pause_watch
from chaos.probe.write_ledger import LedgerLine


def remove_objects(run: RunAddress, lines: Iterable[LedgerLine], paths: Iterable[str]) -> set[str]:
    """Remove a run's own objects, and what it has sent of unfinished ones; return what is gone."""
    begun_uploads = sorted({line.path for line in lines if line.how == "begun"})
    objects = sorted(filter(is_store_object, paths))
    if not objects and not begun_uploads:
        return set()
    with pause_watch():
        clients = dict(_clients(run))
        for path in begun_uploads:
            _abort_upload(clients, path)
        return {path for path in objects if _remove_object(clients, path)}


def _clients(run: RunAddress) -> Iterator[tuple[str, Any]]:
    """Yield a client for each bucket that the run's processes wrote to."""
    for disk in find_disks(run):
        try:
            store_lines = (
                Path(disk.ledger.with_name(STORES)).read_text(encoding="utf-8").splitlines()
            )
        except FileNotFoundError:
            continue
        for line in dict.fromkeys(store_lines):
            fields = json.loads(line)
            yield fields["bucket"], _client(fields)


def _client(fields: dict[str, Any]) -> Any:
    from botocore import UNSIGNED
    from botocore.config import Config
    from botocore.session import get_session

    access, secret, token = fields["keys"] or (None, None, None)
    style = {} if fields["style"] is None else {"s3": {"addressing_style": fields["style"]}}
    unsigned = {} if fields["keys"] else {"signature_version": UNSIGNED}
    return get_session().create_client(
        "s3",
        endpoint_url=fields["endpoint_url"],
        region_name=fields["region_name"],
        aws_access_key_id=access,
        aws_secret_access_key=secret,
        aws_session_token=token,
        config=Config(**style, **unsigned),
    )


def _remove_object(clients: dict[str, Any], path: str) -> bool:
    bucket, key = split_object_path(path)
    try:
        clients[bucket].delete_object(Bucket=bucket, Key=key)
    except Exception:  # noqa: BLE001 - whatever keeps it there, it is recorded as left
        return False
    return True


def _abort_upload(clients: dict[str, Any], path: str) -> None:
    bucket, key = split_object_path(path)
    key, _, upload = key.rpartition("?")
    try:
        clients[bucket].abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload)
    except Exception:  # noqa: BLE001 - it was completed, most often
        return
