"""Every snippet in the documents is read, loaded or executed as what it claims to be."""

import ast
import json
import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import chaos
from chaos import settings
from chaos.errors import ScenarioError
from chaos.extensions.preflight.load import load_question
from chaos.harness import load_scenario_plan
from chaos.scenario_file.load import load_scenario
from tests.documents import tutorial
from tests.documents.blocks import ROOT, Block, block_of, blocks, looks_like_a_command
from tests.other_packages.conftest import BOTH, EXAMPLES, install_examples, run

LANGUAGES = {"console", "diff", "json", "python", "sh", "text", "toml", "yaml"}
FRAME = "scenario: a frame\njob: {script: train.py, workers: 2}\n"
CALLS = re.compile(r"chaos\.(audit|run)\(")
every = pytest.mark.parametrize


def ids(block: Block) -> str:
    return str(block)


@every("block", blocks(), ids=ids)
def test_a_block_says_what_it_is(block: Block) -> None:
    assert block.language in LANGUAGES


@every("block", blocks("text"), ids=ids)
def test_what_is_shown_as_text_hides_no_command(block: Block) -> None:
    assert not [*looks_like_a_command(block.text)]


@every("block", blocks("yaml"), ids=ids)
def test_yaml_is_a_scenario_a_question_or_a_part_of_a_scenario(
    block: Block, tmp_path: Path
) -> None:
    packages = install_examples(tmp_path)
    (tmp_path / "train.py").touch()
    (tmp_path / "train.sbatch").touch()
    kind = block.text.partition(":")[0]
    if kind == "steps":  # of a GitHub workflow
        assert (ROOT / "action.yml").is_file()
        return
    if kind == "preflight":
        (tmp_path / "x.preflight.yaml").write_text(block.text)
        load_question(tmp_path / "x.preflight.yaml")
        return
    text = block.text if kind == "scenario" else FRAME + block.text
    (tmp_path / "x.chaos.yaml").write_text(text)
    if not any(name in block.text for points in BOTH.values() for name in points):
        load_scenario_plan(tmp_path / "x.chaos.yaml", cwd=tmp_path, seed=0, backend="fork")
        return
    # The examples' fault and check are known to a process that begins with them installed.
    (tmp_path / "load.py").write_text(
        "from pathlib import Path\n"
        "from chaos.harness import load_scenario_plan\n"
        "load_scenario_plan(Path('x.chaos.yaml'), cwd=Path.cwd(), seed=0, backend='fork')\n"
    )
    assert run(tmp_path, "load", packages=packages).said == ""


@every("block", blocks("python"), ids=ids)
def test_python_is_an_example_file_a_test_or_runs(
    block: Block, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {file.read_text(encoding="utf-8"): file for file in EXAMPLES.glob("*.py")}
    tree = ast.parse(block.text)
    if block.text in files:
        return  # tests/other_packages executes it
    if any(
        isinstance(node, ast.FunctionDef) and node.name.startswith("test_") for node in tree.body
    ):
        return  # test_commands runs it in the reader's folder
    if CALLS.search(block.text):
        return  # likewise
    if block.document == tutorial.PAGE:
        return  # test_tutorial runs it
    exec(compile(tree, str(block), "exec"), {"chaos": chaos, "ema": {"decay": 0.9}})


def test_every_worked_example_stands_in_a_document() -> None:
    shown = {block.text for block in blocks("python")}

    assert {file.read_text(encoding="utf-8") for file in EXAMPLES.glob("*.py")} <= shown


@every("block", blocks("toml"), ids=ids)
def test_toml_names_entry_points_or_settings_that_are_there(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tomllib.loads(block.text)
    if "tool" in table:
        (tmp_path / "pyproject.toml").write_text(block.text)
        monkeypatch.chdir(tmp_path)
        assert len(settings.load_defaults(["run"])["run"]) == len(table["tool"]["chaos"])
        return
    monkeypatch.syspath_prepend(EXAMPLES)
    groups = table["project"]["entry-points"]

    for group, points in groups.items():
        assert group in {"chaos.faults", "chaos.checks", "chaos.launchers"}
        for place in points.values():
            module, _, name = place.partition(":")
            assert hasattr(import_module(module), name or "check")


@every("block", blocks("json"), ids=ids)
def test_json_can_be_read(block: Block) -> None:
    json.loads(block.text)


def test_the_mistake_that_a_page_shows_is_answered_as_it_says(tmp_path: Path) -> None:
    page = (ROOT / "docs/scenarios.md").read_text(encoding="utf-8")
    scenario = block_of("scenarios.md", "yaml", "scenario: a worker")
    (tmp_path / "train.py").touch()
    file = tmp_path / "my.chaos.yaml"
    file.write_text(scenario.replace("kill_worker", "kill_wroker"))

    with pytest.raises(ScenarioError) as caught:
        load_scenario(file)

    assert str(caught.value).removeprefix(f"{tmp_path}/") in page
