"""A small GPT-2 on reports of the weather, read as a stream; the Trainer under torchrun."""

import torch
import torch.distributed as dist
from pathlib import Path
from torch.utils.data import IterableDataset
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

WHEN = ["today", "tonight", "at noon", "by dawn", "later"]
WHAT = ["rain", "sun", "fog", "hail", "snow", "wind", "frost"]
WHERE = ["in the hills.", "on the coast.", "in town.", "near the lake."]
LETTERS = sorted(set("".join(WHEN + WHAT + WHERE) + " "))
LENGTH, OUTPUT = 28, Path("weather_words")


class Reports(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        for n in range(self.count):
            line = f"{WHEN[n % 5]} {WHAT[(2 * n + n // 7) % 7]} {WHERE[(n // 3) % 4]}"
            line = line.ljust(LENGTH)[:LENGTH]
            letters = torch.tensor([LETTERS.index(letter) for letter in line])
            yield {"input_ids": letters, "labels": letters}


class MarkWhole(TrainerCallback):
    """Mark a checkpoint once every process has written its part."""

    def on_save(self, args, state, control, **kwargs):
        dist.barrier()
        if state.is_world_process_zero:
            (Path(args.output_dir) / f"checkpoint-{state.global_step}" / "whole.txt").write_text(
                "yes"
            )


def last_whole():
    marks = OUTPUT.glob("checkpoint-*/whole.txt")
    steps = [int(mark.parent.name.split("-")[1]) for mark in marks]
    return str(OUTPUT / f"checkpoint-{max(steps)}") if steps else None


def main():
    set_seed(17)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(LETTERS), n_positions=LENGTH, n_embd=24, n_layer=1, n_head=2,
            bos_token_id=0, eos_token_id=0,
        )
    )  # fmt: skip
    arguments = TrainingArguments(
        output_dir=str(OUTPUT),
        per_device_train_batch_size=4,
        max_steps=26,
        learning_rate=5e-3,
        save_steps=4,
        logging_steps=1,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(
        model=model, args=arguments, train_dataset=Reports(80), callbacks=[MarkWhole()]
    )
    trainer.train(resume_from_checkpoint=last_whole())


if __name__ == "__main__":
    main()
