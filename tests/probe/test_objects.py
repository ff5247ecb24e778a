"""The name of an object survives what a shell and paths do to it."""

from pathlib import Path

import pytest

from chaos.model.objects import (
    build_object_path,
    is_store_object,
    restore_object_name,
    split_object_path,
)
from tests.s3 import WHY_NOT, is_there

pytestmark = pytest.mark.skipif(not is_there(), reason=WHY_NOT)


def test_a_name_of_an_object_survives_what_a_shell_and_paths_do_to_it() -> None:
    name = build_object_path("coast", "a//b.pt")

    assert name == "s3://coast/a//b.pt"
    assert split_object_path(name) == ("coast", "a//b.pt")
    assert is_store_object(name)
    assert not is_store_object("/tmp/s3:/coast")
    assert restore_object_name(str(Path("s3://coast/a"))) == "s3://coast/a"
    assert restore_object_name("/data/run") == "/data/run"
    assert restore_object_name("run") == "run"
