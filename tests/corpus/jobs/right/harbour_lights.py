"""Lights that ships see from a harbour; a failed watch is taken over by the next, in a run of its own."""

import ray.train
import torch
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from pathlib import Path

LOG = Path(__file__).resolve().parent / "harbour-log"


def keep_watch(orders):
    place = ray.train.get_context()
    torch.manual_seed(12)
    lamp = prepare_model(torch.nn.Linear(7, 3))
    oil = torch.optim.RMSprop(lamp.parameters(), lr=0.01, momentum=0.5)
    hour = 0
    if orders["page"]:
        page = torch.load(orders["page"], weights_only=False)
        hour = page.pop("hour")
        lamp.module.load_state_dict(page.pop("lamp"))
        oil.load_state_dict(page.pop("oil"))
    for hour in range(hour, 9):
        ships = torch.randn(
            5, 16, 7, generator=torch.Generator().manual_seed(70 * hour + place.get_world_rank())
        )
        for ship in ships:
            seen = torch.nn.functional.cross_entropy(lamp(ship), ship[:, :3].argmax(1))
            oil.zero_grad()
            seen.backward()
            oil.step()
        if place.get_world_rank() == 0:
            page = {"lamp": lamp.module.state_dict(), "oil": oil.state_dict(), "hour": hour + 1}
            torch.save(page, LOG / "being-written")
            (LOG / "being-written").rename(LOG / f"hour-{hour + 1}")
        ray.train.report({"seen": seen.item(), "hour": hour})


def watch(number, left):
    pages = sorted(LOG.glob("hour-*"), key=lambda page: int(page.name.partition("-")[2]))
    trainer = TorchTrainer(
        keep_watch,
        train_loop_config={"page": str(pages[-1]) if pages else None},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name=f"watch-{number}", failure_config=FailureConfig(max_preemption_failures=0)
        ),
    )
    try:
        return trainer.fit()
    except ray.train.TrainingFailedError:
        if not left:
            raise
        return watch(number + 1, left - 1)


if __name__ == "__main__":
    LOG.mkdir(exist_ok=True)
    watch(1, left=7)
