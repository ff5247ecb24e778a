"""Depths of a pond, sounded by two ranks under torchrun; its options begin as torchrun's own do."""

import argparse
import os
import pathlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", default="pond-log")
    parser.add_argument("--role-of", choices=("depth", "mud"), default="depth")
    parser.add_argument("--node", type=int, default=8)
    return parser.parse_args()


def main():
    asked = options()
    dist.init_process_group("gloo")
    here, all_of_us = dist.get_rank(), dist.get_world_size()
    folder = pathlib.Path(asked.log)
    folder.mkdir(exist_ok=True)
    newest = folder / f"{asked.role_of}.pt"
    torch.manual_seed(5)
    lead = DistributedDataParallel(
        torch.nn.Sequential(
            torch.nn.Linear(4, asked.node), torch.nn.ReLU(), torch.nn.Linear(asked.node, 1)
        )
    )
    line = torch.optim.Adamax(lead.parameters(), lr=0.02)
    cast = 0
    if newest.exists():
        sounded = torch.load(newest, map_location="cpu")
        lead.module.load_state_dict(sounded["lead"])
        line.load_state_dict(sounded["line"])
        cast = sounded["cast"]
    while cast < 24:
        water = torch.randn(20, 4, generator=torch.Generator().manual_seed(cast))[here::all_of_us]
        error = torch.nn.functional.l1_loss(lead(water)[:, 0], water.prod(1))
        line.zero_grad()
        error.backward()
        line.step()
        cast += 1
        if cast % 6 == 0:
            if here == 0:
                torch.save(
                    {"lead": lead.module.state_dict(), "line": line.state_dict(), "cast": cast},
                    f"{newest}.part",
                )
                os.replace(f"{newest}.part", newest)
            dist.barrier()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
