"""What the documents show and this folder does not run, each with its reason or its place.

An entry that no document shows any longer is a failure.
"""

RELEASE = "git+https://github.com/ray-train-chaos/ray-train-chaos@v0.1.0"
AUDIT = "chaos audit train.py -- --epochs 4"
LOGGED = "torchrun --nproc-per-node 2 train.py --epochs 4"
DOCKER = 'docker run --rm --init --shm-size 2g --user "$(id -u):$(id -g)" --volume "$PWD:/job"'
OF_A_RELEASE = "a release is not here; tests/cli/test_installation.py installs this commit likewise"

_SPOT = "docs/examples/spot"
_LOGS = f"--costs {_SPOT}/train.log --trace {_SPOT}/spot.jsonl"
_SAID = (
    "--trace-held 24 --trace-nodes market --set settings.storage_path=s3://models/tagger "
    "--set settings.run_name=tagger"
)
# The commands of docs/manifest-to-answer.md.
WALK = tuple(
    f"chaos preflight {_SPOT}/rayjob.yaml{words}"
    for words in (
        "",
        f" {_LOGS}",
        f" {_LOGS} {_SAID}",
        f" {_LOGS} {_SAID} --set settings.max_failures=12 --deadline 34.8h",
    )
)

# Commands that a test elsewhere executes, by that test's file.
RUN_ELSEWHERE = {
    "chaos audit train.py --max-runs 20 -- --epochs 4": "tests/documents/test_tutorial.py",
    "chaos run scenarios": "tests/documents/test_tutorial.py",
    "make demo": "tests/ray/test_run_demo.py",
    "chaos list faults": "tests/other_packages/test_plugins_examples.py",
    "chaos list kill_peers": "tests/other_packages/test_plugins_examples.py",
    "chaos run nobody.chaos.yaml --backend fork": "tests/other_packages/test_plugins_examples.py",
    "chaos run guilty.chaos.yaml --backend fork": "tests/other_packages/test_plugins_examples.py",
    "chaos run scenarios/smoke --address 10.0.0.1:6379 --dry-run": (
        "tests/ray/test_existing_cluster.py"
    ),
    "chaos run scenarios/smoke --address 10.0.0.1:6379 --allow-faults-on 10.0.0.1:6379": (
        "tests/ray/test_existing_cluster.py"
    ),
    "chaos run scenarios/smoke --address 10.0.0.1:6379 --reclaim-by kubernetes:jobs --dry-run": (
        "tests/ray/test_reclaimer_nodes.py"
    ),
    "chaos run scenarios/smoke --address 10.0.0.1:6379 --reclaim-by kubernetes:jobs "
    "--allow-faults-on 10.0.0.1:6379 --allow-node-loss": "tests/ray/test_reclaimer_nodes.py",
    "chaos audit train_ddp.py -- --epochs 3": "tests/torchrun/test_audit.py",
    "chaos run scenarios/slurm/preempted.chaos.yaml": (
        "tests/extensions/slurm/test_backend_scenarios.py"
    ),
    "chaos run scenarios/slurm/requeued.chaos.yaml --address head:6817 --dry-run": (
        "tests/extensions/slurm/test_existing.py"
    ),
    "chaos run scenarios/slurm/requeued.chaos.yaml --address head:6817 "
    "--allow-faults-on head:6817": "tests/extensions/slurm/test_existing.py",
    **dict.fromkeys(WALK, "tests/documents/test_walk.py"),
    "chaos preflight train.py --market hot-4h --validate -- --epochs 12": (
        "tests/forked/test_calibration_preflight.py"
    ),
}

# Commands that nothing executes as they stand: they are parsed, and their options exist.
NOT_RUN = {
    "make test": "it runs this very test",
    "python -m tests.tools.validate_forecast --backend ray --runs 20 --write": (
        "more than an hour on a cluster"
    ),
    "make matrix": "tests/meta/test_matrix.py holds what it makes",
    "python -m tests.tools.reference": "tests/documents/test_site.py holds what it makes",
    "python -m chaos.scenario_file.signatures > chaos/scenario_file/faults.pyi": (
        "tests/python_first/test_faults.py holds what it makes"
    ),
    "chaos preflight rayjob.yaml --costs reports/audits/train --trace spot.jsonl --trace-held 16": (
        "the folder is a reader's; tests/extensions/preflight/test_platform_files.py has each part"
    ),
    "chaos preflight eight.preflight.yaml --trace g4dn.csv --replay-trace": (
        "the trace is Bamboo's; tests/extensions/preflight/test_market_readings.py has one like it"
    ),
    "make setup": "it makes the environment that this very test runs in",
    "make check": "it runs this very test",
    "make nightly": "it takes four hours",
    "chaos explain reports/audits/<script>-<start>/runs/2": (
        "the run is a reader's; tests/python/test_cause_search_explained.py explains some"
    ),
    "make coverage": "a nightly run begins with it",
    "make canary": "a nightly run ends with it",
    "make docs": "tests/documents/test_site.py builds the site",
    AUDIT: "tests/documents/test_tutorial.py runs it with a number of runs",
    f"pip install 'ray-train-chaos[ray] @ {RELEASE}'": OF_A_RELEASE,
    f"pip install 'ray-train-chaos @ {RELEASE}'": OF_A_RELEASE,
    f"uv run --with 'ray-train-chaos @ {RELEASE}' {AUDIT}": OF_A_RELEASE,
    f"uvx --from {RELEASE} {AUDIT}": OF_A_RELEASE,
    f"uv tool install {RELEASE}": OF_A_RELEASE,
    "docker build --tag chaos https://github.com/ray-train-chaos/ray-train-chaos.git#v0.1.0": (
        "there is no Docker here"
    ),
    f"{DOCKER} {AUDIT}": "likewise",
    **dict.fromkeys(
        (
            "chaos guard --folder /mnt/guard -- torchrun train.py",
            "chaos guard report /mnt/guard",
            "chaos guard scenario /mnt/guard > incident.chaos.yaml",
            f"chaos guard scenario train.log -- {LOGGED} > incident.chaos.yaml",
        ),
        "the folder and the log are a reader's; tests/extensions/guard has each part",
    ),
    "chaos search train.py --time-limit 300s -- --epochs 4": (
        "five minutes; tests/forked/test_search.py runs shorter ones"
    ),
    "chaos run my.chaos.yaml": "the same with --backend fork is run",
    "chaos preflight train.py --validate --losses nodes --backend ray --validation-runs 20": (
        "a quarter of an hour on a cluster; "
        "tests/forked/test_calibration_preflight.py runs a short one"
    ),
}

# Commands that are executed with less to do, and what is put in place of what.
SMALLER = {
    "chaos audit scenarios/jobs/digits_optimizer_lost.py -- --epochs 4": (
        "-- --epochs 4",
        "--max-runs 2 -- --epochs 4",
    ),
    "chaos audit scenarios/jobs/digits_optimizer_lost.py --max-runs 40 -- --epochs 4": (
        "--max-runs 40",
        "--max-runs 2",
    ),
    "chaos preflight big.preflight.yaml": ("preflight big", "preflight --simulations 500 big"),
}

# Commands that take five seconds and more, and are run nightly.
DEAR = (
    "chaos preflight big.preflight.yaml",
    "chaos audit scenarios/jobs/digits_optimizer_lost.py -- --epochs 4",
    "chaos audit scenarios/jobs/digits_optimizer_lost.py --max-runs 40 -- --epochs 4",
    "chaos from-trace p3.csv train.py --seed 1 -- --epochs 10 > p3.chaos.yaml",
    "chaos run p3.chaos.yaml --backend fork",
)

# Files that a reader has: by their names in the documents, what stands in for them.
READERS_OWN = {
    "train.py": "scenarios/jobs/digits_ddp.py",
    "train_ddp.py": "tests/torchrun/jobs/ddp.py",
    "train_alone.py": "scenarios/jobs/spirals_alone.py",
    "test_train.py": "docs/pytest.md",
    "my.chaos.yaml": "README.md",
    "big.preflight.yaml": "docs/preflight.md",
    "p3.csv": "",  # a trace of some lines
    "eight.preflight.yaml": "docs/preflight.md",
    "g4dn.csv": "",
    "p3.chaos.yaml": "",  # what the command before it writes
    "rayjob.yaml": "",
    "spot.jsonl": "",
    "nobody.chaos.yaml": "docs/writing-a-fault.md",
    "guilty.chaos.yaml": "docs/writing-a-check.md",
}

# Options that the documents and the help name, and that are not chaos's: whose they are.
_SBATCHS = (
    "--account",
    "--array",
    "--begin",
    "--clusters",
    "--constraint",
    "--cpus-per-gpu",
    "--cpus-per-task",
    "--gid",
    "--gpus",
    "--gres",
    "--hold",
    "--licenses",
    "--mem",
    "--nodelist",
    "--partition",
    "--prefer",
    "--qos",
    "--reservation",
    "--test-only",
    "--tmp",
    "--uid",
    "--wait",
)
OTHERS_OPTIONS = {
    **dict.fromkeys(_SBATCHS, "sbatch's"),
    "--api-key": "a job's",
    "--array": "sbatch's",
    "--batch": "scancel's",
    "--block": "ray start's",
    "--build-arg": "docker's",
    "--dependency": "sbatch's",
    "--dist": "pytest-xdist's",
    "--epochs": "a job's",
    "--export": "sbatch's",
    "--ff": "pytest's",
    "--init": "docker's",
    "--events": "tests.bench.judging's",
    "--init_from": "a job's",
    "--junit-xml": "pytest's",
    "--local-rank": "torch.distributed.launch's",
    "--machine_rank": "accelerate launch's",
    "--max-restarts": "torchrun's",
    "--minutes": "tests.tools.validate_forecast's",
    "--multi_gpu": "accelerate launch's",
    "--nnodes": "torchrun's",
    "--no-requeue": "sbatch's",
    "--ntasks-per-node": "sbatch's",
    "--open-mode": "sbatch's",
    "--ray": "tests.bench's",
    "--rdzv-conf": "torchrun's",
    "--requeue": "sbatch's",
    "--resume": "a job's",
    "--resume_from_checkpoint": "a job's",
    "--shm-size": "docker's",
    "--signal": "sbatch's",
    "--table": "tests.wild's",
    "--time": "sbatch's",
    "--tries": "tests.campaigns'",
    "--with": "uv's",
}
