"""Train a tiny language model with FSDP2; torch.distributed.checkpoint keeps the last two saves.

torchrun --nproc-per-node 2 fsdp.py --steps 12 --save-every 4
"""

import argparse
import os
import shutil

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

FOLDER = "checkpoints"
LATEST = os.path.join(FOLDER, "latest")
VOCABULARY, CONTEXT = 32, 16


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self, width=16, depth=2):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def batch_of(step, rank, size=8):
    """The batch of one step follows from its number alone."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    start = torch.randint(VOCABULARY, (size, 1), generator=generator)
    tokens = (start + torch.arange(CONTEXT + 1)) % VOCABULARY
    return tokens[:, :-1], tokens[:, 1:]


def save(model, optimizer, step):
    name = f"step-{step}"
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "step": torch.tensor(step)}
    dcp.save(state, checkpoint_id=os.path.join(FOLDER, name))
    if dist.get_rank() == 0:
        with open(LATEST + ".tmp", "w") as file:
            file.write(name)
        os.replace(LATEST + ".tmp", LATEST)
        saved = [n for n in os.listdir(FOLDER) if n.startswith("step-")]
        for old in sorted(saved, key=lambda n: int(n[5:]))[:-2]:
            shutil.rmtree(os.path.join(FOLDER, old))
    dist.barrier()


def load(model, optimizer):
    """Return the number of the step that the newest checkpoint was saved after."""
    if not os.path.exists(LATEST):
        return 0
    with open(LATEST) as file:
        name = file.read().strip()
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "step": torch.tensor(0)}
    dcp.load(state, checkpoint_id=os.path.join(FOLDER, name))
    set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
    )
    return int(state["step"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--save-every", type=int, default=4)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = Model()
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    start = load(model, optimizer)
    for step in range(start + 1, args.steps + 1):
        tokens, targets = batch_of(step, rank)
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % args.save_every == 0:
            save(model, optimizer, step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
