"""What the page says of a resume."""

import pytest

from chaos.model.diagnosis import Part, Resume
from chaos.report.sections import build_resume_table


@pytest.mark.parametrize(
    ("standing", "sound", "tone", "word"),
    [
        ("restored", True, "good", "sound"),
        ("not restored", False, "bad", "broken"),
        ("not compared", True, "open", "unknown"),
    ],
)
def test_a_resume_of_which_nothing_could_be_compared_is_not_green(
    standing: str, sound: bool, tone: str, word: str
) -> None:
    part = Part.model_validate(
        {
            "rank": 0,
            "component": "model",
            "group": "model",
            "standing": standing,
            "matters": not sound,
        }
    )
    told = build_resume_table(
        Resume(
            attempt=1, epoch=1, step=0, checkpoint=None, sound=sound, sentence="s", parts=(part,)
        )
    )

    assert (told.tone, told.word) == (tone, word)
