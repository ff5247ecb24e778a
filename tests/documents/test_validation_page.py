"""The page of the forecast beside real runs keeps what other settings have shown."""

from tests.tools.validate_forecast import BEGIN, END, page_with

PAGE = f"before\n\n{BEGIN}\n\nNone yet.\n\n{END}\n\nafter\n"
KILLS = "### Workers are killed\n\n| figure |"
NODES = "### Nodes are lost, and the job waits for new ones\n\n| figure |"


def test_the_first_table_takes_the_place_of_the_words_that_there_is_none() -> None:
    assert page_with(PAGE, [NODES]) == f"before\n\n{BEGIN}\n\n{NODES}\n\n{END}\n\nafter\n"


def test_another_setting_stays_and_the_same_one_is_replaced() -> None:
    both = page_with(page_with(PAGE, [f"{NODES} old"]), [KILLS])

    assert page_with(both, [NODES]) == page_with(PAGE, [KILLS, NODES])
