"""Samples that are trained again after a restart, in a pass over the data that had gone on.

One question and one sentence for a run beside its baseline, and for a real training whose earlier
start is all that there is.
"""

from collections.abc import Collection, Sequence

SAMPLES_MIN = 8
MOST = 0.9


def describe_repeated_samples(
    resumed_samples: Sequence[str],
    passed_samples: Collection[str],
    expected_samples: Sequence[str],
    *,
    source_text: str,
) -> str | None:
    """Return in words that most samples since a restart had been trained before the save, or None.

    `resumed_samples` are the samples since then, `passed_samples` those of the pass over the data
    before the save. `expected_samples` are those that followed where there was no restart. Only
    where these are new in the pass: then no pass was over, as far as passes can be seen, and
    samples are not drawn anew each time.
    """
    if min(len(resumed_samples), len(expected_samples)) < SAMPLES_MIN or not passed_samples:
        return None
    if any(sample in passed_samples for sample in expected_samples):
        return None
    repeated_count = sum(sample in passed_samples for sample in resumed_samples)
    if repeated_count < MOST * len(resumed_samples):
        return None
    return (
        f"{repeated_count} of {len(resumed_samples)} samples since the restart had been trained "
        f"before the save; "
        f"{source_text}, others followed"
    )
