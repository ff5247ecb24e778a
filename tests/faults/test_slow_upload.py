"""A slow upload has one pace."""

from typing import Any

import pytest
from pydantic import ValidationError

from chaos.faults.slow_upload import SlowUpload


@pytest.mark.parametrize("pace", [{}, {"bytes_per_s": 1, "delay_s": 1.0}])
def test_a_slow_upload_has_one_pace(pace: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="either bytes_per_s or delay_s"):
        SlowUpload(**pace)
