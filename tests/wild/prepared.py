"""Files that public scripts expect to find: data that they would download, made here instead."""

import importlib
import json
import random
import string
from array import array
from collections.abc import Callable
from pathlib import Path

REVISION = "0" * 40
LINES, CHARACTERS = 40, 32
WORDS = [f"word{number}" for number in range(40)]
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


def characters(work: Path) -> None:
    """Write a text of words in no order."""
    draw = random.Random(0)
    lines = ["".join(draw.choices("abcde ", k=CHARACTERS)) for _ in range(LINES)]
    (work / "input.txt").write_text("\n".join(lines), encoding="utf-8")


def tokens(work: Path) -> None:
    """Write numbers below 64 for training and for validation, two bytes each."""
    folder, draw = work / "data/tiny", random.Random(0)
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("train", "val"):
        numbers = array("H", (draw.randrange(64) for _ in range(4096)))
        (folder / f"{part}.bin").write_bytes(numbers.tobytes())


def wikitext(work: Path) -> None:
    """Write as many words as make 4040 pieces of 35, where Lightning keeps its WikiText-2."""
    draw, words = random.Random(0), [f"w{number}" for number in range(50)]
    lines = (" ".join(draw.choices(words, k=34)) for _ in range(4041))
    (work / "data").mkdir(exist_ok=True)
    (work / "data/wikitext-2.txt").write_text("\n".join(lines), encoding="utf-8")


def gpt(work: Path) -> None:
    """Write a GPT-2 of one small layer, and a tokenizer of words."""
    folder = work / "gpt"
    if folder.exists():
        return
    transformers, tokenizers = map(importlib.import_module, ("transformers", "tokenizers"))
    marks = ["<unk>", "<s>", "</s>", "<pad>"]
    known = {word: number for number, word in enumerate([*marks, *WORDS])}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="<unk>"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    named = dict(zip(("unk_token", "bos_token", "eos_token", "pad_token"), marks, strict=True))
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, model_max_length=64, **named
    )
    tokenizer.save_pretrained(folder)
    config = transformers.GPT2Config(
        vocab_size=len(known), n_positions=64, n_embd=16, n_layer=1, n_head=2
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)


def corpus(work: Path) -> None:
    """Write a folder with a text of some lines of words."""
    draw = random.Random(0)
    (work / "corpus").mkdir(exist_ok=True)
    lines = (" ".join(draw.choices(WORDS, k=16)) for _ in range(48))
    (work / "corpus/train.txt").write_text("\n".join(lines), encoding="utf-8")


def pairs(work: Path) -> None:
    """Write instructions and answers."""
    draw = random.Random(0)
    said = [" ".join(draw.choices(WORDS, k=6)) for _ in range(96)]
    rows = [
        {"instruction": a, "input": "", "output": b}
        for a, b in zip(said[:48], said[48:], strict=True)
    ]
    (work / "pairs.json").write_text(json.dumps(rows), encoding="utf-8")


def talks(work: Path) -> None:
    """Write conversations of one question and one answer."""
    draw = random.Random(0)
    rows = []
    for number in range(48):
        said = [" ".join(draw.choices(WORDS, k=6)) for _ in range(2)]
        turns = [{"from": "human", "value": said[0]}, {"from": "gpt", "value": said[1]}]
        rows.append({"id": str(number), "conversations": turns})
    (work / "talks.json").write_text(json.dumps(rows), encoding="utf-8")


PREPARED: dict[str, Callable[[Path], None]] = {
    "bert-base-cased": tiny_bert,
    "ml-100k": films,
    "cifar10": cifar10,
    "characters": characters,
    "tokens": tokens,
    "wikitext": wikitext,
    "gpt": gpt,
    "corpus": corpus,
    "pairs": pairs,
    "talks": talks,
}
