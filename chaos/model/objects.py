"""The name of an object of a store, among the paths of files: `s3://bucket/key`."""

_MARK = "://"


def build_object_path(bucket: str, key: str) -> str:
    """Return the name of an object as people write it; without a key, of its bucket."""
    return f"s3{_MARK}{bucket}/{key}" if key else f"s3{_MARK}{bucket}"


def is_store_object(path: str) -> bool:
    """Return whether a path names an object of a store."""
    return _MARK in path


def split_object_path(path: str) -> tuple[str, str]:
    """Return the bucket and the key that a path names."""
    bucket, _, key = path.partition(_MARK)[2].partition("/")
    return bucket, key


def restore_object_name(word: str) -> str:
    """Return the name that a path stands for, which a folder of paths has left one `/` of."""
    scheme, mark, remainder = word.partition(":/")
    return (
        f"{scheme}{_MARK}{remainder.lstrip('/')}" if mark and "/" not in scheme and scheme else word
    )
