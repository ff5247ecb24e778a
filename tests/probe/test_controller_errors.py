"""An error of chaos's own code in Ray's controller is told from harm and from Ray's errors."""

from concurrent.futures import Future
from dataclasses import dataclass

import pytest
from ray.exceptions import RayActorError

from chaos.errors import NeedsClusterError
from chaos.launch.forked import core
from chaos.launch.forked.reports import PendingReports
from chaos.launch.raytrain.compat import find_chaos_error
from chaos.launch.raytrain.fit import is_storage_redirected


@dataclass
class ControllerError:
    """As much of Ray's as is asked for."""

    controller_failure: Exception


def raised_by(act: object) -> ControllerError:
    with pytest.raises(Exception) as seen:  # noqa: PT011 - whatever it is
        act()  # type: ignore[operator]
    assert isinstance(seen.value, Exception)
    return ControllerError(seen.value)


def test_a_mistake_of_ours_is_ours() -> None:
    told = find_chaos_error(raised_by(lambda: PendingReports().hides_errors({0: None}, 0)))

    assert told is not None
    assert told.startswith("AttributeError")
    assert find_chaos_error(raised_by(lambda: is_storage_redirected(None, None))) is not None  # type: ignore[arg-type]


def fails(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("error", [AttributeError("of the script"), RayActorError()])
def test_what_others_raise_is_theirs(error: Exception) -> None:
    assert find_chaos_error(raised_by(lambda: fails(error))) is None
    ref: core.Ref = core.Ref(Future())
    ref.future.set_exception(error)
    assert find_chaos_error(raised_by(lambda: core.get([ref]))) is None


def test_what_is_raised_on_purpose_is_no_mistake() -> None:
    assert (
        find_chaos_error(raised_by(lambda: fails(NeedsClusterError.from_feature("a task")))) is None
    )
    assert find_chaos_error(None) is None
