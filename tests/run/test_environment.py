"""What a baseline's digest holds besides the job."""

from pathlib import Path

from chaos.run.environment import decisive_versions, own_code


def test_a_change_of_chaos_itself_makes_other_baselines(tmp_path: Path) -> None:
    packages = [tmp_path / "before", tmp_path / "same", tmp_path / "after"]
    for package, code in zip(packages, ("a = 1", "a = 1", "a = 2"), strict=True):
        (package / "inner").mkdir(parents=True)
        (package / "inner/module.py").write_text(code)

    before, same, after = map(own_code, packages)

    assert before == same != after
    assert decisive_versions()["code of chaos"] == own_code()
