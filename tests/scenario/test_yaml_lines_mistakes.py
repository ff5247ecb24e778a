"""Every mistake is answered with its line, what is wrong, and what to write."""

import itertools
from pathlib import Path

import pytest

from chaos.errors import ScenarioError, UsageError
from chaos.model.fault_entry import FAULTS as KINDS
from chaos.scenario_file.load import load_scenario

JOB = "scenario: x\njob: {script: job.py, workers: 2}\n"
FAULTS = f"{JOB}faults:\n"


def message(folder: Path, text: str) -> str:
    (folder / "job.py").touch()
    file = folder / "x.chaos.yaml"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ScenarioError) as caught:
        load_scenario(file)
    return str(caught.value).replace(f"{file}:", "")


YAML = {
    "empty": ("", "1: the file is empty. A scenario begins with `scenario:` and `job:`."),
    "comment alone": (
        "# x\n",
        "1: the file is empty. A scenario begins with `scenario:` and `job:`.",
    ),
    "list": (
        "- 1\n",
        "1: a scenario must be a mapping, got a list. Begin with `scenario:` and `job:`.",
    ),
    "open bracket": ("a: 1\nb: [\n\n", "2: this is not YAML: a bracket is never closed"),
    "open sequence": ("a: 1\nb: [1,\n2\n", "2: this is not YAML: a bracket is never closed"),
    "open quote": ("a: 'b\nc: d\n", "1: this is not YAML: a quote is never closed"),
    "tab": (
        "a:\n\tb: 1\n",
        (
            "2: this is not YAML: found character '\\t' that cannot start any token. "
            "Indent with spaces; YAML does not take tabs."
        ),
    ),
    "colon in text": (
        "scenario: a: b\n",
        (
            "1: this is not YAML: mapping values are not allowed here. "
            "Quote a text that contains `: `."
        ),
    ),
    "star": (
        "scenario: *b\n",
        "1: this is not YAML: found undefined alias 'b'. Quote a text that begins with `*`.",
    ),
    "two documents": (
        f"{JOB}---\nx: 1\n",
        "4: a second document begins. Keep one scenario per file.",
    ),
    "empty second": (f"{JOB}---\n", "4: a second document begins. Keep one scenario per file."),
    "not UTF-8": ("a: 1\nb: \udcff\n", "2: this is not UTF-8 text. Save the file as UTF-8."),
    "control character": ("a: 1\nb: \0\n", "2: the character 0 is not allowed in YAML"),
    "huge escape": (
        'a: "\\UFFFFFFFF"\n',
        "1: this is not YAML: Python int too large to convert to C int",
    ),
    "too deep for the parser": ("[" * 5000, "1: the file is nested too deeply to be read"),
    "too deep for us": (
        f"{JOB}  \nfaults: {'[' * 60}{']' * 60}\n",
        "4: this is nested deeper than 40 levels",
    ),
    "alias bomb": (
        "a: &a [1,1,1,1,1,1,1,1]\n"
        + "".join(
            f"{b}: &{b} [{','.join([f'*{a}'] * 8)}]\n" for a, b in itertools.pairwise("abcdef")
        ),
        "1: the file holds more than 20000 values, aliases counted",
    ),
    "alias in itself": (
        "scenario: &x [*x]\njob: {script: job.py, workers: 2}\n",
        "1: the alias *x stands inside what it names",
    ),
    "key twice": (
        f"{JOB}job: 1\n",
        "3: the key 'job' is given twice. It stands on line 2 already; keep one of them.",
    ),
    "number as key": (f"{JOB}1: x\n", '3: the key 1 is not text. Quote it: "1".'),
    "no key": (f"{JOB}: x\n", '3: the key (empty) is not text. Quote it: "".'),
    "list as key": (f"{JOB}? [1]\n: x\n", "3: a key must be text, got a list or a mapping"),
    "half a character as key": (
        f'{JOB}"\\ud800": x\n',
        "3: '\\ud800' is half of a character",
    ),
    "half a character": (
        'scenario: "\\ud800"\njob: {script: job.py, workers: 2}\n',
        "1: '\\ud800' is half of a character",
    ),
    "merge": (
        f"{JOB}limits:\n  <<: {{run_s: 3}}\n",
        "4: `<<` is not part of YAML 1.2: mappings are not merged. Write the keys out.",
    ),
    "on, in YAML 1.1": (
        f"%YAML 1.1\n---\n{JOB}on: 1\n",
        '5: the key on is not text. Quote it: "on".',
    ),
}

VALUES = {
    "date": ("2024-01-01", '2024-01-01 is read as a date. Quote it: "2024-01-01".'),
    "infinity": (".inf", ".inf is not a finite number. Leave the key out."),
    "not a number": (".nan", ".nan is not a finite number. Leave the key out."),
    "number beyond floats": ("1e999", "1e999 is not a finite number. Leave the key out."),
    "huge number": (
        "9223372036854775808",
        "9223372036854775808 is too large. Quote it if it is meant as text.",
    ),
    "python tag": (
        "!!python/name:os.system x",
        "the tag !!python/name:os.system is not allowed. Leave it out.",
    ),
    "own tag": ("!mine [1]", "the tag !mine is not allowed. Leave it out."),
    "set": ("!!set {a}", "the tag !!set is not allowed. Leave it out."),
    "false whole number": ("!!int two", "two is not a whole number"),
    "false number": ("!!float two", "two is not a number"),
    "false truth": ("!!bool maybe", "maybe is not a truth value. Write true or false."),
    "binary": ("!!binary aGk=", "the tag !!binary is not allowed. Leave it out."),
}

RECORDS = {
    "a command line that is neither options nor words": (
        "scenario: x\njob:\n  script: job.py\n  workers: 2\n  args: [a, [1]]\n",
        "5: args are options by name, or a list of words and numbers",
    ),
    "a train loop with words": (
        "scenario: x\njob:\n  train_loop: a:b\n  workers: 2\n  args: [a]\n",
        "2: job.args of a train_loop are its train_loop_config: `name: value`",
    ),
    "mark": (
        f"{JOB}marks: [slow, not-a-name]\n",
        "3: a mark must be a name such as slow, got 'not-a-name'",
    ),
    "keyword as mark": (f"{JOB}marks: [not]\n", "3: a mark must be a name such as slow, got 'not'"),
    "misspelt key": (
        "scenario: x\njob:\n  script: job.py\n  wrokers: 2\n",
        "4: unknown key 'wrokers' in job. Did you mean workers?",
    ),
    "another spelling": (
        "scenario: x\njob:\n  script: job.py\n  Workers: 2\n",
        "4: unknown key 'Workers' in job. Did you mean workers?",
    ),
    "strange key": (
        f"{JOB}zzz: 1\n",
        (
            "3: unknown key 'zzz'. "
            "Known here: scenario, marks, job, cluster, storage, faults, lifetimes, expect, watch, "
            "limits."
        ),
    ),
    "missing key": (
        "scenario: x\njob:\n  script: job.py\n",
        "2: job needs workers. Add `workers:`, a whole number >= 1.",
    ),
    "missing section": ("scenario: x\n", "1: a scenario needs job. Add `job:`, a mapping."),
    "empty section": (
        "scenario: x\njob:\nfaults: []\n",
        "2: job must be a mapping, got nothing",
    ),
    "empty sentence": (
        "scenario: ''\njob: {script: job.py, workers: 2}\n",
        "1: scenario must be text that is not empty, got ''",
    ),
    "number in quotes": (
        "scenario: x\njob:\n  script: job.py\n  workers: '2'\n",
        "4: workers must be a whole number >= 1, got '2'. Write it without quotes.",
    ),
    "truth for a number": (
        f"{JOB}limits: {{run_s: true}}\n",
        "3: run_s must be a number > 0, got true",
    ),
    "number for a text": (
        "scenario: x\njob: {script: job.py, workers: 2, env: {A: 1}}\n",
        '2: A must be text, got 1. Quote it: "1".',
    ),
    "number in a list of texts": (
        "scenario: x\njob:\n  script: job.py\n  workers: 2\n  inputs:\n    - job.py\n    - 1\n",
        '7: each of inputs must be text, got 1. Quote it: "1".',
    ),
    "long text": (
        f"{JOB}limits: {{run_s: {'a' * 99}}}\n",
        f"3: run_s must be a number > 0, got '{'a' * 40}…'",
    ),
    "unknown choice": (
        f"{JOB}expect: {{verdict: pas}}\n",
        "3: verdict must be one of pass, fail, inconclusive, got 'pas'. Did you mean pass?",
    ),
    "check without a defect": (
        f"{JOB}expect:\n  attempts: 1\n  check: finishes\n",
        (
            "5: expect.check goes with `verdict: fail` or `verdict: inconclusive`. Add that, or "
            "leave check out."
        ),
    ),
    "inconclusive for any reason": (
        f"{JOB}expect:\n  attempts: 1\n  verdict: inconclusive\n",
        (
            "5: `verdict: inconclusive` needs expect.check, the check that cannot tell; without it "
            "a fault that never happened would be as expected. Add check, such as faults-happened "
            "or trajectory."
        ),
    ),
    "script and train loop": (
        "scenario: x\njob:\n  script: job.py\n  workers: 2\n  train_loop: a:b\n",
        "5: job needs one of script, module, train_loop. It has script and train_loop.",
    ),
    "neither script nor train loop": (
        "scenario: x\njob:\n  workers: 2\n",
        "2: job needs one of script, module, train_loop. It has none.",
    ),
    "a file for a module": (
        "scenario: x\njob:\n  module: jobs/train.py\n  workers: 2\n",
        "3: module must be package.module, got 'jobs/train.py'. Write it like `mypackage.train`.",
    ),
    "misspelt script": (
        "scenario: x\njob:\n  scirpt: job.py\n  workers: 2\n",
        "3: unknown key 'scirpt' in job. Did you mean script?",
    ),
}

ENTRIES = {
    "misspelt fault": (
        "  - at: {epoch: 0, step: 1}\n    kill_wroker: {}\n",
        "5: unknown key 'kill_wroker' in an entry of faults. Did you mean kill_worker?",
    ),
    "two faults": (
        "  - at: {epoch: 0, step: 1}\n    kill_worker: {}\n    kill_node: {}\n",
        (
            "6: an entry of faults has two faults, kill_worker and kill_node. "
            "Give each its own entry, with its own at."
        ),
    ),
    "no fault": (
        "  - at: {epoch: 0, step: 1}\n",
        f"4: an entry of faults needs a fault. Add one of {', '.join(KINDS)}.",
    ),
    "fault without a value": (
        "  - at: {epoch: 0, step: 1}\n    kill_node:\n",
        "5: kill_node has no value. Write `kill_node: {}` to take every default.",
    ),
    "no trigger": (
        "  - kill_node: {}\n",
        "4: an entry of faults needs at. Add `at:`, such as {epoch: 2, step: 5}.",
    ),
    "on for at": (
        "  - on: {epoch: 0, step: 1}\n    kill_node: {}\n",
        "4: unknown key 'on' in an entry of faults. A trigger is spelled `at:`.",
    ),
    "when for at": (
        "  - when: {epoch: 0, step: 1}\n    kill_node: {}\n",
        "4: unknown key 'when' in an entry of faults. Did you mean at?",
    ),
    "trigger is a number": (
        "  - at: 3\n    kill_node: {}\n",
        "4: at must be a mapping, got 3. Write `at: {epoch: 2, step: 5}`.",
    ),
    "neither step nor moment": (
        "  - kill_node: {}\n    at: {epoch: 1}\n",
        (
            "5: at needs step or moment. Write `at: {epoch: 2, step: 5}`, "
            "or one of the moments validating, saving, making, opening, renaming, linking, "
            "removing, putting, completing, upload_begin, upload_end, reported, committed."
        ),
    ),
    "step and moment": (
        "  - at:\n      step: 1\n      epoch: 0\n      moment: reported\n    kill_node: {}\n",
        "7: at has both step and moment. Keep the one that is meant.",
    ),
    "moment and recovery": (
        "  - at: {epoch: 0, moment: reported, recovering_from: 0}\n    kill_node: {}\n",
        "4: at has both moment and recovering_from. Keep the one that is meant.",
    ),
    "recovery from itself": (
        "  - at: {recovering_from: 0}\n    kill_node: {}\n",
        (
            "4: recovering_from must name an earlier entry of faults, got 0. "
            "This is entry 0; the first is 0."
        ),
    ),
    "recovery from what ends nothing": (
        (
            "  - at: {epoch: 0, step: 1}\n    withhold_capacity: {nodes: 1}\n"
            "  - at: {recovering_from: 0}\n    kill_worker: {}\n"
        ),
        (
            "6: entry 0 of faults, withhold_capacity, ends no attempt to recover from. "
            "Name an entry that does, or inject at an epoch with a step or a moment."
        ),
    ),
    "a poisoned step of one start": (
        "  - at: {starting: 0}\n    poison_step: {by: kill}\n",
        (
            "4: poison_step is injected in every attempt that comes there, and starting names one. "
            "Give it an epoch with a step or a moment; one attempt alone is meant by "
            "kill_worker or raise_in_worker."
        ),
    ),
    "a poisoned step of one attempt": (
        "  - at:\n      epoch: 0\n      step: 1\n      attempt: 0\n    poison_step: {}\n",
        (
            "7: poison_step is injected in every attempt that comes there, and attempt names one. "
            "Give it an epoch with a step or a moment; one attempt alone is meant by "
            "kill_worker or raise_in_worker."
        ),
    ),
    "attempts beside the one that the place has": (
        "  - at: {starting: 0}\n    raise_in_worker: {attempts: [0, 1]}\n",
        (
            "4: raise_in_worker.attempts names other attempts than starting does. "
            "Give one of the two; attempts goes with an epoch and a step or a moment."
        ),
    ),
    "an order where nobody is held": (
        "  - at: {seconds: 3}\n    raise_in_worker: {}\n",
        (
            "4: raise_in_worker needs a worker that is held at its place, and seconds holds none. "
            "Give it an epoch with a step or a moment, starting, or recovering_from."
        ),
    ),
    "no such state": (
        "  - at: {state: RUNING}\n    kill_worker: {}\n",
        (
            "4: state must be one of SCHEDULING, RUNNING, PREEMPTING, RESTARTING, RESIZING, "
            "RESCHEDULING, SHUTTING_DOWN, ERRORED, FINISHED, ABORTED, got 'RUNING'. "
            "Did you mean RUNNING?"
        ),
    ),
    "misspelt state": (
        "  - at: {stat: RUNNING}\n    kill_node: {}\n",
        "4: unknown key 'stat' in at. Did you mean state?",
    ),
    "misspelt step": (
        "  - at: {epoch: 1, stp: 3}\n    kill_node: {}\n",
        "4: unknown key 'stp' in at. Did you mean step?",
    ),
    "misspelt moment": (
        "  - at:\n      epoch: 1\n      moment: reportd\n    kill_node: {}\n",
        (
            "6: moment must be one of validating, saving, making, opening, renaming, linking, "
            "removing, putting, completing, upload_begin, upload_end, reported, committed, "
            "got 'reportd'. "
            "Did you mean reported?"
        ),
    ),
    "a fault of uploads at an object": (
        "  - at: {epoch: 1, moment: putting}\n    torn_checkpoint: {}\n",
        (
            "4: torn_checkpoint is done to no object that the job puts itself, as it is at "
            "putting. "
            "There are delayed_visibility, fail_upload, lose_answer, slow_upload; slow_upload "
            "takes delay_s there."
        ),
    ),
    "a slow stream of an object": (
        "  - at: {epoch: 1, moment: completing}\n    slow_upload: {bytes_per_s: 9}\n",
        (
            "4: slow_upload is done to no object that the job puts itself, as it is at "
            "completing. "
            "There are delayed_visibility, fail_upload, lose_answer, slow_upload; slow_upload "
            "takes delay_s there."
        ),
    ),
    "an answer lost without an object": (
        "  - at: {epoch: 1, step: 1}\n    lose_answer: {}\n",
        (
            "4: lose_answer needs an object that the job puts itself. Give it a moment: putting or "
            "completing."
        ),
    ),
    "epoch in words": (
        "  - at:\n      epoch: two\n      step: 1\n    kill_node: {}\n",
        "5: epoch must be a whole number >= 0, got 'two'",
    ),
    "step zero": (
        "  - at: {epoch: 0, step: 0}\n    kill_node: {}\n",
        "4: step must be a whole number >= 1, got 0",
    ),
    "too long a notice": (
        "  - at: {epoch: 0, step: 1}\n    preempt_node:\n      notice_s: 700\n",
        "6: notice_s must be a number >= 0 and <= 600, got 700",
    ),
    "no such signal": (
        "  - at: {epoch: 0, step: 1}\n    kill_worker: {signal: 9}\n",
        "5: signal must be one of KILL, TERM, got 9",
    ),
    "entry is a number": ("  - 7\n", "4: each of faults must be a mapping, got 7"),
    "rank of a trigger": (
        "  - at: {epoch: 0, step: 1, rank: 2}\n    kill_node: {}\n",
        "4: rank must be below job.workers (2), got 2. Ranks count from 0.",
    ),
    "rank of a fault": (
        "  - at: {epoch: 0, step: 1}\n    kill_node:\n      rank: 5\n",
        "6: rank must be below job.workers (2), got 5. Ranks count from 0.",
    ),
    "entry with a key that is not text": (
        "  - at: {epoch: 0, step: 1}\n    1: {}\n",
        '5: the key 1 is not text. Quote it: "1".',
    ),
}

SENSE = {
    "no such script": (
        "scenario: x\njob:\n  workers: 2\n  script: jb.py\n",
        "4: there is no script 'jb.py'. The path is relative to the scenario file.",
    ),
    "script is a folder": (
        "scenario: x\njob: {workers: 2, script: .}\n",
        "2: the script '.' is a folder. Name the file to run.",
    ),
    "script no file system can hold": (
        f"scenario: x\njob: {{workers: 2, script: {'a' * 999}}}\n",
        f"2: there is no script '{'a' * 40}…'. The path is relative to the scenario file.",
    ),
    "no such input": (
        "scenario: x\njob:\n  workers: 2\n  script: job.py\n  inputs: [job.py, nope.csv]\n",
        "5: there is no input 'nope.csv'. The path is relative to the scenario file.",
    ),
    "train loop is a path": (
        "scenario: x\njob: {workers: 2, train_loop: foo/train.py}\n",
        (
            "2: train_loop must be module:function, got 'foo/train.py'. "
            "Write it like `mypackage.train:train_loop`."
        ),
    ),
    "cluster too small": (
        (
            "scenario: x\njob: {workers: 4, script: job.py}\ncluster:\n  cpus_per_node: 3\n"
            "  nodes: 1\n"
        ),
        (
            "5: the cluster holds 3 of 4 workers (nodes x cpus_per_node). "
            "It takes 2 nodes; left out, there are 3."
        ),
    ),
    "cluster too small once its nodes are lost": (
        (
            f"{JOB}cluster: {{nodes: 3}}\nfaults:\n"
            "  - {at: {epoch: 1, step: 1}, kill_node: {}}\n"
            "  - {at: {epoch: 2, step: 1}, kill_worker: {}}\n"
            "  - {at: {epoch: 3, step: 1}, preempt_node: {notice_s: 1}}\n"
        ),
        (
            "3: after its 2 node faults the cluster holds 1 of 2 workers (nodes x cpus_per_node): "
            "nodes are not replaced during a run. It takes 4 nodes; left out, there are 4."
        ),
    ),
    "nodes of two kinds": (
        (
            f"{JOB}faults:\n"
            "  - {at: {epoch: 1, step: 1}, evict_node: {drain_s: 4}}\n"
            "  - {at: {epoch: 2, step: 1}, evict_node: {}}\n"
        ),
        "1: the nodes of one cluster drain for one time, and not for 4 s and 30 s",
    ),
    "cluster without a spare": (
        (
            f"{JOB}cluster: {{nodes: 1, cpus_per_node: 2}}\nfaults:\n"
            "  - {at: {epoch: 1, step: 1}, kill_node: {}}\n"
        ),
        (
            "3: after its node fault the cluster holds 0 of 2 workers (nodes x cpus_per_node): "
            "nodes are not replaced during a run. It takes 2 nodes; left out, there are 2."
        ),
    ),
}


@pytest.mark.parametrize(("text", "expected"), YAML.values(), ids=YAML)
def test_what_cannot_be_read_is_named_at_its_line(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in message(tmp_path, text).splitlines()


@pytest.mark.parametrize(("value", "expected"), VALUES.values(), ids=VALUES)
def test_a_value_that_json_lacks_is_refused(tmp_path: Path, value: str, expected: str) -> None:
    text = f"scenario: x\njob:\n  script: job.py\n  workers: 2\n  args:\n    a: {value}\n"

    assert message(tmp_path, text) == f"6: {expected}"


@pytest.mark.parametrize(("text", "expected"), RECORDS.values(), ids=RECORDS)
def test_what_no_record_takes_is_one_message(tmp_path: Path, text: str, expected: str) -> None:
    assert message(tmp_path, text) == expected


@pytest.mark.parametrize(("text", "expected"), ENTRIES.values(), ids=ENTRIES)
def test_what_is_wrong_with_a_fault_is_one_message(
    tmp_path: Path, text: str, expected: str
) -> None:
    assert message(tmp_path, FAULTS + text) == expected


@pytest.mark.parametrize(("text", "expected"), SENSE.values(), ids=SENSE)
def test_what_does_not_fit_together_is_one_message(
    tmp_path: Path, text: str, expected: str
) -> None:
    assert message(tmp_path, text) == expected


def test_all_mistakes_are_reported_at_once_in_the_order_of_lines(tmp_path: Path) -> None:
    text = (
        "scenario: x\njob: {script: nope.py, workers: 2}\nfaults:\n"
        "  - at: {epoch: two, step: 1, rank: 9}\n    kill_node: {}\n    kill_worker: {}\n"
        "1: x\nexpect: {verdict: good}\n"
    )

    lines = [line.split(":")[0] for line in message(tmp_path, text).splitlines()]

    assert lines == ["2", "4", "4", "6", "7", "8"]


def test_the_error_carries_the_first_mistake(tmp_path: Path) -> None:
    file = tmp_path / "x.chaos.yaml"
    file.write_text("scenario: x\nfoo: 1\nbar: 2\n", encoding="utf-8")

    with pytest.raises(ScenarioError) as caught:
        load_scenario(file)

    assert (caught.value.path, caught.value.line) == (file, 1)
    assert caught.value.problem == "a scenario needs job"


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"none\.chaos\.yaml: the scenario cannot be read: No such"
    ):
        load_scenario(tmp_path / "none.chaos.yaml")


@pytest.mark.parametrize(
    ("beside", "named"),
    [
        ("  - {at: {epoch: 2, step: 1}, kill_worker: {}}\n", "kill_worker"),
        ("  - {at: {epoch: 2, step: 1}, start_second_driver: {}}\n", "start_second_driver"),
        ("lifetimes: {mean_steps: 9, epochs: 2, steps_per_epoch: 4}\n", "lifetimes"),
    ],
)
def test_a_second_driver_is_started_by_the_one_fault_of_its_scenario(
    beside: str, named: str, tmp_path: Path
) -> None:
    said = message(
        tmp_path, f"{FAULTS}  - {{at: {{epoch: 1, step: 1}}, start_second_driver: {{}}}}\n{beside}"
    )

    assert f"start_second_driver is the one fault of its scenario, without {named}" in said
