"""Places are chosen by any part of their names."""

import pytest

from chaos.audit.site_category import SITE_CATEGORIES, select_site_categories
from chaos.errors import UsageError


def test_places_are_chosen_by_any_part_of_their_names() -> None:
    assert select_site_categories([]) == SITE_CATEGORIES
    assert select_site_categories(["upload"]) == ("upload begins", "upload ends")
    assert select_site_categories(["node lost; mid-epoch"]) == ("mid-epoch", "node lost")


def test_a_group_that_does_not_exist_is_refused_with_the_ones_that_do() -> None:
    with pytest.raises(UsageError, match=r"no group of places is called 'lunch'.*mid-epoch"):
        select_site_categories(["lunch"])
