"""The objects that a run has put into a store, removed at its end: those that it made, no others.

An object goes if the store said before the run's first request on it that there was none. An
upload in parts is ended if the run itself began it, by its id. Where the store cannot be asked,
what the run made stays, and is recorded so.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from chaos.launch.node_disk import disks
from chaos.model.objects import bucket_and_key, is_object
from chaos.probe.address import RunAddress
from chaos.probe.stores import quietly
from chaos.probe.written import Written
from chaos.probe.written_objects import STORES


def remove_objects(run: RunAddress, lines: Iterable[Written], paths: Iterable[str]) -> set[str]:
    """Remove a run's own objects, and what it has sent of unfinished ones; return what is gone."""
    begun = sorted({line.path for line in lines if line.how == "begun"})
    made = sorted(filter(is_object, paths))
    if not made and not begun:
        return set()
    with quietly():
        clients = dict(_clients(run))
        for path in begun:
            _abort(clients, path)
        return {path for path in made if _is_removed(clients, path)}


def _clients(run: RunAddress) -> Iterator[tuple[str, Any]]:
    """Yield a client for each bucket that the run's processes wrote to."""
    for disk in disks(run):
        try:
            told = Path(disk.ledger.with_name(STORES)).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            continue
        for line in dict.fromkeys(told):
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


def _is_removed(clients: dict[str, Any], path: str) -> bool:
    bucket, key = bucket_and_key(path)
    try:
        clients[bucket].delete_object(Bucket=bucket, Key=key)
    except Exception:  # noqa: BLE001 - whatever keeps it there, it is recorded as left
        return False
    return True


def _abort(clients: dict[str, Any], path: str) -> None:
    bucket, key = bucket_and_key(path)
    key, _, upload = key.rpartition("?")
    try:
        clients[bucket].abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload)
    except Exception:  # noqa: BLE001 - it was completed, most often
        return
