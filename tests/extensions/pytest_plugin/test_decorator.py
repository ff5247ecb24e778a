"""A decorated function is a scenario; a mistake in it is shown at its line."""

import pytest

import chaos.extensions.pytest_plugin.decorator
import chaos.extensions.pytest_plugin.file  # noqa: F401
from chaos.extensions.pytest_plugin.options import SCENARIO
from chaos.model.trigger import AtStep
from tests.extensions.pytest_plugin.collection import collected
from tests.extensions.pytest_plugin.conftest import PLUGIN, project

pytest_plugins = ["pytester"]

OF_PARAMETERS = """
import chaos, pytest
from chaos import kill_worker

@chaos.scenario(script="tiny.py", workers=1, faults=lambda step: [kill_worker(epoch=1, step=step)])
@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize("step", [1, 2])
def test_killed(step, name): pass
"""


def test_faults_may_be_a_function_of_the_parameters_of_a_test(pytester: pytest.Pytester) -> None:
    project(pytester.path, {"test_first.py": OF_PARAMETERS})

    items, _ = pytester.inline_genitems(*PLUGIN)
    triggers = [item.stash[SCENARIO].faults[0].at for item in items]
    steps = [trigger.step for trigger in triggers if isinstance(trigger, AtStep)]

    assert sorted(steps) == [1, 1, 2, 2]


@pytest.mark.parametrize("parameters", ["step, epoch=1", "epoch=1, **others", "step, *others"])
def test_a_function_of_faults_may_have_defaults(pytester: pytest.Pytester, parameters: str) -> None:
    step = "others['step']" if "**" in parameters else "step"
    source = OF_PARAMETERS.replace("lambda step", f"lambda {parameters}")
    source = source.replace("step=step", f"step={step}")
    project(pytester.path, {"test_first.py": source})

    items, _ = pytester.inline_genitems(*PLUGIN)
    triggers = [item.stash[SCENARIO].faults[0].at for item in items]

    steps = [trigger.step for trigger in triggers if isinstance(trigger, AtStep)]
    assert sorted(steps) == [1, 1, 2, 2]


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
        (
            "script='tiny.py', workers=1, faults=lambda step, rank=0: []",
            "test_x.py:2: the function in faults needs step. The parameters of the test are: none.",
        ),
    ],
)
def test_a_mistake_in_a_decorator_is_shown_at_its_line(
    pytester: pytest.Pytester, decorator: str, said: str
) -> None:
    test = f"import chaos\n@chaos.scenario({decorator})\ndef test_x(): pass\n"

    result = collected(pytester, {"test_x.py": test})

    result.stdout.fnmatch_lines(["*ERROR collecting test_x.py*", said])
    assert "Traceback" not in result.stdout.str()


def test_a_wrong_parameter_of_a_function_of_faults_is_named_with_the_right_ones(
    pytester: pytest.Pytester,
) -> None:
    source = OF_PARAMETERS.replace("lambda step", "lambda stp").replace("step=step", "step=stp")

    result = collected(pytester, {"test_first.py": source})

    said = "test_first.py:5: the function in faults needs stp. The parameters of the test are: "
    result.stdout.fnmatch_lines(["*ERROR collecting test_first.py*", f"{said}step, name."])
    assert "Traceback" not in result.stdout.str()
