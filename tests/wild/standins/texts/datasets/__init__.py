"""Stand-in for Hugging Face's datasets: pairs of sentences, alike or not."""

import random
from typing import Any

WORDS = ("a", "bank", "buys", "drops", "firm", "in", "may", "rises", "sells", "share", "the", "two")
PARTS = {"train": 256, "validation": 128, "test": 128}
LENGTH = 8


def load_dataset(path: str, name: str | None = None) -> dict[str, list[dict[str, Any]]]:
    """Return the parts of a data set of pairs; `label` is 1 where the two are alike."""
    draw = random.Random(f"{path}/{name}")
    return {part: [_pair(draw, index) for index in range(n)] for part, n in PARTS.items()}


def _pair(draw: random.Random, index: int) -> dict[str, Any]:
    first = draw.choices(WORDS, k=LENGTH)
    label = draw.randrange(2)
    second = first if label else draw.choices(WORDS, k=LENGTH)
    sentences = {"sentence1": " ".join(first), "sentence2": " ".join(second)}
    return {**sentences, "label": label, "idx": index}
