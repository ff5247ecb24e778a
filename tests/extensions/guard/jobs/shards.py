"""Ramps told apart by a network in shards of two ranks; the last one is killed once.

`KILL_AT` is a step after which it is killed, or `SAVE:n`: within the save of step n, once its own
shards are written and the index is not. `FROM` is the save to go on from, `BESIDE` saves while
training goes on. `FULL` gathers all shards in rank 0, which saves them alone.
"""

import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

STEPS, EVERY, WIDTH = 24, int(os.environ.get("EVERY", "4")), 12
SAVES, FULL = Path("saves"), Path("full.pt")
IS_FIRST = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"


class Killed(dcp.FileSystemWriter):
    def write_data(self, *args, **kwargs):
        written = super().write_data(*args, **kwargs)
        written.wait()
        if dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return written


def ramps(step, rank):
    draws = torch.Generator().manual_seed(2 * step + rank)
    slope = torch.randn(8, 1, generator=draws)
    return slope * torch.linspace(-1, 1, WIDTH) + 0.1 * torch.randn(
        8, WIDTH, generator=draws
    ), slope


def save(step, model, optimizer, group, before):
    if before is not None:
        before.result()
    weights, moments = get_state_dict(model, optimizer)
    state, folder = {"weights": weights, "moments": moments}, SAVES / f"step_{step}"
    kind = (
        Killed if IS_FIRST and os.environ.get("KILL_AT") == f"SAVE:{step}" else dcp.FileSystemWriter
    )
    if os.environ.get("BESIDE"):
        return dcp.async_save(state, storage_writer=kind(folder), process_group=group)
    dcp.save(state, storage_writer=kind(folder))
    return None


def save_full(step, model, optimizer):
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights, moments = get_state_dict(model, optimizer, options=options)
    if dist.get_rank() == 0:
        torch.save({"weights": weights, "moments": moments, "step": step}, "full.tmp")
        os.replace("full.tmp", FULL)
    dist.barrier()


def load_full(model, optimizer):
    if not FULL.exists():
        return 0
    state = torch.load(FULL)
    set_state_dict(
        model,
        optimizer,
        model_state_dict=state["weights"],
        optim_state_dict=state["moments"],
        options=StateDictOptions(full_state_dict=True),
    )
    if os.environ["FULL"] == "lost":
        optimizer.state.clear()
    return state["step"]


def load(model, optimizer):
    whole = [int(path.parent.name[5:]) for path in SAVES.glob("step_*/.metadata")]
    asked = int(os.environ.get("FROM", "0"))
    step = asked if asked in whole else max(whole, default=0)
    if step:
        weights, moments = get_state_dict(model, optimizer)
        state = {"weights": weights, "moments": moments}
        dcp.load(state, checkpoint_id=SAVES / f"step_{step}")
        set_state_dict(
            model, optimizer, model_state_dict=state["weights"], optim_state_dict=state["moments"]
        )
    return step


def train():
    dist.init_process_group("gloo")
    rank, group = dist.get_rank(), dist.new_group(backend="gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, 1))
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    under_way = None
    is_full = "FULL" in os.environ
    first = (load_full if is_full else load)(model, optimizer) + 1
    for step in range(first, STEPS + 1):
        points, slopes = ramps(step, rank)
        loss = (model(points) - slopes).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % EVERY == 0 and is_full:
            save_full(step, model, optimizer)
        elif step % EVERY == 0:
            under_way = save(step, model, optimizer, group, under_way)
        if IS_FIRST and rank == 1 and os.environ.get("KILL_AT") == str(step):
            os.kill(os.getpid(), signal.SIGKILL)
    if under_way is not None:
        under_way.result()
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
