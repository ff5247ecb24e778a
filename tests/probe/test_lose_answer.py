"""An answer of a store is lost, and the object is there."""

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from chaos.faults.lose_answer import LoseAnswer
from chaos.model.event import (
    FileSaved,
)
from tests.objects.store import BUCKET
from tests.probe.opening_rank import own as own  # noqa: PLC0414 - a fixture
from tests.probe.saving_rank import New
from tests.probe.saving_rank import new as new  # noqa: PLC0414 - a fixture
from tests.probe.store_objects import effects, in_training, read, state
from tests.probe.store_objects import s3 as s3  # noqa: PLC0414 - a fixture
from tests.probe.store_objects import store as store  # noqa: PLC0414 - a fixture
from tests.probe.wrapping import being
from tests.s3 import WHY_NOT, is_there

pytestmark = [pytest.mark.skipif(not is_there(), reason=WHY_NOT), pytest.mark.usefixtures("own")]


def test_an_answer_is_lost_and_the_object_is_there(new: New, tmp_path: Path, store: Any) -> None:
    rank = in_training(new, tmp_path, LoseAnswer())

    with being(0), pytest.raises(ClientError, match="PreconditionFailed"):
        store.put_object(Bucket=BUCKET, Key="a", Body=state(), IfNoneMatch="*")

    assert read(store, "a") == state()
    assert effects(tmp_path) == ["raised"]
    assert not rank.of(FileSaved)  # the client says that it is not
