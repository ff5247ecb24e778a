"""What a script does, and raises, after its `fit()`."""

from chaos.check.ending import find_ending
from chaos.model import event as ev
from tests.check.story import Story, Strike
from tests.check.tamper import changed, result_on, told

KILLED = Story((Strike(2, 3, 1),))


def test_what_a_script_does_with_the_result_is_no_part_of_the_training() -> None:
    history = changed(KILLED.history(), ev.DriverExited, code=1)

    assert result_on("outcome", KILLED, history).status == "pass"
    assert find_ending(history).late_failure is not None


def test_what_a_script_raises_after_fit_is_told_and_not_judged() -> None:
    raised = ev.ScriptRaised(error="NeedsClusterError", message="the job uses `ray.remote`")
    history = told(KILLED.history(), raised, before=ev.DriverExited)

    assert result_on("outcome", KILLED, history).status == "pass"
    assert "raised NeedsClusterError: the job uses" in (find_ending(history).late_failure or "")
