"""Files that public scripts expect to find: data that they would download, made here instead."""

import importlib
import json
import random
import string
import struct
import zlib
from array import array
from collections.abc import Callable
from pathlib import Path

REVISION = "0" * 40
LINES, CHARACTERS = 40, 32
WORDS = [f"word{number}" for number in range(40)]
RATINGS, USERS, ITEMS = 2000, 50, 80
SIDE = 32


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
    tokenizer = transformers.BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=64)
    config = transformers.BertConfig(
        vocab_size=len(marks) + len(letters), intermediate_size=32, **sizes
    )
    tokenizer.save_pretrained(folder)
    transformers.BertModel(config).save_pretrained(folder)


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
    transformers = importlib.import_module("transformers")
    config = transformers.GPT2Config(
        vocab_size=words(work / "gpt"), n_positions=64, n_embd=16, n_layer=1, n_head=2
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(work / "gpt")


def llama(work: Path) -> None:
    """Write the sizes of a Llama of one small layer, and a tokenizer of words."""
    config = importlib.import_module("transformers").LlamaConfig(
        vocab_size=words(work / "llama"),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    config.save_pretrained(work / "llama")


def words(folder: Path) -> int:
    """Write a tokenizer of words, and return how many it knows."""
    transformers, tokenizers = map(importlib.import_module, ("transformers", "tokenizers"))
    marks = ["<unk>", "<s>", "</s>", "<pad>"]
    known = {word: number for number, word in enumerate([*marks, *WORDS])}
    split = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="<unk>"))
    split.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    named = dict(zip(("unk_token", "bos_token", "eos_token", "pad_token"), marks, strict=True))
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=split, model_max_length=64, **named
    )
    tokenizer.save_pretrained(folder)
    return len(known)


def pictures(work: Path) -> None:
    """Write folders of pictures of noise, of five kinds, for training and for validation."""
    draw = random.Random(0)
    for part, count in (("train", 5), ("val", 2)):
        for kind in ("one", "two", "three", "four", "five"):
            folder = work / "pictures" / part / kind
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(count):
                (folder / f"{number}.png").write_bytes(png(draw, SIDE))


def png(draw: random.Random, side: int) -> bytes:
    """Return a picture of noise, each row of it unfiltered."""
    rows = b"".join(b"\0" + draw.randbytes(3 * side) for _ in range(side))
    sizes = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    made = b"\x89PNG\r\n\x1a\n"
    for kind, data in ((b"IHDR", sizes), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")):
        check = struct.pack(">I", zlib.crc32(kind + data))
        made += struct.pack(">I", len(data)) + kind + data + check
    return made


def unet(work: Path) -> None:
    """Write the sizes of a small network that takes noise away."""
    sizes = {"sample_size": 16, "block_out_channels": [8, 8], "layers_per_block": 1}
    blocks = {"down_block_types": ["DownBlock2D"] * 2, "up_block_types": ["UpBlock2D"] * 2}
    known = {"_class_name": "UNet2DModel", "norm_num_groups": 4, "attention_head_dim": 4}
    (work / "unet").mkdir(exist_ok=True)
    text = json.dumps({**known, **sizes, **blocks})
    (work / "unet/config.json").write_text(text, encoding="utf-8")


def clip(work: Path) -> None:
    """Write the sizes of a small network of images and texts."""
    seen = {"image_size": 32, "patch_size": 16, "layers": 1, "width": 32, "head_width": 16}
    read = {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}
    sizes = {"embed_dim": 16, "vision_cfg": seen, "text_cfg": read}
    text = json.dumps({"model_cfg": sizes, "preprocess_cfg": {}})
    (work / "clip").mkdir(exist_ok=True)
    (work / "clip/open_clip_config.json").write_text(text, encoding="utf-8")


def stories(work: Path) -> None:
    """Write numbers below 64 in three files, the first for validation."""
    folder, draw = work / "data/tok64", random.Random(0)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(3):
        tokens = array("H", (draw.randrange(64) for _ in range(4096)))
        (folder / f"data{number}.bin").write_bytes(tokens.tobytes())


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
    "llama": llama,
    "pictures": pictures,
    "unet": unet,
    "clip": clip,
    "stories": stories,
    "corpus": corpus,
    "pairs": pairs,
    "talks": talks,
}
