"""Values that may be secrets, masked for display.

The rule does not look at values: a value is masked where a word of its name marks it as a secret
(`AWS_SECRET_ACCESS_KEY`, `--hf-token`, `dbPassword`). So are user and password in a URI, and its
parameters with such names. All else is readable: `EPOCHS=3`, `--max-tokens 512`,
`TOKENIZERS_PARALLELISM=false`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MASK = "***"

_SECRET = re.compile(
    r".*key|keys|.*token|.*secrets?|.*password|passwords|passw|passwd|passphrase|pass|pwd"
    r"|.*credentials?|creds|.*auth|authorization|bearer|cookie|sig|signature",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_USER = re.compile(r"(?<=://)[^/?#\s@]*@(?:[^/?#\s@]*@)*")
_PARAMETER = re.compile(r"(?<=[?&;])([^=&;#\s?]+)=([^&;#\s]+)")


def is_secret(name: str) -> bool:
    """Return whether a name marks its value as a secret."""
    return name != "PWD" and any(_SECRET.fullmatch(word) for word in _WORD.findall(name))


def mask_text(text: str) -> str:
    """Return a text without the users, passwords and keys of URIs in it."""
    text_without_users = _USER.sub(f"{MASK}@", text) if "://" in text else text
    return _PARAMETER.sub(_mask_parameter, text_without_users)


def has_secrets(value: Any) -> bool:  # noqa: ANN401 - what JSON has
    """Return whether something in a value would be masked."""
    return bool(mask_value(value) != value)


def mask_words(words: Sequence[object]) -> list[object]:
    """Return a command line without secrets: `--api-key X`, `--api-key=X` and `token=X`."""
    return list(_iterate_masked_words(words))


def mask_value(value: Any, name: str = "") -> Any:  # noqa: ANN401 - what JSON has
    """Return a value without secrets; within mappings, names are those of the keys."""
    if isinstance(value, Mapping):
        return {key: mask_value(item, str(key)) for key, item in value.items()}
    if isinstance(value, str):
        return MASK if value and is_secret(name) else mask_text(value)
    if isinstance(value, list | tuple):
        return [MASK] * len(value) if is_secret(name) else mask_words(value)
    return value


def _iterate_masked_words(words: Sequence[object]) -> Iterator[object]:
    option = ""
    for word in words:
        if not isinstance(word, str):
            yield mask_value(word, option)
            option = ""
            continue
        name, equals, value = word.partition("=")
        if equals and is_secret(name) and "://" not in name:
            yield f"{name}={MASK}" if value else word
        else:
            yield mask_value(word, option)
        option = word if word.startswith("-") and not equals else ""


def _mask_parameter(match: re.Match[str]) -> str:
    return f"{match[1]}={MASK}" if is_secret(match[1]) else match[0]
