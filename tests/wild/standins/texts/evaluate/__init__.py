"""Stand-in for Hugging Face's evaluate: one measure, the share of right answers."""

from typing import Any


class Accuracy:
    """What was predicted and what was right, until it is computed."""

    def __init__(self) -> None:
        self.right: list[bool] = []

    def add_batch(self, *, predictions: Any, references: Any) -> None:
        """Take in one batch."""
        self.right += [bool(p == r) for p, r in zip(predictions, references, strict=True)]

    def compute(self, **batch: Any) -> dict[str, float]:
        """Return the measure of what was taken in, and of one batch more, and begin anew."""
        if batch:
            self.add_batch(**batch)
        share = sum(self.right) / len(self.right)
        self.right = []
        return {"accuracy": share}


def load(path: str, config_name: str | None = None) -> Accuracy:
    """Return the measure of a data set, whichever it is."""
    return Accuracy()
