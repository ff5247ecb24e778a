"""A mistake in a decorator is shown at its line."""

import pytest

import chaos.extensions.pytest_plugin.decorator
import chaos.extensions.pytest_plugin.file  # noqa: F401
from tests.extensions.pytest_plugin.collection import collected

pytest_plugins = ["pytester"]


@pytest.mark.parametrize(
    ("decorator", "said"),
    [
        ("workers=1", "test_x.py:2: job needs one of script, module, train_loop. It has none."),
        ("script='no.py', workers=1", "test_x.py:2: there is no script 'no.py'. *"),
        (
            "script='tiny.py', workers=1, faults=[chaos.kill_worker(epoch=1, step=1, rank=3)]",
            "test_x.py:2: rank must be below job.workers (1), got 3. Ranks count from 0.",
        ),
        (
            "script='tiny.py', workers=1, expect={'verdict': 'fine'}",
            "test_x.py:2: verdict must be one of pass, fail, inconclusive, got 'fine'",
        ),
        ("script='tiny.py', workers=1, expect={'verdict': 'fail', 'check': 'stat'}", "*'stat'*"),
    ],
)
def test_a_mistake_in_a_decorator_is_shown_at_its_line(
    pytester: pytest.Pytester, decorator: str, said: str
) -> None:
    test = f"import chaos\n@chaos.scenario({decorator})\ndef test_x(): pass\n"

    result = collected(pytester, {"test_x.py": test})

    result.stdout.fnmatch_lines(["*ERROR collecting test_x.py*", said])
    assert "Traceback" not in result.stdout.str()
