"""The form of a document."""

from pathlib import Path

import pytest

from chaos.cli.documents import Document
from chaos.errors import UsageError


def test_the_form_is_the_one_asked_for_or_that_of_the_file(tmp_path: Path) -> None:
    assert Document.parse(None, tmp_path / "a" / "x.xml", "junit").form == "junit"
    assert Document.parse("junit", tmp_path / "x", "junit").output == tmp_path / "x"
    assert Document.parse("text", None, "text").form is None
    assert Document.parse("json", None, "json").takes_stdout
    assert not (tmp_path / "a" / "x.xml").exists()  # that it can be written was tried
    (tmp_path / "kept.xml").write_text("as it was")
    Document.parse(None, tmp_path / "kept.xml", "junit")
    assert (tmp_path / "kept.xml").read_text() == "as it was"
    for form, file in ((None, "x.pdf"), ("html", "x.html")):
        with pytest.raises(UsageError):
            Document.parse(form, tmp_path / file, "json")  # type: ignore[arg-type]
