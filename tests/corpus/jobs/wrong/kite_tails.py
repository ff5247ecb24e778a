"""How long a kite's tail must be: two ranks, and a driver that starts over when a flight fails."""

import os
import tempfile

import ray.train
import torch
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model

LEDGER = "kite-flights"


def fly(config):
    me = ray.train.get_context()
    rank, ranks = me.get_world_rank(), me.get_world_size()
    torch.manual_seed(3)
    kite = prepare_model(
        torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.Tanh(), torch.nn.Linear(10, 1))
    )
    hand = torch.optim.Adam(kite.parameters(), lr=0.02)
    flown = 0
    before = ray.train.get_checkpoint()
    if before:
        with before.as_directory() as bag:
            state = torch.load(os.path.join(bag, "kite"))
        kite.module.load_state_dict(state["kite"])
        hand.load_state_dict(state["hand"])
        flown = state["flown"]
    while flown < config["days"]:
        winds = torch.randn(48, 6, generator=torch.Generator().manual_seed(flown)).chunk(6)
        for wind in winds:
            mine = wind[rank::ranks]
            sway = ((kite(mine).squeeze(1) - mine.sin().sum(1)) ** 2).mean()
            hand.zero_grad(set_to_none=True)
            sway.backward()
            hand.step()
        flown += 1
        with tempfile.TemporaryDirectory() as bag:
            if rank == 0:
                state = {
                    "kite": kite.module.state_dict(),
                    "hand": hand.state_dict(),
                    "flown": flown,
                }
                torch.save(state, os.path.join(bag, "kite"))
                ray.train.report(
                    {"day": flown, "sway": sway.item()}, checkpoint=Checkpoint.from_directory(bag)
                )
            else:
                ray.train.report({"day": flown, "sway": sway.item()})


class Season:
    def __init__(self, flights):
        self.flights = flights

    def trainer(self):
        return TorchTrainer(
            fly,
            train_loop_config={"days": 5},
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(name=f"{LEDGER}-{self.flights}-left"),
        )

    def run(self):
        while self.flights:
            self.flights -= 1
            try:
                return self.trainer().fit()
            except ray.train.TrainingFailedError as fault:
                print("flight lost:", type(fault).__name__)
        raise SystemExit("no flight is left")


if __name__ == "__main__":
    print(Season(5).run().metrics)
