"""An LSTM that reads a text letter by letter; its memory is gathered from both workers and saved."""

import os
import tempfile

import torch
import torch.distributed as dist
from ray import train
from ray.train.torch import TorchTrainer

TEXT = (
    "a stream is read in pieces and each piece begins where the last one ended, "
    "so the memory of a recurrent network goes on from piece to piece. "
) * 12
LETTERS = sorted(set(TEXT))
LANES, PIECE, HIDDEN = 4, 12, 16


class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(len(LETTERS), 8)
        self.lstm = torch.nn.LSTM(8, HIDDEN)
        self.out = torch.nn.Linear(HIDDEN, len(LETTERS))
        self.memory = None

    def forward(self, letters):
        y, memory = self.lstm(self.embed(letters), self.memory)
        self.memory = tuple(m.detach() for m in memory)
        return self.out(y)


def lanes_of(rank, world):
    codes = torch.tensor([LETTERS.index(c) for c in TEXT])
    length = len(codes) // (LANES * world)
    return codes[: length * LANES * world].view(LANES * world, length)[rank::world].T.contiguous()


def gathered(tensor, world):
    out = [torch.empty_like(tensor) for _ in range(world)]
    dist.all_gather(out, tensor.contiguous())
    return out


def loop(config):
    rank, world = train.get_context().get_world_rank(), train.get_context().get_world_size()
    lanes = lanes_of(rank, world)
    pieces = (len(lanes) - 1) // PIECE
    torch.manual_seed(99)
    reader = Reader()
    opt = torch.optim.Rprop(reader.parameters(), lr=1e-3, step_sizes=(1e-6, 0.02))
    n = 0
    if train.get_checkpoint():
        with train.get_checkpoint().as_directory() as d:
            saved = torch.load(os.path.join(d, "reader.pt"))
        reader.load_state_dict(saved["reader"])
        opt.load_state_dict(saved["opt"])
        if saved["memory"] is not None:
            reader.memory = tuple(per_rank[rank] for per_rank in saved["memory"])
        n = saved["n"]

    while n < config["pieces"]:
        where = n % pieces
        if where == 0:
            reader.memory = None
        chunk = lanes[where * PIECE : (where + 1) * PIECE + 1]
        logits = reader(chunk[:-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), chunk[1:].flatten())
        loss.backward()
        for p in reader.parameters():
            dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
        opt.step()
        opt.zero_grad()
        n += 1
        if n % 7 and n != config["pieces"]:
            continue
        memory = [gathered(m, world) for m in reader.memory]
        checkpoint = None
        if rank == 0:
            folder = tempfile.mkdtemp()
            torch.save(
                {
                    "reader": reader.state_dict(),
                    "opt": opt.state_dict(),
                    "memory": memory,
                    "n": n,
                },
                os.path.join(folder, "reader.pt"),
            )
            checkpoint = train.Checkpoint.from_directory(folder)
        train.report({"nats": loss.item(), "n": n}, checkpoint=checkpoint)


if __name__ == "__main__":
    TorchTrainer(
        loop,
        train_loop_config={"pieces": 45},
        scaling_config=train.ScalingConfig(num_workers=2),
        run_config=train.RunConfig(failure_config=train.FailureConfig(max_failures=3)),
    ).fit()
