"""Uses every part of Ray Train's worker API and reports what it was given."""

import os
import tempfile

import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint, CheckpointConfig, RunConfig, ScalingConfig
from ray.train.collective import barrier, broadcast_from_rank_zero
from ray.train.torch import TorchTrainer


def train_loop():
    context = ray.train.get_context()
    rank = context.get_world_rank()
    model = ray.train.torch.prepare_model(torch.nn.Linear(2, 1))
    data = torch.utils.data.TensorDataset(torch.ones(8, 2))
    loader = ray.train.torch.prepare_data_loader(torch.utils.data.DataLoader(data, batch_size=2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch, score in enumerate([0.3, 0.9, 0.5, 0.1]):
        for (batch,) in loader:
            optimizer.zero_grad()
            model(batch).mean().backward()
            optimizer.step()
        barrier()
        told = broadcast_from_rank_zero({"from": rank})
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, f"part-{rank}.txt"), "w") as file:
                file.write(str(epoch))
            ray.train.report(
                {
                    "epoch": epoch,
                    "score": score,
                    "told": told["from"],
                    "batches": len(loader),
                    "world": context.get_world_size(),
                    "node rank": context.get_node_rank(),
                    "device": str(ray.train.torch.get_device()),
                    "preempted": ray.train.get_preemption_info() is not None,
                    "reported": len(ray.train.get_all_reported_checkpoints()),
                },
                checkpoint=Checkpoint.from_directory(folder),
                checkpoint_dir_name=f"checkpoint_{epoch}",
            )


if __name__ == "__main__":
    result = TorchTrainer(
        train_loop,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            checkpoint_config=CheckpointConfig(
                num_to_keep=1, checkpoint_score_attribute="score", checkpoint_score_order="max"
            )
        ),
    ).fit()
    kept = sorted(os.path.basename(c.path) for c, _ in result.best_checkpoints)
    parts = sorted(os.listdir(result.checkpoint.path))
    print(f"latest {os.path.basename(result.checkpoint.path)} kept {kept} parts {parts}")
