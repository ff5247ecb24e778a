"""The costs in a log of a run, and in a folder of its trainer."""

import json
import os
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.errors import UsageError
from chaos.extensions.preflight.observed_costs import RESTART_S, SAVE_S, find_observed_costs
from chaos.extensions.run_logs import LogSpan, parse_costs, parse_marks

BEGUN = datetime(2026, 11, 20, 10)  # noqa: DTZ001 - logs have no zone
FORMS = {
    "python": lambda at: at.strftime("%Y-%m-%d %H:%M:%S,") + f"{at.microsecond // 1000:03} INFO ",
    "kubernetes": lambda at: at.strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z ",
    "glog": lambda at: at.strftime("I%m%d %H:%M:%S.%f 12 train.py:3] "),
    "transformers": lambda at: at.strftime("%m/%d/%Y %H:%M:%S - INFO - "),
    "clock": lambda at: at.strftime("[%H:%M:%S] "),
    "srun": lambda at: "0: " + at.strftime("%Y-%m-%d %H:%M:%S ") + "node-3 ",
}


def log(form: str, *lines: tuple[float, str], since: datetime = BEGUN) -> str:
    return "".join(
        f"{FORMS[form](since + timedelta(seconds=at_s))}{words}\n" for at_s, words in lines
    )


def steps(
    first: int, last: int, since_s: float, each_s: float, every: int = 10
) -> list[tuple[float, str]]:
    return [
        (since_s + (n - first) * each_s, f"step {n}/2000 loss 2.1")
        for n in range(first, last + 1, every)
    ]


WHOLE = [
    (0.0, "starting"),
    *steps(10, 100, 30, 1.0),
    (121.0, "saving checkpoint at step 100"),
    *steps(110, 200, 140, 1.0),
    (231.0, "saving checkpoint at step 200"),
    *steps(210, 260, 250, 1.0),
    (500.0, "resuming from checkpoint of step 200"),
    *steps(210, 240, 530, 1.0),
]


@pytest.mark.parametrize("form", FORMS)
def test_steps_saves_and_restarts_are_read_in_every_form_of_a_time(form: str) -> None:
    found = parse_costs(log(form, *WHOLE))

    assert found.step_s is not None
    assert found.step_s.low == pytest.approx(1.0)
    assert found.save_s is not None
    assert found.save_s.low == pytest.approx(10.0)
    assert found.save_s.line == 13
    assert (found.steps, found.save_interval, found.restarts) == (2000, 100, 1)
    assert found.restart_s is not None
    # From step 260 at 300 s to step 210 at 530 s, and 10 s between two lines.
    assert found.restart_s.low == pytest.approx(210.0)
    assert found.restart_s.high == pytest.approx(230.0)


def test_a_clock_without_a_date_goes_on_over_midnight() -> None:
    late = datetime(2026, 11, 20, 23, 59)  # noqa: DTZ001

    found = parse_costs(log("clock", *WHOLE, since=late))

    assert found.step_s is not None
    assert found.step_s.low == pytest.approx(1.0)
    assert found.restart_s is not None
    assert found.restart_s.high == pytest.approx(230.0)


def test_numbers_that_begin_anew_in_each_epoch_are_no_restart() -> None:
    epochs = [
        (100.0 * epoch + n, f"epoch {epoch} step {n}/90")
        for epoch in range(3)
        for n in range(10, 91, 10)
    ]

    found = parse_costs(log("python", *epochs))

    assert (found.restarts, found.restart_s) == (0, None)
    assert found.step_s is not None
    assert found.step_s.low == pytest.approx(1.0)


def test_a_checkpoint_that_is_loaded_while_the_steps_go_on_is_no_restart() -> None:
    text = log(
        "python",
        *steps(10, 50, 0, 1.0),
        (45.0, "loading checkpoint for the evaluation"),
        *steps(60, 90, 70, 1.0),
    )

    assert parse_costs(text).restarts == 0


def test_a_job_that_somebody_cancelled_was_not_preempted() -> None:
    text = log("python", *steps(10, 50, 0, 1.0)) + (
        "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-20T10:05:00 ***\n"
    )

    assert parse_costs(text).restarts == 0


def test_megatrons_lines_say_their_rate() -> None:
    text = "".join(
        f" iteration {n:8}/    1000 | consumed samples: {n * 4} | elapsed time per iteration (ms): "
        f"{2152.2 if n == 10 else 1380.0} | number of skipped iterations:   1 |\n"
        for n in range(10, 201, 10)
    )

    found = parse_costs(text)

    assert found.step_s == LogSpan(1.38, 1.38, 20)
    assert found.steps == 1000


def test_a_bar_writes_over_its_own_line_and_shorter_ones_are_other_loops() -> None:
    text = (
        "Loading checkpoint shards: 100%|##| 3/3 [00:24<00:00,  8.0s/it]\n"
        "  0%|          | 0/1000 [00:00<?, ?it/s]\r"
        " 10%|#         | 100/1000 [01:00<09:00,  1.67it/s]\r"
        " 20%|##        | 200/1000 [02:00<08:00,  1.67it/s]\n"
    )

    found = parse_costs(text)

    assert found.step_s is not None
    assert found.step_s.low == pytest.approx(0.6)
    assert (found.steps, found.restarts) == (1000, 0)


TORCHELASTIC = """\
[INFO] 2026-07-31 06:52:47,071 api: [default] Rendezvous complete for workers. Result:
  restart_count=0
  group_world_size=4
Epoch: [0][  0/782]	Time  3.613 ( 3.613)	Loss 7.0
Epoch: [0][ 10/782]	Time  1.638 ( 1.200)	Loss 5.7
[INFO] 2026-07-31 07:15:34,785 api: [default] FAILED. 3/3 attempts left; will restart worker group
[INFO] 2026-07-31 07:16:04,915 api: [default] Rendezvous complete for workers. Result:
  restart_count=1
  group_world_size=2
=> loading checkpoint file: /tmp/checkpoint.pth.tar
Epoch: [0][  0/1563]	Time  2.916 ( 2.916)	Loss 4.3
Epoch: [0][ 10/1563]	Time  0.650 ( 0.800)	Loss 4.4
"""


def test_of_a_restart_without_times_of_steps_the_rest_is_assumed() -> None:
    found = parse_costs(TORCHELASTIC)

    assert found.step_s is not None
    assert found.step_s[:2] == (0.8, 1.2)  # with two nodes and with four
    assert found.restart_s is not None
    assert found.restart_s.low == pytest.approx(30.13)
    assert found.restart_s.high == pytest.approx(330.13)
    assert found.restarts == 1


def test_a_batch_that_is_named_by_its_index_is_done() -> None:
    line = "Epoch: [{}]  [{:4d}/1251]  eta: 0:02:23  lr: 0.01  loss: 1.3 (1.2)  time: {}  data: 0.1"
    text = "\n".join(line.format(*at) for at in ((0, 0, 1.5), (1, 20, 0.28), (1, 1250, 0.28)))

    marks = [*parse_marks(f"{text}\nTest:  [ 0/98]  eta: 0:01:18  loss: 0.4 (0.4)  time: 0.8\n")]

    assert [(mark.step, mark.epoch, mark.rate_s) for mark in marks] == [
        (1, 0, 1.5),
        (1272, 1, 0.28),
        (2502, 1, 0.28),
    ]


def bars(name: str, total: int, *states: tuple[int, str]) -> str:
    return "".join(
        f"{name}{100 * n // total:3}%|#  | {n}/{total} [{at}<00:10]\r" for n, at in states
    )


def test_bars_of_other_loops_are_no_training() -> None:
    text = (
        bars("Map: ", 52002, (26000, "00:12"), (52002, "00:25"))
        + "\n"
        + bars("", 500, (1, "00:30"), (11, "02:10"), (21, "03:50"))
        + "\n"
        + bars("Evaluating: ", 4000, (2000, "00:20"), (4000, "00:40"))
    )

    found = parse_costs(text)

    assert found.step_s is not None
    assert (found.step_s.low, found.steps) == (10.0, 500)


def test_of_a_bar_that_goes_on_after_a_resume_only_what_it_passed_counts() -> None:
    found = parse_costs(bars("", 500, (301, "00:12"), (311, "01:52"), (321, "03:32")))

    assert found.step_s is not None
    assert found.step_s.low == 10.0


@pytest.mark.parametrize(
    "text",
    [
        bars("Epoch 3: ", 100, (50, "00:50"), (100, "01:40")),
        "".join(
            f"2026-01-01 00:{epoch:02}:{n:02} Epoch {epoch}/10 step {n}/90\n"
            for epoch in range(3)
            for n in (10, 20, 30, 40)
        ),
    ],
)
def test_steps_of_an_epoch_are_not_the_length_of_the_training(text: str) -> None:
    found = parse_costs(text)

    assert found.step_s is not None
    assert (found.steps, found.save_interval) == (None, None)


def test_what_was_cancelled_by_hand_and_went_on_days_later_is_no_restart() -> None:
    text = (
        log("python", *steps(10, 100, 0, 1.0), (95, "saving checkpoint"))
        + "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-20T10:05:00 ***\n"
        + log("python", (200_000, "resuming from checkpoint"), *steps(60, 90, 200_020, 1.0))
    )

    assert parse_costs(text).restart_s is None


def test_a_best_checkpoint_that_is_loaded_as_each_epoch_ends_is_no_restart() -> None:
    lines = []
    for epoch in range(3):
        lines += [(200.0 * epoch + n, f"step {n}/90") for n in range(10, 91, 10)]
        lines.append((200.0 * epoch + 95, "validated"))
        if epoch:
            lines.append((200.0 * epoch + 99, "Loading best checkpoint"))

    assert parse_costs(log("python", *lines)).restarts == 0


def test_a_save_that_no_line_can_tell_is_a_range_from_nothing() -> None:
    lines = [*steps(10, 100, 0, 1.0), (90.2, "saving checkpoint"), *steps(110, 200, 100, 1.0)]

    found = parse_costs(log("python", *lines))

    assert found.save_s is not None
    assert found.save_s[:2] == (0.0, 1.0)


def test_where_each_step_is_saved_a_step_has_its_save_in_it() -> None:
    lines = []
    for n in range(10):
        lines += [(10.0 * n, f"step {n + 1}/90"), (10.0 * n + 1, "saved checkpoint")]

    found = parse_costs(log("python", *lines))

    assert found.step_s is not None
    assert (found.step_s.low, found.save_s) == (10.0, None)


@pytest.mark.parametrize(
    ("line", "launcher"),
    [
        ("Worker group FAILED. 3/3 attempts left; will restart worker group", "torchrun"),
        ("[FailurePolicy] RETRY", "ray"),
        ("restarting", None),
    ],
)
def test_a_log_shows_who_starts_the_job(line: str, launcher: str | None) -> None:
    assert parse_costs(log("python", *steps(10, 50, 0, 1.0), (60, line))).launcher == launcher


@pytest.mark.parametrize(
    ("line", "restarts"),
    [
        (
            "E1128 api.py:1002] failed (exitcode: -9) local_rank: 1 (pid: 27115) of binary: python",
            1,
        ),
        ("loop.sh: line 3: 13087 Killed                  python train.py", 1),
        ("loop.sh: line 3: 13087 Killed                  sleep 60", 0),
    ],
)
def test_a_failure_that_is_logged_without_the_restart_is_one_if_steps_follow(
    line: str, restarts: int
) -> None:
    # torch 2.13 says "will restart worker group" at a level that is not shown.
    ended = [*steps(10, 50, 0, 1.0), (60.0, line)]

    assert parse_costs(log("python", *ended)).restarts == 0
    assert parse_costs(log("python", *ended, *steps(60, 90, 90, 1.0))).restarts == restarts


@pytest.mark.parametrize(
    "line",
    [
        # As `bash -x` writes a command, and Megatron its arguments.
        "+ ARGS='--log-interval 10 --train-iters 1000 --save /data/checkpoints/a --load /data/b'",
        "  load ......................... /data/checkpoints/gpt2",
        "  save ......................... /data/checkpoints/gpt2",
        "    will not load any checkpoints and will start from random",
        "time (ms) | load-checkpoint: 0.36",
        # As transformers begins.
        "  Total optimization steps = 500",
        "  Gradient Accumulation steps = 4",
        "Loading checkpoint shards: 100%|##########| 3/3 [00:01<00:00,  2.82it/s]",
        "Saving config to /data/checkpoints/config.yaml",
        "Deleting Checkpoint[step=100 | time=2026-11-20 10:05:00]: (Reason: old checkpoint)",
        "Update 10/03/19: the data moved",
    ],
)
def test_what_a_job_is_told_and_begins_with_is_no_step_save_or_resume(line: str) -> None:
    alone = [mark for mark in parse_marks(line) if mark.kind != "save"]
    among = [(0.0, line), *steps(10, 60, 10, 1.0), (61.0, line), *steps(70, 120, 70, 1.0)]

    assert alone == []
    assert parse_costs(log("python", *among)).save_interval is None
    assert parse_costs(log("python", *among)).restarts == 0


def test_what_transformers_goes_on_from_is_a_resume_and_no_save() -> None:
    lines = (
        "  Continuing training from checkpoint, will skip to saved global_step\n"
        "  Continuing training from epoch 0\n"
        "  Continuing training from global step 200\n"
    )

    assert [mark.kind for mark in parse_marks(lines)] == ["resume"] * 3


def test_what_ends_a_bar_does_not_hide_its_last_step() -> None:
    end = "error: *** JOB 7 ON n1 CANCELLED AT 2026-11-20T10:05:00 DUE TO PREEMPTION ***"
    text = f"\r 44%|####| 22/50 [00:22<00:28]\r 46%|####| 23/50 [00:23<00:27, 1.0s/it]{end}\n"

    assert [(mark.kind, mark.step) for mark in parse_marks(text)] == [
        ("step", 22),
        ("step", 23),
        ("notice", None),
    ]


def test_a_training_that_begins_after_the_end_of_another_is_no_restart() -> None:
    whole = [*steps(500, 2000, 0, 1.0, 500), (1600.0, "Loaded checkpoint of the base model")]

    assert parse_costs(log("python", *whole, *steps(500, 1000, 1700, 1.0, 500))).restarts == 0
    assert parse_costs(log("python", *whole, *steps(1500, 2000, 1700, 1.0, 500))).restarts == 1


@given(st.text(max_size=300))
def test_any_text_is_read_or_has_nothing_in_it(text: str) -> None:
    parse_costs(text)


@given(
    each_s=st.floats(0.01, 30),
    save_s=st.floats(0, 500),
    restart_s=st.floats(30, 5000),
    stride=st.integers(1, 50),
)
def test_what_was_written_is_found(
    each_s: float, save_s: float, restart_s: float, stride: int
) -> None:
    lines = steps(stride, 20 * stride, 0, each_s, stride)
    at_s = lines[-1][0]
    lines.append((at_s, "Saving model checkpoint to out/checkpoint-20"))
    lines += steps(21 * stride, 40 * stride, at_s + stride * each_s + save_s, each_s, stride)
    at_s = lines[-1][0] + restart_s
    lines.append((at_s, "Loading checkpoint"))
    lines += steps(21 * stride, 25 * stride, at_s, each_s, stride)

    found = parse_costs(log("kubernetes", *lines))

    assert found.step_s is not None
    assert found.save_s is not None
    assert found.restart_s is not None
    assert found.step_s.low == pytest.approx(each_s, rel=1e-3, abs=1e-4)
    if save_s > 1.1:
        assert found.save_s.low == pytest.approx(save_s, rel=1e-2, abs=0.1)
    assert found.save_s.low - 0.1 <= save_s <= found.save_s.high + 0.1
    assert found.restart_s.low <= restart_s * 1.001 + 0.1
    assert found.restart_s.high == pytest.approx(restart_s, rel=1e-3, abs=0.1)


# -- what is made of it --------------------------------------------------------------------------


def test_what_a_log_lacks_is_assumed_as_a_range_and_said(tmp_path: Path) -> None:
    file = tmp_path / "train.log"
    file.write_text(log("python", *steps(10, 100, 0, 2.0)))

    found = find_observed_costs(file)

    assert found is not None
    assert found.values == {
        "costs.step_s": pytest.approx(2.0),
        "costs.save_s": list(SAVE_S),
        "costs.restart_s": list(RESTART_S),
        "job.steps": 2000,
    }
    assert found.notes[0] == f"{file}:10: a step takes 2 s"
    assert found.notes[2] == "what a restart takes is not in it: 60 to 900 s are assumed"


def test_a_log_without_steps_is_refused_with_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("hello\n")

    with pytest.raises(UsageError, match="no two steps with a time") as refused:
        find_observed_costs(tmp_path / "a.log")

    assert "step 120/1000" in refused.value.hint


def saved(folder: Path, name: str, at_s: float, *, took_s: float = 0.0) -> None:
    path = folder / name
    path.mkdir(parents=True)
    for number, file in enumerate(("model.safetensors", "optimizer.pt")):
        (path / file).write_text("x")
        when = BEGUN.timestamp() + at_s - took_s * (1 - number)
        os.utime(path / file, (when, when))


@pytest.mark.parametrize("name", ["checkpoint-{}", "step_{}", "global_step{}", "iter_{:07}"])
def test_a_folder_of_saves_has_the_time_of_a_step(tmp_path: Path, name: str) -> None:
    for number in (100, 200, 300):
        saved(tmp_path, name.format(number), 3.0 * number, took_s=8.0)

    found = find_observed_costs(tmp_path)

    assert found is not None
    assert found.values["costs.step_s"] == pytest.approx(3.0)
    assert found.values["costs.save_s"] == [pytest.approx(8.0), 120.0]
    assert found.values["job.checkpoint_every_steps"] == 100
    assert "job.steps" not in found.values


def test_files_of_lightning_have_their_steps_in_their_names(tmp_path: Path) -> None:
    for number, epoch in ((100, 0), (200, 1)):
        file = tmp_path / f"epoch={epoch}-step={number}.ckpt"
        file.write_text("x")
        os.utime(file, (BEGUN.timestamp() + number,) * 2)

    found = find_observed_costs(tmp_path)

    assert found is not None
    assert found.values["costs.step_s"] == pytest.approx(1.0)


def test_the_state_of_transformers_says_the_length_and_the_time(tmp_path: Path) -> None:
    state = {
        "max_steps": 1038,
        "save_steps": 300,
        "log_history": [{"step": 5, "loss": 1}, {"step": 1000, "train_runtime": 2500.0}],
    }
    (tmp_path / "trainer_state.json").write_text(json.dumps(state))

    found = find_observed_costs(tmp_path / "trainer_state.json")

    assert found is not None
    assert found.values["costs.step_s"] == 2.5
    assert found.values["job.steps"] == 1038
    assert found.values["job.checkpoint_every_steps"] == 300


def test_saves_that_were_downloaded_one_after_the_other_say_nothing(tmp_path: Path) -> None:
    for number in (100, 200, 300):
        saved(tmp_path, f"checkpoint-{number}", 0.6 * number, took_s=58.0)

    with pytest.raises(UsageError, match="two saves with times of their own"):
        find_observed_costs(tmp_path)


def test_of_a_run_that_was_resumed_the_times_of_its_saves_count(tmp_path: Path) -> None:
    for number in (100, 200, 300, 400, 500):
        saved(tmp_path, f"checkpoint-{number}", 10.0 * number)
    history = [{"step": 500, "train_runtime": 1000.0}, "odd"]
    state = {"max_steps": 500, "save_steps": 500, "log_history": history}
    (tmp_path / "trainer_state.json").write_text(json.dumps(state))

    found = find_observed_costs(tmp_path)

    assert found is not None
    assert found.values["costs.step_s"] == pytest.approx(10.0)
    assert found.values["job.checkpoint_every_steps"] == 100


def test_files_of_epochs_have_no_steps_in_their_names(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        (tmp_path / f"checkpoint-{number}.pth").write_text("x")

    assert find_observed_costs(tmp_path) is None


def test_saves_that_were_copied_say_nothing(tmp_path: Path) -> None:
    for number in (100, 200, 300):
        saved(tmp_path, f"checkpoint-{number}", 0.001 * number)

    with pytest.raises(UsageError, match="two saves with times of their own"):
        find_observed_costs(tmp_path)


def test_a_folder_of_anything_else_is_none(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()

    assert find_observed_costs(tmp_path) is None
    assert find_observed_costs(tmp_path / "train.py") is None
