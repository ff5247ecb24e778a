"""Distributed autoencoder training; sharded snapshots with torch.distributed.checkpoint."""

import argparse
import hashlib
import os
import shutil

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn as nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel


def make_data(n=640, dim=24):
    g = torch.Generator().manual_seed(99)
    basis = torch.randn(4, dim, generator=g)
    return torch.randn(n, 4, generator=g) @ basis + 0.1 * torch.randn(n, dim, generator=g)


class DAE(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(dim, 32), nn.SiLU(), nn.Dropout(0.1), nn.Linear(32, 6))
        self.dec = nn.Sequential(nn.Linear(6, 32), nn.SiLU(), nn.Linear(32, dim))

    def forward(self, x):
        return self.dec(self.enc(x + 0.2 * torch.randn_like(x)))


class Snapshots:
    """snap-N folders; a folder is visible under its final name only when every rank has written it."""

    def __init__(self, root, rank):
        self.root, self.rank = root, rank
        if rank == 0:
            os.makedirs(root, exist_ok=True)
            for name in os.listdir(root):
                if name.startswith("."):
                    shutil.rmtree(os.path.join(root, name))
        dist.barrier()

    def steps(self):
        return sorted(int(n[5:]) for n in os.listdir(self.root) if n.startswith("snap-"))

    def write(self, step, state):
        hidden = os.path.join(self.root, f".snap-{step}")
        final = os.path.join(self.root, f"snap-{step}")
        dcp.save(state, checkpoint_id=hidden)
        dist.barrier()
        if self.rank == 0:
            if os.path.isdir(final):
                os.rename(final, os.path.join(self.root, f".old-{step}"))
            os.rename(hidden, final)
            for old in self.steps()[:-2]:
                trash = os.path.join(self.root, f".trash-{old}")
                os.rename(os.path.join(self.root, f"snap-{old}"), trash)
                shutil.rmtree(trash)
        dist.barrier()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--root", default="snapshots")
    a = p.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    data = make_data()
    torch.manual_seed(0)
    model = DistributedDataParallel(DAE())
    opt = torch.optim.NAdam(model.parameters(), lr=3e-3)
    snaps = Snapshots(a.root, rank)
    per_epoch = len(data) // (a.batch * world)
    step, acc = 0, torch.zeros(2, dtype=torch.float64)
    torch.manual_seed(1000 + rank)

    def pack():
        m, o = get_state_dict(model, opt)
        return {
            "model": m,
            "optim": o,
            "step": torch.tensor(step),
            f"rng.{rank}": torch.get_rng_state(),
            f"acc.{rank}": acc,
        }

    known = snaps.steps()
    if known:
        # materialise the optimizer's state so that it can be loaded in place
        for q in model.parameters():
            q.grad = torch.zeros_like(q)
        opt.step()
        opt.zero_grad()
        state = pack()
        dcp.load(state, checkpoint_id=os.path.join(a.root, f"snap-{known[-1]}"))
        set_state_dict(model, opt, model_state_dict=state["model"], optim_state_dict=state["optim"])
        step, acc = int(state["step"]), state[f"acc.{rank}"]
        torch.set_rng_state(state[f"rng.{rank}"])
        if rank == 0:
            print(f"resuming at step {step}")

    while step < a.epochs * per_epoch:
        epoch, k = divmod(step, per_epoch)
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(500 + epoch))
        rows = order[k * a.batch * world : (k + 1) * a.batch * world][rank::world]
        x = data[rows]
        loss = (model(x) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        acc += torch.tensor([loss.item(), 1.0], dtype=torch.float64)
        if rank == 0:
            print(f"step {step} mse {loss.item():.6f}")
        if step % per_epoch == 0:
            tot = acc.clone()
            dist.all_reduce(tot)
            if rank == 0:
                print(f"epoch {epoch} mean {tot[0] / tot[1]:.6f} over {int(tot[1])}")
            acc = torch.zeros(2, dtype=torch.float64)
        if step % 7 == 0 or step == a.epochs * per_epoch:
            snaps.write(step, pack())
    if rank == 0:
        v = torch.cat([q.detach().flatten() for q in model.parameters()]).numpy().tobytes()
        print("final", hashlib.sha256(v).hexdigest()[:32])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
