"""Audits at their defaults say of jobs that save into a bucket what is true of them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.objects.store import BUCKET, client_of, coast, empty, keys
from tests.objects.truth import JOBS, RANKS
from tests.s3 import S3, WHY_NOT, is_there

pytestmark = [
    pytest.mark.skipif(not is_there(), reason=WHY_NOT),
    pytest.mark.timeout(600),
    pytest.mark.nightly,
]
# What each of the wrong ones is found at.
FOUND = {
    "murre_eggs": "murres/newest.pt is to be put (wrong)",
    "dunlin_tides": "tide-*.pt is to be put (wrong)",
    "puffin_burrows": "the parts of puffins/model.pt are sent (wrong)",
    "avocet_bills": "answer of a put lost",
}
RIGHT = [name for name in JOBS if name not in FOUND]  # `eider_nests` needs a late listing


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with coast() as server:
        yield server


def audited(s3: S3, name: str, folder: Path) -> tuple[dict[str, Any], str]:
    """Return the card of an audit, and what was printed."""
    empty(s3)
    client_of(s3).put_object(Bucket=BUCKET, Key="theirs", Body=b"of last week")
    words = ["audit", str(JOBS[name]), "--no-confirm", "--reports", str(folder)]
    if name in RANKS:
        words += ["--launcher", "torchrun", "--workers", str(RANKS[name])]
    command = [sys.executable, "-m", "chaos", *words]
    env = {**os.environ, **s3.env}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    (card,) = folder.glob("audits/*/audit.json")
    return json.loads(card.read_bytes()), done.stdout


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_job_passes_and_the_store_is_as_it_was(s3: S3, tmp_path: Path, name: str) -> None:
    card, said = audited(s3, name, tmp_path)

    assert card["verdict"]["word"] == "pass", said
    assert keys(s3) == ["theirs"]


@pytest.mark.parametrize("name", FOUND)
def test_a_wrong_job_is_found_at_its_request(s3: S3, tmp_path: Path, name: str) -> None:
    card, said = audited(s3, name, tmp_path)

    assert card["verdict"]["word"] == "fail", said
    assert FOUND[name] in said
    assert keys(s3) == ["theirs"]
