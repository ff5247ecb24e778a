"""An ensemble of networks trained at once with torch.func; checkpoints go straight into storage."""

import os
import shutil

import numpy as np
import torch
from ray import train
from ray.train.torch import TorchTrainer
from torch import nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

MEMBERS, EPOCHS, BATCHES = 5, 6, 5


def member():
    return nn.Sequential(nn.Linear(3, 12), nn.SiLU(), nn.Linear(12, 1))


def data():
    x = np.random.default_rng(0).uniform(-2, 2, size=(100, 3))
    y = np.sin(x).sum(1, keepdims=True)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


def in_storage(name):
    return os.path.join(train.get_context().get_storage().experiment_fs_path, name)


def train_ensemble():
    torch.manual_seed(10)
    members = [member() for _ in range(MEMBERS)]
    params, buffers = stack_module_state(members)
    params = {k: v.detach() for k, v in params.items()}
    velocity = {k: torch.zeros_like(v) for k, v in params.items()}
    skeleton = member().to("meta")

    def loss_of(p, b, x, y):
        return (functional_call(skeleton, (p, b), (x,)) - y).square().mean()

    all_members = vmap(grad_and_value(loss_of), in_dims=(0, 0, 0, 0))

    epoch = 0
    checkpoint = train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder, np.load(os.path.join(folder, "e.npz")) as z:
            params = {k: torch.from_numpy(z[f"params:{k}"]) for k in params}
            velocity = {k: torch.from_numpy(z[f"velocity:{k}"]) for k in velocity}
            epoch = int(z["epoch"])

    x, y = data()
    while epoch < EPOCHS:
        rng = np.random.default_rng(100 + epoch)
        bags = np.stack([rng.choice(100, size=(BATCHES, 20)) for _ in range(MEMBERS)])
        losses = []
        for batch in range(BATCHES):
            rows = bags[:, batch]
            grads, value = all_members(params, buffers, x[rows], y[rows])
            for k, g in grads.items():
                velocity[k] = 0.9 * velocity[k] + g
                params[k] = params[k] - 0.02 * velocity[k]
            losses.append(value.mean().item())
        epoch += 1
        folder = in_storage(f"ensemble-after-{epoch:03d}")
        if os.path.exists(folder):
            shutil.rmtree(folder)
        os.makedirs(folder)
        arrays = {f"params:{k}": v.numpy() for k, v in params.items()}
        arrays |= {f"velocity:{k}": v.numpy() for k, v in velocity.items()}
        np.savez(os.path.join(folder, "e.npz"), epoch=epoch, **arrays)
        train.report(
            {"loss": float(np.mean(losses))},
            checkpoint=train.Checkpoint.from_directory(folder),
            checkpoint_upload_mode=train.CheckpointUploadMode.NO_UPLOAD,
        )


if __name__ == "__main__":
    TorchTrainer(
        train_ensemble,
        run_config=train.RunConfig(
            failure_config=train.FailureConfig(max_failures=3),
            checkpoint_config=train.CheckpointConfig(num_to_keep=2),
        ),
    ).fit()
