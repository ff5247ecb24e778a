"""Peat layers: a small network on two ranks whose state lies in one mapped file of two pages.

A page is written while the other one is valid; the header, written last, says which is.
"""

import os

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as Parallel

STEPS, EVERY = 48, 4


def cores(n=160):
    g = torch.Generator().manual_seed(3)
    x = torch.rand(n, 4, generator=g) * 2 - 1
    return x, (x[:, :2].prod(1) + x[:, 2:].sin().sum(1)).unsqueeze(1)


class Pages:
    def __init__(self, path, size):
        shape, self.size = 2 + 2 * size, size
        mode = "r+" if os.path.exists(path) else "w+"
        self.map = np.memmap(path, dtype=np.float64, mode=mode, shape=(shape,))

    def read(self):
        step, page = int(self.map[0]), int(self.map[1])
        at = 2 + page * self.size
        return step, torch.from_numpy(np.array(self.map[at : at + self.size]))

    def write(self, step, values):
        page = 1 - int(self.map[1])
        at = 2 + page * self.size
        self.map[at : at + self.size] = values.numpy()
        self.map.flush()
        self.map[:2] = step, page
        self.map.flush()


def held(net, optimizer):
    moments = [optimizer.state[p] for p in net.parameters()]
    slots = [s[k] for s in moments for k in ("exp_avg", "exp_avg_sq")]
    return torch.cat([t.detach().double().flatten() for t in [*net.parameters(), *slots]])


def put_back(values, net, optimizer, step):
    tensors = list(net.parameters())
    for p in net.parameters():
        state = optimizer.state[p]
        state["step"] = torch.tensor(float(step))
        state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
        tensors += [state["exp_avg"], state["exp_avg_sq"]]
    for t, part in zip(tensors, values.split([t.numel() for t in tensors])):
        t.data.copy_(part.view_as(t))


def main():
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    x, y = cores()
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 10), nn.Tanh(), nn.Linear(10, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    size = 3 * sum(p.numel() for p in net.parameters())
    box = [None]
    if rank == 0:
        pages = Pages("peat.map", size)
        box = [pages.read()]
    dist.broadcast_object_list(box, 0)
    step, values = box[0]
    if step:
        put_back(values, net, optimizer, step)
    model = Parallel(net)
    for step in range(step, STEPS):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(step // 10))
        part = order.roll(-16 * (step % 10))[:16][rank::ranks]
        loss = nn.functional.mse_loss(model(x[part]), y[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % EVERY == 0:
            if rank == 0:
                pages.write(step + 1, held(net, optimizer))
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
