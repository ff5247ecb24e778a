"""Files that public scripts expect to find: data that they would download, made here instead."""

import importlib
import random
import string
from collections.abc import Callable
from pathlib import Path

REVISION = "0" * 40
RATINGS, USERS, ITEMS = 2000, 50, 80


def tiny_bert(work: Path) -> None:
    """Write a BERT of one small layer, and its words, where the hub's client keeps downloads.

    A script is told of that place by HF_HOME.
    """
    cache = work / "huggingface/hub/models--bert-base-cased"
    folder = cache / "snapshots" / REVISION
    if folder.exists():
        return
    (cache / "refs").mkdir(parents=True)
    (cache / "refs/main").write_text(REVISION, encoding="utf-8")
    transformers = importlib.import_module("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [*string.ascii_lowercase, *(f"##{letter}" for letter in string.ascii_lowercase)]
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join([*marks, *letters]), encoding="utf-8")
    tokenizer = transformers.BertTokenizerFast(str(folder / "vocab.txt"))
    config = transformers.BertConfig(
        vocab_size=len(marks) + len(letters), intermediate_size=32, num_labels=2, **sizes
    )
    tokenizer.save_pretrained(folder)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)


def films(_: Path) -> None:
    """Write ratings of films by users, and the films' names, as if they had been unpacked."""
    root = Path("/mnt/cluster_storage/rec_sys_tutorial")
    folder = root / "ml-100k"
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)
    rated = (
        (draw.randrange(1, USERS), draw.randrange(1, ITEMS), draw.randrange(1, 6))
        for _ in range(RATINGS)
    )
    lines = [f"{user}\t{item}\t{rating}\t880000000" for user, item, rating in rated]
    (folder / "u.data").write_text("\n".join(lines), encoding="utf-8")
    names = [f"{item}|Film {item}" for item in range(1, ITEMS)]
    (folder / "u.item").write_text("\n".join(names), encoding="latin-1")
    (root / "ml-100k.zip").touch()


def cifar10(_: Path) -> None:
    """Make the folder that tells a script that its images are there."""
    Path("/nrs/ml_datasets/cifar10/cifar-10-batches-py").mkdir(parents=True, exist_ok=True)


PREPARED: dict[str, Callable[[Path], None]] = {
    "bert-base-cased": tiny_bert,
    "ml-100k": films,
    "cifar10": cifar10,
}
