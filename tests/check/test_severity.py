"""The gravest severity is that of the whole."""

from chaos.model.severity import find_worst_severity


def test_the_gravest_severity_is_that_of_the_whole() -> None:
    assert find_worst_severity(["cosmetic", "wrong result", "not reproducible"]) == "wrong result"
    assert find_worst_severity(["cosmetic", "not reproducible", "work lost"]) == "work lost"
    assert find_worst_severity([]) is None
