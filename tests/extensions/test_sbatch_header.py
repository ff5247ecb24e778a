"""The options of a script for sbatch, as its header has them."""

from pathlib import Path

import pytest

from chaos.extensions.sbatch_header import (
    SbatchOption,
    count_nodes,
    is_sbatch_script,
    parse_options,
)


@pytest.mark.parametrize(
    ("header", "nodes"),
    [
        ("#SBATCH --nodes=4", 4),
        ("#SBATCH -N4 -t 1:00", 4),
        ("#SBATCH -N 2-8", 2),
        ("#SBATCH --nodes=$NODES", 1),
        ("#SBATCH --ntasks=4", 1),
    ],
)
def test_the_nodes_are_those_that_the_header_asks_for(header: str, nodes: int) -> None:
    assert count_nodes(f"#!/bin/bash\n{header}\nsrun python a.py\n") == nodes


def test_the_last_of_each_option_counts_with_its_line() -> None:
    found = parse_options("#!/bin/sh\n#SBATCH -o a.log\n#SBATCH --output='b.log' --requeue\n")

    assert found == {"--output": SbatchOption("b.log", 3), "--requeue": SbatchOption("", 3)}


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("#!/bin/bash\n#SBATCH -N 2\n", True),
        ("import torch\n\n#SBATCH -N 2\n", False),
        ("#!/bin/bash\npython a.py\n", False),
    ],
)
def test_a_script_is_for_sbatch_by_its_first_lines(tmp_path: Path, text: str, is_one: bool) -> None:
    file = tmp_path / "a.sh"
    file.write_text(text, encoding="utf-8")

    assert is_sbatch_script(file) == is_one
