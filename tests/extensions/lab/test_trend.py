from chaos.extensions.lab.trend import render_trend
from tests.report.past import past_run, past_suite
from tests.report.test_html import parsed


def test_a_trend_names_what_fails_newly_since_its_own_last_run() -> None:
    suites = [
        past_suite(past_run("a"), past_run("b")),
        past_suite(past_run("b", "unexpected"), past_run("a", "skipped")),
        past_suite(past_run("a", "unexpected"), past_run("b", "unexpected")),
    ]
    page = render_trend([(str(number), suite) for number, suite in enumerate(suites)])
    (found,) = parsed(page).of_class("changed")

    assert [item.words for item in found.all("li")] == [
        "✗ newly failing a",
        "1 scenario failed then as well.",
    ]


def test_the_history_of_suites_stands_on_what_ran() -> None:
    good, over = past_run("killed"), past_run("needs more", "skipped")

    page = render_trend([("1", past_suite(good, over)), ("2", past_suite(good, over))])

    assert "newest suite: 1 of 1 run as expected, as in the 1 before it" in page
    assert "skipped" in page
