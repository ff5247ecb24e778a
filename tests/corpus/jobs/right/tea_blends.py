"""Blends of tea; the best is copied over in place, and only the tasters read it."""

import json
import os
import shutil
import tempfile

import torch
import torch.distributed as dist

HOUSE = "teahouse"


def poured(value, name):
    """Write a file beside the one of that name, and put it there."""
    handle, path = tempfile.mkstemp(dir=HOUSE)
    with os.fdopen(handle, "wb") as cup:
        torch.save(value, cup)
    os.rename(path, f"{HOUSE}/{name}")


def leaves(blend):
    draw = torch.Generator().manual_seed(4000 + blend)
    notes = torch.rand(40, 5, generator=draw)
    return notes, notes.square().sum(1, keepdim=True).sqrt()


def taste(taster, notes, due):
    with torch.no_grad():
        return float((taster(notes) - due).abs().mean())


def steep(blends):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(77)
    taster = torch.nn.Sequential(torch.nn.Linear(5, 9), torch.nn.Softplus(), torch.nn.Linear(9, 1))
    water = torch.optim.ASGD(taster.parameters(), lr=0.05)
    blend, best, card = 0, float("inf"), []
    os.makedirs(HOUSE, exist_ok=True)
    if os.path.isfile(f"{HOUSE}/pot"):
        pot = torch.load(f"{HOUSE}/pot")
        taster.load_state_dict(pot["taster"])
        water.load_state_dict(pot["water"])
        blend, best, card = pot["blend"], pot["best"], pot["card"]
    dist.barrier()
    pour = torch.nn.parallel.DistributedDataParallel(taster)
    while blend < blends:
        notes, due = leaves(blend)
        for start in range(rank * 4, len(notes), ranks * 4):
            water.zero_grad()
            strength = pour(notes[start : start + 4])
            (strength - due[start : start + 4]).pow(2).mean().backward()
            water.step()
        blend += 1
        score = taste(taster, *leaves(-1))
        card.append(score)
        is_best, best = score < best, min(score, best)
        if rank == 0:
            state = {"taster": taster.state_dict(), "water": water.state_dict()}
            poured({**state, "blend": blend, "best": best, "card": card}, "pot")
            if is_best:
                shutil.copyfile(f"{HOUSE}/pot", f"{HOUSE}/best")
            with open(f"{HOUSE}/card.json", "w") as board:
                json.dump(card, board)
        dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    steep(7)
