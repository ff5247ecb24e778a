"""Jobs with one planted bug each: a right job, and the few lines that are changed in it.

`python -m tests.planted` lists them, `python -m tests.planted digits_data_order` prints one whole.
Two that scenarios and README name are kept as files; a test holds them to what is here.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIGITS = ROOT / "scenarios/jobs/digits_ddp.py"
SPIRALS = ROOT / "tests/torchrun/jobs/ddp.py"


@dataclass(frozen=True)
class Bug:
    """One bug: the job it is planted in, what it is, and each text that another replaces."""

    job: Path
    title: str
    changes: dict[str, str]

    @property
    def text(self) -> str:
        """The whole script. Each text that is replaced stands in the job exactly once."""
        _, _, text = self.job.read_text(encoding="utf-8").split('"""', 2)
        for old, new in self.changes.items():
            assert text.count(old) == 1, f"{text.count(old)} times in {self.job}: {old}"
            text = text.replace(old, new)
        return f'"""`{self.job.name}` with {self.title}."""{text}'


_ALMOST = {"Restore everything": "Restore (almost) everything"}
_RANDOM = """\
    own = os.path.join(directory, f"rng-{rank}.pt")
    if os.path.exists(own):  # a rank that was not there when it was saved keeps its first seed
        set_rng_state(torch.load(own, weights_only=False))
"""
_RESUME = """\
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as directory:
            start = load(directory, model=model, optimizer=optimizer, schedule=schedule)
"""
_WHOLE_OR_NOT = """\
    torch.save(state, CHECKPOINT + ".tmp")
    os.replace(CHECKPOINT + ".tmp", CHECKPOINT)
"""
BUGS = {
    "digits_optimizer_lost": Bug(
        DIGITS,
        "one line missing: the optimizer's state is saved, and not loaded again",
        {**_ALMOST, '    optimizer.load_state_dict(shared["optimizer"])\n': ""},
    ),
    "digits_rng_lost": Bug(
        DIGITS,
        "three lines missing: the random numbers are saved, and not set again",
        {**_ALMOST, _RANDOM: ""},
    ),
    "digits_schedule_lost": Bug(
        DIGITS,
        "one line missing: the schedule's state is saved, and not loaded again",
        {**_ALMOST, '    schedule.load_state_dict(shared["schedule"])\n': ""},
    ),
    "digits_one_epoch_off": Bug(
        DIGITS,
        "one slip: a resume repeats the epoch that its checkpoint finished",
        {'return shared["epoch"] + 1': 'return shared["epoch"]'},
    ),
    "digits_data_order": Bug(
        DIGITS,
        "one slip: after a resume the sampler counts its epochs from 0 again",
        {"sampler.set_epoch(epoch)": "sampler.set_epoch(epoch - start)"},
    ),
    "digits_from_scratch": Bug(
        DIGITS, "four lines missing: the checkpoint is saved, and never asked for", {_RESUME: ""}
    ),
    "off_by_one": Bug(
        SPIRALS,
        "one slip: a resume repeats the epoch that its checkpoint finished",
        {'start = state["epoch"] + 1': 'start = state["epoch"]'},
    ),
    "optimizer_lost": Bug(
        SPIRALS,
        "two lines missing: the optimizer's state is neither saved nor loaded",
        {
            '        "optimizer": optimizer.state_dict(),\n': "",
            '        optimizer.load_state_dict(state["optimizer"])\n': "",
        },
    ),
    "sampler_epoch": Bug(
        SPIRALS,
        "one slip: after a resume the sampler counts its epochs from 0 again",
        {
            "range(start, args.epochs)": "range(args.epochs - start)",
            "save(model, optimizer, schedule, epoch)\n\n": (
                "save(model, optimizer, schedule, start + epoch)\n\n"
            ),
        },
    ),
    "torn": Bug(
        SPIRALS,
        "one slip: the only checkpoint is written in place",
        {_WHOLE_OR_NOT: "    torch.save(state, CHECKPOINT)\n"},
    ),
}


def planted(name: str, folder: Path) -> Path:
    """Write a job with its bug into a folder, and return its file."""
    file = folder / f"{name}.py"
    file.write_text(BUGS[name].text, encoding="utf-8")
    return file


if __name__ == "__main__":
    listed = "\n".join(f"{name:22} {bug.job.name} with {bug.title}" for name, bug in BUGS.items())
    sys.stdout.write(BUGS[sys.argv[1]].text if len(sys.argv) > 1 else f"{listed}\n")
