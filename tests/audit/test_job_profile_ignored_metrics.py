"""A metric that differs between two clean runs is never held against a run."""

from pathlib import Path

from chaos.audit.job_profile import JobProfile
from chaos.audit.plans import build_base_plan, build_fault_plan
from chaos.audit.repro import repro_text
from chaos.audit.site_sample import choose_fault_sites
from chaos.scenario_file.load import load_scenario
from tests.audit.test_site_sample import extent_of


def test_it_is_left_out_of_every_plan_and_of_the_reproduction(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    base = build_base_plan(Path("train.py"), [], cwd=tmp_path, seed=0)
    expect = base.expect.model_copy(update={"ignore_metrics": ("epoch_s",)})
    seen: JobProfile = extent_of(epochs=3, steps=4)

    places = choose_fault_sites(seen, seed=0)
    base = base.model_copy(update={"expect": expect})
    struck = [build_fault_plan(base, place, seen) for place in places]

    assert all(plan.expect.ignore_metrics == ("epoch_s",) for plan in struck)
    file = tmp_path / "x.chaos.yaml"
    file.write_text(repro_text(struck[0], check="trajectory", folder=tmp_path, headline="h"))
    assert load_scenario(file).expect.ignore_metrics == ("epoch_s",)
