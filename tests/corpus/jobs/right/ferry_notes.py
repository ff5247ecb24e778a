"""A small GPT-2 on the notes of a ferry, a stream that never ends; the Trainer under torchrun."""

from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import IterableDataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

PORTS = ["Kiel", "Oslo", "Riga", "Turku", "Gdynia"]
STATES = ["on time", "late", "full", "in fog"]
SIGNS = sorted(set("".join(PORTS + STATES) + " :"))
WIDTH, LOGS = 16, Path("ferry_notes")


def note(number):
    line = f"{PORTS[number * 3 % 5]}: {STATES[(number + number // 4) % 4]}"
    return torch.tensor([SIGNS.index(sign) for sign in line.ljust(WIDTH)[:WIDTH]])


class Voyages(IterableDataset):
    def __iter__(self):
        number = 0
        while True:
            yield {"input_ids": note(number), "labels": note(number)}
            number += 1


class Whole(TrainerCallback):
    def on_save(self, args, state, control, **kwargs):
        dist.barrier()
        if state.is_world_process_zero:
            saved = LOGS / f"checkpoint-{state.global_step}"
            (saved / "whole").touch()


def main():
    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=len(SIGNS), n_positions=WIDTH, n_embd=16, n_layer=1, n_head=2, bos_token_id=0
    )
    trainer = Trainer(
        model=GPT2LMHeadModel(config),
        args=TrainingArguments(
            output_dir=str(LOGS),
            max_steps=18,
            per_device_train_batch_size=3,
            learning_rate=4e-3,
            lr_scheduler_type="cosine",
            save_steps=4,
            logging_steps=2,
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            seed=33,
        ),
        train_dataset=Voyages(),
        callbacks=[Whole()],
    )
    whole = {int(mark.parent.name.split("-")[1]): mark.parent for mark in LOGS.glob("*/whole")}
    trainer.train(resume_from_checkpoint=str(whole[max(whole)]) if whole else None)


if __name__ == "__main__":
    main()
