"""The options of `chaos audit` as typer takes them."""

from pathlib import Path
from typing import Annotated

import typer

from chaos.audit.site_category import Question
from chaos.cli.options import parse_seconds
from chaos.model.expect import Sampling
from chaos.model.launcher_facts import Restart

Script = Annotated[Path, typer.Argument(metavar="SCRIPT", help="The training script.")]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Print the whole card, with its tables and all notes."),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, metavar="N", help="Ranks. Default: as the script has."),
]
Limit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        parser=parse_seconds,
        metavar="TIME",
        help="The most that the audit may take, such as 90s or 5m. Default: 60s, for sbatch 5m, "
        "and up to five times that for an answer; none with --exhaustive or --max-runs.",
    ),
]
MaxRuns = Annotated[
    int | None,
    typer.Option("--max-runs", min=1, metavar="N", help="Stop after N places."),
]
ExitFirst = Annotated[
    bool, typer.Option("--exitfirst", "-x", help="Stop at the first place that is wrong.")
]
OneByOne = Annotated[
    bool,
    typer.Option(
        "--one-by-one",
        help="One run per place. Default: places share runs if the job repeats itself exactly.",
    ),
]
Exhaustive = Annotated[
    bool, typer.Option("--exhaustive", help="Inject at every step of every rank.")
]
Places = Annotated[
    list[str] | None,
    typer.Option(
        "--places", metavar="TEXT", help="Only groups of places whose name has TEXT. Repeatable."
    ),
]
Continue = Annotated[
    bool,
    typer.Option(
        "--continue",
        help="Try first what failed in the last audit of this script and arguments, "
        "then what it did not try.",
    ),
]
Fit = Annotated[
    int,
    typer.Option("--fit", min=1, metavar="N", help="Which call of fit() in the script is tested."),
]
Retries = Annotated[
    int | None,
    typer.Option(
        "--retries",
        min=1,
        metavar="N",
        help="Retries that production has, in place of the script's `max_failures`; of a job that "
        "torchrun starts, its --max-restarts.",
    ),
]
RestartBy = Annotated[
    Restart | None,
    typer.Option(
        "--restart",
        help="command: the script's command is started again after a failure. "
        "Default: Ray Train or torchrun begins again by itself; a script with "
        "--launcher python never does.",
    ),
]
RestartArgs = Annotated[
    str | None,
    typer.Option(
        "--restart-args",
        metavar="ARGS",
        help="Arguments of the script at each start after the first, such as '--resume latest'; "
        "includes --restart command.",
    ),
]
Nodes = Annotated[
    str | None,
    typer.Option(
        "--nodes",
        metavar="N|MIN:MAX",
        help="Of a job that torchrun starts: its nodes, an agent each, as torchrun's --nnodes. "
        "Default: 1.",
    ),
]
Grace = Annotated[
    float | None,
    typer.Option(
        "--grace",
        parser=parse_seconds,
        metavar="TIME",
        help="Of a script for sbatch: the GraceTime of its partition. Default: none.",
    ),
]
EpochSteps = Annotated[
    int | None,
    typer.Option(
        "--epoch-steps",
        min=1,
        metavar="N",
        help="Of a job without Ray: an epoch is N optimizer steps. Default: from one"
        " save of the job to the next.",
    ),
]
StorageOn = Annotated[
    str | None,
    typer.Option(
        "--storage",
        metavar="own",
        help="own: keep the script's own bucket. Default: checkpoints go to the run's folder.",
    ),
]
TierOf = Annotated[
    list[str] | None,
    typer.Option(
        "--tier",
        metavar="PATH=node|shared|bucket",
        help="Files below PATH are lost with their node, or not, or in a mounted "
        "bucket. Default: temporary folders are the node's. Repeatable.",
    ),
]
AllowWrites = Annotated[
    list[Path] | None,
    typer.Option(
        "--allow-writes",
        metavar="PATH",
        help="Existing file or folder that the job may overwrite, or objects by the "
        "beginning of their name (s3://BUCKET/PREFIX). Repeatable.",
    ),
]
Confirm = Annotated[
    bool,
    typer.Option(
        "--confirm/--no-confirm",
        help="Reproduce each finding on a local Ray cluster, which takes about a minute each.",
    ),
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain/--no-explain",
        help="If no check names the cause, set values of the job to the baseline's "
        "at the resume until training comes out right.",
    ),
]
PlantLosses = Annotated[
    bool,
    typer.Option(
        "--controls",
        help="After a pass, lose parts of the job's state on purpose; say which were found.",
    ),
]
Lanes = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="Spread the runs over the Ray cluster at this address; no fault is injected into it.",
    ),
]
For = Annotated[
    Question,
    typer.Option(
        "--for",
        help="spot: preemptions and node losses first. crash: killed workers, no node losses.",
    ),
]
Accept = Annotated[
    list[str] | None,
    typer.Option(
        "--accept",
        metavar="rng|lost-work|cosmetic|FINDING[:PART]=REASON",
        help="Report differences of this severity, or findings of this kind, as notes and not as "
        "failures. Repeatable.",
    ),
]
Sampled = Annotated[
    Sampling,
    typer.Option(
        "--sampling",
        help="resampled: a restart may draw other inputs; state and steps are still due.",
    ),
]
Within = Annotated[
    float | None,
    typer.Option(
        "--tolerance",
        min=0,
        metavar="X",
        help="Relative difference of a loss from the baseline's that is accepted.",
    ),
]
