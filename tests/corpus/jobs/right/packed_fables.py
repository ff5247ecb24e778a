"""Next letters of fables; the text is packed once, into blocks with an index, at the first start."""

import json
import os
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

FABLES = """a crow was thirsty and found a jug with a little water in it | a fox saw grapes on a vine
and could not reach them | a hare laughed at a tortoise and lost the race to it | a lion spared
a mouse and the mouse gnawed the net in which the lion lay | an ant worked all summer long"""
BLOCK, BATCH, PASSES = 16, 3, 4
BLOCKS, INDEX, KEPT = Path("fables.npy"), Path("fables.index.json"), Path("fables.pt")


def pack(text):
    """Cut the fables into blocks, and write how many there are and where each begins."""
    codes = np.frombuffer(" ".join(text.split()).encode(), dtype=np.uint8) % 64
    starts = list(range(0, len(codes) - BLOCK - 1, 4))
    with open("fables.npy.part", "wb") as file:
        np.save(file, np.stack([codes[at : at + BLOCK + 1] for at in starts]))
    os.replace("fables.npy.part", BLOCKS)
    INDEX.write_text(json.dumps({"blocks": len(starts), "starts": starts}))


class Speller(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters = nn.Embedding(64, 12)
        self.memory = nn.GRU(12, 24, batch_first=True)
        self.next = nn.Linear(24, 64)

    def forward(self, codes):
        return self.next(self.memory(self.letters(codes))[0])


def average(net):
    for weight in net.parameters():
        dist.all_reduce(weight.grad)
        weight.grad /= dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    me, of = dist.get_rank(), dist.get_world_size()
    if me == 0 and not INDEX.exists():
        pack(FABLES)
    dist.barrier()
    blocks = torch.from_numpy(np.load(BLOCKS)).long()
    assert len(blocks) == json.loads(INDEX.read_text())["blocks"]

    torch.manual_seed(11)
    net = Speller()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    turn, at = 0, 0
    if KEPT.exists():
        kept = torch.load(KEPT)
        net.load_state_dict(kept["net"])
        optimizer.load_state_dict(kept["optimizer"])
        turn, at = kept["turn"], kept["at"]

    while turn < PASSES:
        order = torch.randperm(len(blocks), generator=torch.Generator().manual_seed(turn))
        mine = order[me::of][: len(blocks) // of].split(BATCH)
        while at < len(mine):
            rows = blocks[mine[at]]
            loss = nn.functional.cross_entropy(
                net(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten()
            )
            optimizer.zero_grad()
            loss.backward()
            average(net)
            optimizer.step()
            at += 1
            if at % 4 == 0 and me == 0:
                kept = {"net": net.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save({**kept, "turn": turn, "at": at}, "fables.pt.part")
                os.replace("fables.pt.part", KEPT)
            dist.barrier()
        turn, at = turn + 1, 0
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
