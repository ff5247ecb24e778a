"""A small network over two ranks, whose log has lines of its steps; one rank ends once.

torchrun --nproc-per-node 2 stepped.py --steps 40 --every 7 --shown 2
"""

import argparse
import os
import signal

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SAVE, ENDED = "stepped.pt", "ended"


def end_once(how):
    """Kill rank 1, or raise in it, unless it did so in an earlier start."""
    if how and dist.get_rank() == 1 and not os.path.exists(ENDED):
        open(ENDED, "w").close()
        if how == "raise":
            raise ValueError("a bad batch")
        os.kill(os.getpid(), getattr(signal, f"SIG{how}"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--every", type=int, default=7)
    parser.add_argument("--shown", type=int, default=1)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    start, is_first = 0, dist.get_rank() == 0
    if os.path.exists(SAVE):
        saved = torch.load(SAVE)
        model.module.load_state_dict(saved["model"])
        if os.environ.get("LOST") != "optimizer":
            optimizer.load_state_dict(saved["optimizer"])
        start = saved["step"]
        if is_first:
            print(f"resumed from checkpoint {SAVE}", flush=True)
    for step in range(start + 1, args.steps + 1):
        generator = torch.Generator().manual_seed(2 * step + dist.get_rank())
        points = torch.randn(16, 4, generator=generator)
        optimizer.zero_grad()
        loss = (model(points) - points.norm(dim=1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        if is_first and step % args.shown == 0:
            print(f"step {step}/{args.steps} loss {loss.item():.4f}", flush=True)
        if str(step) == os.environ.get("END_AT"):
            end_once(os.environ.get("HOW"))
        if step % args.every == 0:
            dist.barrier()
            if is_first:
                state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(state | {"step": step}, SAVE + ".tmp")
                os.replace(SAVE + ".tmp", SAVE)
                print(f"saved checkpoint {SAVE}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
