"""What a script will surely ask a cluster for is found in its text; what it may, is not."""

import ast
from textwrap import dedent

import pytest

from chaos.launch.forked.script_text import asks_for

HEAD = """
import argparse
import ray
from ray import data
from ray.data import read_csv as read
@ray.remote
def task(): ...
@ray.remote(num_cpus=1)
class Counter: ...
def prepare():
    return ray.data.from_items([1])
"""


def asked(text: str) -> str | None:
    found = asks_for(ast.parse(HEAD + dedent(text)))
    return None if found is None else found[0].replace("`", "")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("ds = ray.data.read_parquet('x').map_batches(f)", "Ray Data (ray.data.read_parquet"),
        ("ds = data.range(3)", "Ray Data (ray.data.range"),
        ("Trainer(f, datasets={'train': read('x')}).fit()", "Ray Data (ray.data.read_csv"),
        ("ray.get([task.remote()])", "ray.remote (task.remote()"),
        ("c = Counter.options(name='c').remote()", "ray.remote (Counter.remote()"),
        (
            """
            def main():
                args = argparse.ArgumentParser().parse_args()
                if args.small:
                    args.epochs = 1
                Trainer(f, datasets={"train": prepare()}).fit()
            if __name__ == "__main__":
                main()
            """,
            "Ray Data (ray.data.from_items",
        ),
    ],
)
def test_what_is_surely_asked_for_is_found(text: str, what: str) -> None:
    assert asked(text) == what


@pytest.mark.parametrize(
    "text",
    [
        "Trainer(f).fit()\nray.data.read_csv('x')",
        "result = trainer.fit()\nray.get(task.remote())",
        "if args.data:\n    ds = ray.data.range(3)\ntrainer.fit()",
        "def train():\n    ray.data.range(3)\ntrainer.fit()",
        "if plain:\n    trainer.fit()\nds = ray.data.range(3)",
        "if plain:\n    raise SystemExit\nds = ray.data.range(3)",
        "ds = ray.data.range(3) if args.data else None",
        "other.range(3)\nother.remote()",
        "ctx = ray.data.DataContext.get_current()",
    ],
)
def test_what_may_never_be_asked_for_is_not(text: str) -> None:
    assert asked(text) is None
