"""Samples that are trained again after a restart, in a pass over the data that had gone on.

One question and one sentence for a run beside its baseline, and for a real training whose earlier
start is all that there is.
"""

from collections.abc import Collection, Sequence

SAMPLES_MIN = 8
MOST = 0.9


def describe_samples_trained_again(
    resumed: Sequence[str], passed: Collection[str], expected: Sequence[str], *, where: str
) -> str | None:
    """Return in words that most samples since a restart had been trained before the save, or None.

    `resumed` are the samples since then, `passed` those of the pass over the data before the save.
    `expected` are those that followed `where` there was no restart. Only where these are new in the
    pass: then no pass was over, as far as passes can be seen, and samples are not drawn anew each
    time.
    """
    if min(len(resumed), len(expected)) < SAMPLES_MIN or not passed:
        return None
    if any(sample in passed for sample in expected):
        return None
    again = sum(sample in passed for sample in resumed)
    if again < MOST * len(resumed):
        return None
    return (
        f"{again} of {len(resumed)} samples since the restart had been trained before the save; "
        f"{where}, others followed"
    )
