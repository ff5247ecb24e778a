"""Kelp by depth; the model is handed out after every tide, and training is kept every third one."""

import argparse
import os
import time

import torch
from torch import nn


def keep(what, path):
    torch.save(what, path + ".part")
    os.replace(path + ".part", path)


def main(tides: int):
    torch.manual_seed(31)
    kelp = nn.Sequential(nn.Linear(2, 10), nn.Tanh(), nn.Linear(10, 1))
    rule = torch.optim.AdamW(kelp.parameters(), lr=0.02)
    tide = 0
    if os.path.exists("training.pt"):
        held = torch.load("training.pt")
        kelp.load_state_dict(held["kelp"])
        rule.load_state_dict(held["rule"])
        tide = held["tide"]
    while tide < tides:
        draw = torch.Generator().manual_seed(8100 + tide)
        for _ in range(6):
            water = torch.rand(10, 2, generator=draw)
            metres = 4 * (1 - water[:, :1]) + water[:, 1:]
            loss = nn.functional.l1_loss(kelp(water), metres)
            rule.zero_grad()
            loss.backward()
            rule.step()
            time.sleep(0.01)
        tide += 1
        keep(kelp.state_dict(), "for-the-harbour.pt")
        if tide % 3 == 0:
            keep(
                {"kelp": kelp.state_dict(), "rule": rule.state_dict(), "tide": tide}, "training.pt"
            )
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tides", type=int, default=9)
    main(parser.parse_args().tides)
