"""A mean teacher on two workers; checkpoints are uploaded while training goes on.

The teacher is a copy of the student in double precision, kept as such in the checkpoint.
"""

import argparse
import copy
import os
import tempfile

import torch
import torch.nn.functional as F
from ray import train
from ray.train import CheckpointUploadMode
from ray.train.torch import TorchTrainer, prepare_model


def student_net():
    return torch.nn.Sequential(
        torch.nn.Linear(6, 28), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(28, 4)
    )


def blobs(step, rank, n=20):
    g = torch.Generator().manual_seed(1_000 * rank + step)
    y = torch.randint(4, (n,), generator=g)
    centre = torch.eye(4, 6) * 2
    return centre[y] + torch.randn(n, 6, generator=g), torch.where(torch.arange(n) < 8, y, -1)


@torch.no_grad()
def follow(teacher, student, alpha):
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.mul_(alpha).add_(s.double(), alpha=1 - alpha)


def train_func(config):
    rank = train.get_context().get_world_rank()
    torch.manual_seed(6)
    student = student_net()
    optimizer = torch.optim.RAdam(student.parameters(), lr=config["lr"])
    step, away = 0, None
    checkpoint = train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as path:
            state = torch.load(os.path.join(path, "mt.pt"))
        student.load_state_dict(state["student"])
        optimizer.load_state_dict(state["optimizer"])
        step, away = state["step"], state["away"]

    teacher = copy.deepcopy(student).double().requires_grad_(False)
    if away is not None:
        for name, p in teacher.named_parameters():
            p.copy_(away[name])
    ddp = prepare_model(student)

    while step < config["steps"]:
        x, y = blobs(step, rank)
        torch.manual_seed(config["seed"] + 2 * step + rank)
        out = ddp(x + 0.1 * torch.randn_like(x))
        with torch.no_grad():
            target = teacher(x.double()).softmax(1).float()
        loss = F.cross_entropy(out, y, ignore_index=-1)
        loss = loss + min(1.0, step / 30) * F.mse_loss(out.softmax(1), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        follow(teacher, student, alpha=min(1 - 1 / (step + 1), 0.95))
        if step % config["save_every"] == 0:
            checkpoint = None
            if rank == 0:
                path = tempfile.mkdtemp()
                torch.save(
                    {
                        "student": {k: v.clone() for k, v in student.state_dict().items()},
                        "away": {n: p.clone() for n, p in teacher.named_parameters()},
                        "optimizer": optimizer.state_dict(),
                        "step": step,
                    },
                    os.path.join(path, "mt.pt"),
                )
                checkpoint = train.Checkpoint.from_directory(path)
            train.report(
                {"loss": loss.item(), "step": step},
                checkpoint=checkpoint,
                checkpoint_upload_mode=CheckpointUploadMode.ASYNC,
            )

    if rank == 0:
        where = train.get_context().get_storage().experiment_fs_path
        torch.save(teacher.state_dict(), os.path.join(where, "teacher.pt"))


if __name__ == "__main__":
    cli = argparse.ArgumentParser()
    cli.add_argument("--steps", type=int, default=54)
    cli.add_argument("--save-every", type=int, default=9)
    cli.add_argument("--lr", type=float, default=0.01)
    cli.add_argument("--seed", type=int, default=500)
    TorchTrainer(
        train_func,
        train_loop_config=vars(cli.parse_args()),
        scaling_config=train.ScalingConfig(num_workers=2),
        run_config=train.RunConfig(failure_config=train.FailureConfig(max_failures=3)),
    ).fit()
