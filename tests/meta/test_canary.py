"""The canary lists what another Ray changed, and takes its names from what chaos imports."""

from tests.tools.canary import differences, imported

OURS = {
    "same": ["(a)", "1"],
    "gone": ["(a)", "1"],
    "takes": ["(a)", "1"],
    "body": ["(a)", "1"],
    "awaited": None,
}
THEIRS = {
    "same": ["(a)", "1"],
    "gone": None,
    "takes": ["(a, b)", "2"],
    "body": ["(a)", "2"],
    "awaited": ["(a)", "1"],
}


def test_each_difference_is_named_once() -> None:
    assert dict(differences(OURS, THEIRS)) == {
        "gone": "is gone",
        "takes": "takes (a, b) instead of (a)",
        "body": "has another body",
        "awaited": "is there now",
    }


def test_names_are_those_that_chaos_imports() -> None:
    assert ("ray._raylet", "GcsClient") in set(imported())
