"""Stand-in for s3fs: a bucket's tables of flowers, held in memory."""

import importlib
import random
from typing import Any

memory: Any = importlib.import_module("fsspec.implementations.memory")
__version__ = "2026.0"
COLUMNS = ("sepal length", "sepal width", "petal length", "petal width", "target")
ROWS = 60


class S3FileSystem(memory.MemoryFileSystem):  # type: ignore[misc]
    """A bucket in which every name that ends in .csv is a table."""

    protocol = ("s3", "s3a")

    def _open(self, path: str, *_args: Any, **_options: Any) -> Any:
        draw = random.Random(path)
        rows = ([f"{draw.uniform(0, 8):.1f}" for _ in COLUMNS[:-1]] for _ in range(ROWS))
        lines = [",".join([*row, str(draw.randrange(3))]) for row in rows]
        text = "\n".join([",".join(COLUMNS), *lines])
        return memory.MemoryFile(self, path, text.encode())
