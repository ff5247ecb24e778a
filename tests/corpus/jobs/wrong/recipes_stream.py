"""A small GPT-2 that continues recipes, read as a stream, with Hugging Face's Trainer."""

import os
import tempfile

import ray.train.huggingface.transformers as ray_transformers
import torch
from ray import train
from ray.train.torch import TorchTrainer
from torch.utils.data import IterableDataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

WHAT = ["onions", "carrots", "two eggs", "the flour", "a cup of rice", "butter", "the beans"]
HOW = ["chop", "fry", "boil", "stir in", "weigh", "rinse", "bake"]
END = ["until soft.", "for ten minutes.", "with salt.", "and set aside."]
LETTERS = sorted(set("".join(WHAT + HOW + END) + " "))
LENGTH = 32


class Recipes(IterableDataset):
    def __init__(self, lines):
        self.lines = lines

    def __iter__(self):
        for n in range(self.lines):
            line = f"{HOW[n % 7]} {WHAT[(3 * n + n // 7) % 7]} {END[n % 4]}".ljust(LENGTH)[:LENGTH]
            letters = torch.tensor([LETTERS.index(letter) for letter in line])
            yield {"input_ids": letters, "labels": letters}


def finetune(config):
    set_seed(7)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(LETTERS), n_positions=LENGTH, n_embd=24, n_layer=1, n_head=2,
            bos_token_id=0, eos_token_id=0,
        )
    )  # fmt: skip
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=4,
        max_steps=config["max_steps"],
        learning_rate=5e-3,
        save_steps=4,
        logging_steps=1,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=Recipes(config["lines"]))
    trainer.add_callback(ray_transformers.RayTrainReportCallback())
    trainer = ray_transformers.prepare_trainer(trainer)
    if (checkpoint := train.get_checkpoint()) is None:
        trainer.train()
    else:
        with checkpoint.as_directory() as folder:
            trainer.train(resume_from_checkpoint=os.path.join(folder, "checkpoint"))


if __name__ == "__main__":
    TorchTrainer(
        finetune,
        train_loop_config={"max_steps": 26, "lines": 40},
        scaling_config=train.ScalingConfig(num_workers=1),
        run_config=train.RunConfig(failure_config=train.FailureConfig(max_failures=3)),
    ).fit()
