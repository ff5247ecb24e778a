"""torch.distributed.checkpoint, a folder for every epoch, the newest with its metadata read."""

import shutil
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel

IS_BESIDE = sys.argv[1] == "async"
SAVES = Path("saves")

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(3)
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)


def state() -> dict[str, object]:
    model, of_optimizer = get_state_dict(net, optimizer)
    return {"model": model, "optimizer": of_optimizer}


whole = [int(f.parent.name) for f in SAVES.glob("*/.metadata")]
begun = max(whole, default=0)
if begun:
    found = state()
    dcp.load(found, checkpoint_id=str(SAVES / str(begun)))
    set_state_dict(
        net, optimizer, model_state_dict=found["model"], optim_state_dict=found["optimizer"]
    )
dist.barrier()
both, saving = DistributedDataParallel(net), None
# A save beside training must not meet training's own collectives in one group: both would wait.
beside = dist.new_group()
for epoch in range(begun, 5):
    rows = torch.rand(48, 4, generator=torch.Generator().manual_seed(epoch))
    for batch in rows[rank::ranks].split(4):
        optimizer.zero_grad()
        (both(batch) - batch.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
    if saving is not None:
        saving.result()
    folder = str(SAVES / str(epoch + 1))
    if IS_BESIDE:
        saving = dcp.async_save(state(), checkpoint_id=folder, process_group=beside)
    else:
        dcp.save(state(), checkpoint_id=folder)
    dist.barrier()
    if rank == 0 and epoch > 2:
        shutil.rmtree(SAVES / str(epoch - 2), ignore_errors=True)
if saving is not None:
    saving.result()
dist.destroy_process_group()
