"""Train a tiny network on handwritten digits with Hugging Face's Trainer, on Ray Train.

The model is made from a configuration, with random weights: nothing is downloaded.
"""

import argparse
import os
import tempfile

import ray.train
import ray.train.huggingface.transformers
import torch
from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_digits
from torch.utils.data import Dataset
from transformers import (
    ConvNextConfig,
    ConvNextForImageClassification,
    Trainer,
    TrainingArguments,
    ViTConfig,
    ViTForImageClassification,
    set_seed,
)


class Digits(Dataset):
    def __init__(self, count):
        digits = load_digits()
        self.images = torch.tensor(digits.images[:count] / 16.0, dtype=torch.float32).unsqueeze(1)
        self.labels = torch.tensor(digits.target[:count], dtype=torch.int64)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {"pixel_values": self.images[index], "labels": self.labels[index]}


def build_model(kind):
    if kind == "convnext":
        config = ConvNextConfig(
            num_channels=1,
            num_labels=10,
            patch_size=2,
            num_stages=2,
            hidden_sizes=[16, 32],
            depths=[1, 1],
            drop_path_rate=0.1,
        )
        return ConvNextForImageClassification(config)
    config = ViTConfig(
        image_size=8,
        patch_size=2,
        num_channels=1,
        num_labels=10,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        hidden_dropout_prob=0.1,
    )
    return ViTForImageClassification(config)


def train_loop(config):
    set_seed(config["seed"])
    model = build_model(config["model"])
    args = TrainingArguments(
        output_dir=tempfile.mkdtemp(),  # what is in it already is taken for a checkpoint of ours
        num_train_epochs=config["epochs"],
        per_device_train_batch_size=config["batch_size"],
        learning_rate=config["lr"],
        lr_scheduler_type="cosine",
        eval_strategy="no",
        save_strategy="epoch",
        logging_strategy="epoch",
        save_only_model=config["weights_only"],
        seed=config["seed"],
        use_cpu=not torch.cuda.is_available(),
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=args, train_dataset=Digits(config["images"]))
    callback = ray.train.huggingface.transformers.RayTrainReportCallback()
    trainer.add_callback(callback)
    trainer = ray.train.huggingface.transformers.prepare_trainer(trainer)
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as directory:
            trainer.train(resume_from_checkpoint=os.path.join(directory, callback.CHECKPOINT_NAME))
    else:
        trainer.train()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--model", choices=["convnext", "vit"], default="convnext")
    parser.add_argument("--images", type=int, default=512, help="of scikit-learn's 1,797 digits")
    parser.add_argument("--batch-size", type=int, default=32, help="per worker")
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--weights-only", action="store_true", help="save the model, and no optimizer"
    )
    args = parser.parse_args()

    trainer = TorchTrainer(
        train_loop,
        train_loop_config=vars(args),
        scaling_config=ScalingConfig(num_workers=args.workers, use_gpu=torch.cuda.is_available()),
        run_config=RunConfig(
            name="digits-transformers",
            failure_config=FailureConfig(max_failures=3),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )
    result = trainer.fit()
    print(f"finished: {result.metrics}")


if __name__ == "__main__":
    main()
