"""A record is changed by its fields' names, and a misspelt one is refused."""

import pytest

from chaos.model.scenario import Limits


def test_a_copy_has_the_new_values_and_the_first_one_stays() -> None:
    limits = Limits()

    assert limits.replace(run_s=7.0).run_s == 7.0
    assert limits.run_s == Limits().run_s


def test_a_name_that_is_no_field_is_refused() -> None:
    with pytest.raises(TypeError, match="Limits has no field run_sec"):
        Limits().replace(run_sec=7.0)
