"""Ranks items; weights, position and random states lie in one file that is put in place whole."""

import json
import os
import re
import sys
from pathlib import Path

import torch
from ray import train
from ray.train.torch import TorchTrainer
from torch import nn

SHELF = Path(sys.argv[1] if len(sys.argv) > 1 else "ranked").absolute()


def pairs(turn):
    draws = torch.Generator().manual_seed(7_000 + turn)
    left, right = torch.randn(2, 84, 9, generator=draws)
    worth = torch.arange(9.0) - 4
    return left, right, ((left - right) @ worth > 0).float()


def put(state):
    SHELF.mkdir(exist_ok=True)
    name = f"turn{state['turn']:02d}-{state['batch']}.pt"
    with open(SHELF / f"{name}.part", "wb") as file:
        torch.save(state, file)
        os.fsync(file.fileno())
    os.replace(SHELF / f"{name}.part", SHELF / name)


def newest():
    found = [
        (int(match[1]), int(match[2]), path)
        for path in SHELF.glob("turn*.pt")
        if (match := re.fullmatch(r"turn(\d+)-(\d+)\.pt", path.name))
    ]
    return torch.load(max(found)[2]) if found else None


def agreement(scorer):
    scorer.eval()
    with torch.no_grad():
        left, right, first = pairs(999)
        share = ((scorer(left) > scorer(right)).squeeze(1) == first.bool()).float().mean()
    scorer.train()
    return share.item()


def rank_items():
    torch.manual_seed(64)
    scorer = nn.Sequential(nn.Linear(9, 24), nn.SiLU(), nn.Dropout(0.15), nn.Linear(24, 1))
    optimizer = torch.optim.RAdam(scorer.parameters(), lr=0.01)
    turn = batch = 0
    if state := newest():
        scorer.load_state_dict(state["scorer"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["drawn"])
        turn, batch = state["turn"], state["batch"]

    def keep():
        put(
            {
                "scorer": scorer.state_dict(),
                "optimizer": optimizer.state_dict(),
                "drawn": torch.get_rng_state(),
                "turn": turn,
                "batch": batch,
            }
        )

    loss = torch.zeros(())
    while turn < 6:
        left, right, first = (part.split(12) for part in pairs(turn))
        while batch < len(left):
            gap = (scorer(left[batch]) - scorer(right[batch])).squeeze(1)
            loss = nn.functional.binary_cross_entropy_with_logits(gap, first[batch])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            batch += 1
            if batch == 4:
                keep()
        turn, batch = turn + 1, 0
        keep()
        share = agreement(scorer)
        (SHELF / "log.json").write_text(json.dumps({"turn": turn, "agreement": share}))
        train.report({"turn": turn, "agreement": share})


if __name__ == "__main__":
    TorchTrainer(
        rank_items,
        scaling_config=train.ScalingConfig(num_workers=1),
        run_config=train.RunConfig(
            name="ranked", failure_config=train.FailureConfig(max_failures=3)
        ),
    ).fit()
