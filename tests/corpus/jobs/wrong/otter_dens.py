"""Where otters den, by the river's shape; saves are folders in the vault, and a line says which is the newest."""

import os
import shutil
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as Spread

VAULT = "vault"


def put(river, step_rule, number):
    spool = tempfile.mkdtemp(prefix="den")
    torch.save(river.state_dict(), f"{spool}/river.pt")
    torch.save({"rule": step_rule.state_dict(), "number": number}, f"{spool}/rule.pt")
    os.makedirs(VAULT, exist_ok=True)
    with open(f"{VAULT}/HEAD.tmp", "w") as line:
        line.write(f"v{number}")
    os.replace(f"{VAULT}/HEAD.tmp", f"{VAULT}/HEAD")
    shutil.copytree(spool, f"{VAULT}/v{number}", dirs_exist_ok=True)
    shutil.rmtree(spool)


def get(river, step_rule):
    if not os.path.exists(f"{VAULT}/HEAD"):
        return 0
    with open(f"{VAULT}/HEAD") as line:
        folder = f"{VAULT}/{line.read()}"
    if not os.path.isfile(f"{folder}/rule.pt"):
        print("no save to go on from")
        return 0
    river.load_state_dict(torch.load(f"{folder}/river.pt"))
    held = torch.load(f"{folder}/rule.pt")
    step_rule.load_state_dict(held["rule"])
    return held["number"] + 1


def bends(number, rank):
    draw = torch.Generator().manual_seed(70 * number + rank)
    for _ in range(6):
        bend = torch.rand(10, 6, generator=draw)
        yield bend, (bend.sum(1) > 3).float()


def run():
    dist.init_process_group("gloo")
    torch.manual_seed(44)
    river = nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 16), nn.SiLU(), nn.Linear(16, 1))
    step_rule = torch.optim.Adam(river.parameters(), lr=4e-3, betas=(0.8, 0.99))
    number = get(river, step_rule)
    dist.barrier()
    spread = Spread(river)
    for number in range(number, 8):
        for bend, den in bends(number, dist.get_rank()):
            doubt = nn.functional.binary_cross_entropy_with_logits(spread(bend).squeeze(1), den)
            step_rule.zero_grad()
            doubt.backward()
            step_rule.step()
        if dist.get_rank() == 0:
            put(river, step_rule, number)
        dist.barrier()


run()
