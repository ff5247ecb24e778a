"""Questions in one line, in which a second of training is a step."""

from typing import Any

from chaos.extensions.preflight.market import Exponential, LossNotice, Market
from chaos.extensions.preflight.question import Costs, Goal, JobShape, Question, change_question
from chaos.extensions.preflight.settings import RaySettings, TorchrunSettings


def memoryless(
    *,
    loss_every_s: float,
    save_s: int = 10,
    restart_s: int = 180,
    every: int = 400,
    commits: int = 200,
    nodes: int = 4,
    **values: Any,
) -> Question:
    """Return the job of Daly's equation: memoryless losses, replaced at once, retries for ever."""
    question = Question(
        preflight="a job in a test",
        job=JobShape(nodes=nodes, steps=every * commits, checkpoint_every_steps=every),
        settings=RaySettings(max_failures=-1),
        costs=Costs(step_s=1.0, save_s=save_s, schedule_s=restart_s),
        market=Market(lifetime=Exponential(mtbf_h=loss_every_s * nodes / 3600)),
    )
    places = {name.replace("__", "."): value for name, value in values.items()}
    return change_question(question, places)


def sound_question() -> Question:
    """Return a job of eight nodes whose settings fit its market."""
    return Question(
        preflight="sound settings on a calm market",
        job=JobShape(
            nodes=8,
            min_nodes=6,
            spare_nodes=1,
            steps=40_000,
            checkpoint_every_steps=900,
            saves_on_notice=True,
            rescales_batch=True,
        ),
        settings=RaySettings(
            max_failures=200,
            num_to_keep=3,
            storage_path="s3://bucket/runs",
            run_name="big-run",
            health_check_timeout_s=120,
            collective_timeout_s=200,
            group_start_timeout_s=180,
            report_timeout_s=1800,
            node_death_s=3,
            checkpoint_upload_mode="async",
        ),
        costs=Costs(
            step_s=1.0,
            save_s=8.0,
            upload_s=20.0,
            detect_s=3.0,
            teardown_s=6.0,
            schedule_s=10.0,
            start_s=15.0,
            restore_s=12.0,
        ),
        market=Market(
            name="sound",
            lifetime=Exponential(mtbf_h=100.0),
            away_h=0.2,
            notice=LossNotice(seconds=120.0, reliability=0.9),
            price_ratio=0.35,
        ),
        goal=Goal(deadline_h=24.0),
    )


def sound_torchrun() -> Question:
    """Return the same job, started by torchrun on a platform that starts it again."""
    settings = TorchrunSettings(
        launcher="torchrun",
        max_restarts=100,
        job_retries=100,
        storage_path="s3://bucket/runs",
        checkpoint_upload_mode="no_upload",
    )
    sound = sound_question()
    job = sound.job.model_copy(update={"on_demand_nodes": 1, "saves_on_notice": False})
    market = sound.market.model_copy(update={"notice": LossNotice()})
    told = {"settings": settings, "job": job, "market": market}
    return change_question(sound.model_copy(update=told), {"job.checkpoint_every_steps": 600})
