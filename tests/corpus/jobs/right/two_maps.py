"""Heights of a river by harmonics; weights lie in two memory maps that stay open, written in turn."""

import hashlib
import math
import os

import numpy as np
import torch
import torch.distributed as dist

TERMS, HOURS, LAST, OFTEN = 12, 240, 48, 6
HEAD = 5  # one number that says the step, four of a checksum


class Maps:
    """Two halves of the state's history: a half counts once its head is that of its body."""

    def __init__(self, size):
        self.size = size
        self.halves = [self._open(f"heights-{which}.map") for which in "ab"]

    def _open(self, path):
        if not os.path.exists(path):
            with open(path + ".new", "wb") as file:
                file.truncate(8 * (HEAD + self.size))
            os.replace(path + ".new", path)
        return np.memmap(path, dtype=np.float64, mode="r+")

    def put(self, step, body):
        half = self.halves[step // OFTEN % 2]
        half[:HEAD] = 0
        half.flush()
        half[HEAD:] = body
        half.flush()
        half[:HEAD] = [step, *self._sum(half[HEAD:])]
        half.flush()

    def get(self):
        whole = [
            half
            for half in self.halves
            if half[0] and tuple(half[1:HEAD]) == self._sum(half[HEAD:])
        ]
        newest = max(whole, key=lambda half: half[0], default=None)
        return None if newest is None else (int(newest[0]), np.array(newest[HEAD:]))

    @staticmethod
    def _sum(body):
        return tuple(float(part) for part in hashlib.md5(body.tobytes()).digest()[:4])


def harmonics(hours):
    waves = torch.arange(1, TERMS // 2 + 1, dtype=torch.float64)
    return torch.cat([(hours[:, None] * waves / 24).sin(), (hours[:, None] * waves / 24).cos()], 1)


def main():
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    weights = torch.zeros(TERMS, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=0.05, momentum=0.9)
    moved = torch.zeros(TERMS, dtype=torch.float64)
    maps = Maps(2 * TERMS) if rank == 0 else None
    found = [maps.get() if rank == 0 else None]
    dist.broadcast_object_list(found, 0)
    step = 0
    if found[0] is not None:
        step, body = found[0]
        with torch.no_grad():
            weights.copy_(torch.from_numpy(body[:TERMS]))
        moved.copy_(torch.from_numpy(body[TERMS:]))
        optimizer.state[weights]["momentum_buffer"] = moved.clone()
    for step in range(step, LAST):
        hours = torch.arange(step * 7 + rank, step * 7 + HOURS, ranks, dtype=torch.float64)
        due = (hours / 24 * 2).sin() + 0.3 * (hours / 24 * 5 + math.pi / 5).cos()
        loss = ((harmonics(hours) @ weights - due) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        dist.all_reduce(weights.grad)
        weights.grad /= ranks
        optimizer.step()
        if (step + 1) % OFTEN == 0:
            if rank == 0:
                buffer = optimizer.state[weights]["momentum_buffer"]
                maps.put(step + 1, torch.cat([weights.detach(), buffer]).numpy())
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
