"""Seeded harm to the bytes of a file: by bits, by lines, by tokens, by depth and by size."""

import random
from collections.abc import Callable, Sequence
from typing import TypeAlias

Mutation: TypeAlias = Callable[[bytes, random.Random], bytes]

ODD = (
    "null", "~", "yes", "NO", "-1", "0", "1e999", ".nan", "-.inf", "0x10", "1_000", "9" * 400,
    "''", '"', "'", "{", "[", "]", "}", ": ", "- ", "? ", "*a", "&a", "&a [*a, *a]", "<<: *a", "!!",
    "!!python/object/apply:os.system [id]", "!!binary aGk=", "%YAML 1.1", "---", "...", "|", ">-",
    "\t", "\r", "\x00", "\x1b[2J", "\x85", "\u2028", "\ufeff", "\ufffe", "é", "漢字", "😀", "$(id)",
    "{{1337*1337}}", "<script>", "../../x", "/dev/zero", "/dev/stdin", "1" * 30 + ".5", "12:30",
    "2021-12-11", "2021-99-99, 11:11:30, 5", "-5,add,a", "nan,remove,a", "{}", "[]", "true",
)  # fmt: skip
DEPTHS = (10, 39, 41, 1_000, 100_000)
BOMB = "a: &a [x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


def flip(data: bytes, draw: random.Random) -> bytes:
    """Flip a few bits."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 8))):
        if changed:
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def truncate(data: bytes, draw: random.Random) -> bytes:
    """Keep the beginning."""
    return data[: draw.randrange(len(data) + 1)]


def insert_token(data: bytes, draw: random.Random) -> bytes:
    """Put something odd somewhere."""
    at = draw.randrange(len(data) + 1)
    return data[:at] + draw.choice(ODD).encode() + data[at:]


def replace_value(data: bytes, draw: random.Random) -> bytes:
    """Put something odd in the place of what stands between two separators."""
    edges = [at for at, byte in enumerate(data) if byte in b' ,:\n[]{}"']
    if len(edges) < 2:
        return insert_token(data, draw)
    which = draw.randrange(len(edges) - 1)
    return data[: edges[which] + 1] + draw.choice(ODD).encode() + data[edges[which + 1] :]


def delete_span(data: bytes, draw: random.Random) -> bytes:
    """Take some bytes away."""
    at = draw.randrange(len(data) + 1)
    return data[:at] + data[at + draw.choice((1, 2, 5, 40)) :]


def delete_lines(data: bytes, draw: random.Random) -> bytes:
    """Take one line away, or some that follow each other."""
    lines = data.splitlines(keepends=True)
    at = draw.randrange(len(lines) or 1)
    return b"".join(lines[:at] + lines[at + draw.choice((1, 1, 3, 20)) :])


def repeat_line(data: bytes, draw: random.Random) -> bytes:
    """Have a line twice."""
    lines = data.splitlines(keepends=True)
    at = draw.randrange(len(lines) or 1)
    return b"".join(lines[:at] + lines[at : at + 1] * 2 + lines[at + 1 :])


def reorder_lines(data: bytes, draw: random.Random) -> bytes:
    """Exchange two lines."""
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        return data
    one, other = draw.sample(range(len(lines)), 2)
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def change_indent(data: bytes, draw: random.Random) -> bytes:
    """Move a line to the right or to the left."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return b" "
    at = draw.randrange(len(lines))
    lines[at] = draw.choice((b" ", b"  ", b"\t")) + lines[at] if draw.random() < 0.5 else (
        lines[at].lstrip()
    )  # fmt: skip
    return b"".join(lines)


def misspell(data: bytes, draw: random.Random) -> bytes:
    """Exchange two letters that stand side by side."""
    at = draw.randrange(max(1, len(data) - 1))
    return data[:at] + data[at + 1 : at + 2] + data[at : at + 1] + data[at + 2 :]


def nest(data: bytes, draw: random.Random) -> bytes:
    """Put something deep in the place of a value, or of everything."""
    depth = draw.choice(DEPTHS)
    first, last = draw.choice((("[", "]"), ('{"a":', "}"), ("{a: ", "}")))
    deep = (first * depth + "1" + last * draw.choice((0, depth))).encode()
    return deep if draw.random() < 0.3 else replace_once(data, deep, draw)


def enlarge(data: bytes, draw: random.Random) -> bytes:
    """Add some hundred kilobytes, or some megabytes."""
    unit = draw.choice((b"\n", b"- x\n", b"a: 1\n", b"#", b"x", b"[1, 2], ", b"0,add,a\n"))
    return data + unit * (draw.choice((200_000, 4_000_000)) // len(unit))


def bomb(data: bytes, draw: random.Random) -> bytes:
    """Add aliases that stand for millions of values."""
    return data + BOMB.encode() if draw.random() < 0.5 else BOMB.encode() + data


def not_text(data: bytes, draw: random.Random) -> bytes:
    """Put bytes there that are no UTF-8."""
    at = draw.randrange(len(data) + 1)
    return data[:at] + draw.choice((b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\x80")) + data[at:]


def replace_once(data: bytes, new: bytes, draw: random.Random) -> bytes:
    """Put something in the place of a drawn span."""
    at = draw.randrange(len(data) + 1)
    return data[:at] + new + data[at + draw.choice((0, 1, 10)) :]


USUAL: Sequence[Mutation] = (
    flip, truncate, insert_token, replace_value, replace_value, replace_value, delete_span,
    delete_lines, repeat_line, reorder_lines, change_indent, misspell, not_text,
)  # fmt: skip
DEAR: Sequence[Mutation] = (nest, enlarge, bomb)
DEAR_SHARE = 0.02


def mutated(data: bytes, draw: random.Random) -> tuple[bytes, str]:
    """Return the data after one to three mutations, and their names."""
    names = []
    for _ in range(draw.choice((1, 1, 2, 3))):
        mutation = draw.choice(DEAR if draw.random() < DEAR_SHARE else USUAL)
        data = mutation(data, draw)
        names.append(mutation.__name__)
    return data, ", ".join(names)
