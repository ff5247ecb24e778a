"""`chaos replay` says whether it came out as the recorded run did."""

from dataclasses import replace
from pathlib import Path

import msgspec

from chaos.extensions.explain import replay
from chaos.model.event import StepDone
from chaos.model.history import History
from chaos.report.outcome import FinishedRun
from chaos.run.directory import create_run


def test_a_replay_that_came_out_the_same_is_told_apart_from_one_that_did_not(
    guilty_run: FinishedRun, valid_run: FinishedRun, tmp_path: Path
) -> None:
    directory = create_run(tmp_path / "runs", "9", guilty_run.plan, {})
    directory.save_history(guilty_run.history)
    directory.save_verdict(guilty_run.verdict)
    steps = len(replay.collect_losses(guilty_run.history))
    first = next(n for n, e in enumerate(guilty_run.history) if isinstance(e.event, StepDone))
    entry = guilty_run.history[first]
    other = msgspec.structs.replace(
        entry, event=msgspec.structs.replace(entry.event, losses=(9.5,))
    )
    shifted = History([*guilty_run.history[:first], other, *guilty_run.history[first + 1 :]])

    same = replay.describe_sameness(directory, guilty_run)
    apart = replay.describe_sameness(directory, replace(guilty_run, history=shifted))
    fixed = replay.describe_sameness(directory, valid_run)

    assert same.startswith("replay: same verdict, fail (")
    assert same.endswith(f"same losses at all {steps} steps that both runs have")
    assert "other losses, first in attempt 0 at epoch 0, step 1, rank 0: (9.5,) instead" in apart
    assert "replay: pass instead of fail (" in fixed
