"""Histories in one line: a letter or a name for each thing that happens.

    g group      g  g<c0  g<c0/-   a worker group opens; what it is handed
    @ state      @model=7,rng=1/2  the state that the ranks enter with; `opt=`: empty
    s step       s  s:ab/cd  s*2   the next step; its samples; its micro-batches
                 s!  s1            with another loss than elsewhere; on rank 1 alone
    r report     r                 report() is entered, and returns, on all ranks
    u upload     u                 all ranks' parts of this epoch's checkpoint are uploaded
    c commit     c  c-  c,n=3      the report is committed; without a checkpoint; with a metric
    e early      e                 its first report comes before it trains: of the epoch before
    d delete     d:c0              Ray removes a checkpoint
    L storage    L:c0,c1~  L       what storage holds when the run is over: `~` is damaged
    w write      w:f  w:f=3        a file is written; `ship` in it is 3
    v begin      v:f               its writing begins and does not end
    m rename     m:f>g             it is renamed
    remove       remove:f          it is removed by the job
    open         open:f            it is opened to be written, and is of no known saver: a mark
    k copy       k:f>g             it is copied
    h held       h:f>g             likewise, written as a save is, where a copy is held
    q find       q:f,g-,h~  q      what a rank finds as it begins: `-` is gone, `~` lies elsewhere
    l load       l:f  l:f!  l:f/   a file is read; it cannot be; rank 0 alone reads it
    x kill       x  x0             rank 1 is killed; rank 0
    y stall      y                 the same, and Ray does not decide
    i unseen     i                 the same, and what came of it is not seen
    z late       z                 rank 1 of the attempt before makes a step
    n notice     n  n:g            a second's notice for rank 1's node; Ray opens a group on it
    X lose       X                 that node is lost
    + wait       +30               that many seconds pass
    end          end:0             rank 0's train function returned
    left         left              a process is left behind
    t trial      t:a               the other trial of the experiment, with these losses
    . return     .  .c0            the run ends; with that result
    H hang       H                 it is hung, and ended by us
    ranks        ranks3            before all else: there are three ranks, and not two

`a/b` is a value of each rank's own; the last holds for the ranks after it. A word is a letter or a
name, the rank that it is about, and what belongs to it, after a colon or not: `x0` is `kill0`,
`w:f=3` is `write:f=3`, `.c0` is `return:c0`.
Checkpoints are named by their epoch. `plan_of` has an op for each fault. `story.Story` tells of a
job that is right but for what is done to it, where a line would need every step of it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chaos.faults.kill_worker import KillWorker
from chaos.faults.preempt_node import PreemptNode
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.plan import Op, Plan
from chaos.model.trigger import AtStep
from tests.check.scribe import Scribe
from tests.check.story import Story
from tests.check.watching import digest

LETTERS = {
    "g": "group",
    "@": "state",
    "s": "step",
    "r": "report",
    "u": "upload",
    "c": "commit",
    "e": "early",
    "d": "delete",
    "L": "storage",
    "w": "write",
    "v": "begin",
    "m": "rename",
    "k": "copy",
    "h": "held",
    "q": "find",
    "l": "load",
    "x": "kill",
    "y": "stall",
    "i": "unseen",
    "z": "late",
    "n": "notice",
    "X": "lose",
    "+": "wait",
    "t": "trial",
    ".": "return",
    "H": "hang",
}
_WORD = re.compile(r"(?P<name>[a-zA-Z]+|[@+.])(?P<number>\d*)(?P<rest>.*)")


def told_in(line: str) -> History:
    """Return the history of a line."""
    return Telling().tell(line)


def plan_of(line: str, **expect: Any) -> Plan:
    """Return the plan whose ops are the faults of a line."""
    telling = Telling()
    telling.tell(line)
    return telling.plan(**expect)


@dataclass
class Telling(Scribe):
    """The history of a line, word by word; `kinds_shown` adds words that few lines need."""

    #: The ops of the plan, one for each fault.
    ops: list[Op] = field(default_factory=list)
    #: Where each file of the job's own was last saved, by path and rank: attempt, epoch and step.
    saves: dict[tuple[str, int], tuple[int, int, int]] = field(default_factory=dict)
    #: The paths under which renamed and copied files were written.
    origins: dict[str, str] = field(default_factory=dict)
    has_others: bool = False

    def tell(self, line: str) -> History:
        for word in line.split():
            found = _WORD.fullmatch(word)
            assert found is not None, word
            name = LETTERS.get(found["name"], found["name"])
            number = int(found["number"]) if found["number"] else None
            tell: Callable[[str, int | None], None] = getattr(self, f"on_{name}")
            tell(found["rest"].removeprefix(":"), number)
        return History(self.entries)

    def plan(self, **expect: Any) -> Plan:
        """Return the plan whose ops are the faults told of so far."""
        plan = Story(ranks=self.ranks).plan(**expect)
        job = plan.job.model_copy(update={"trial": 0 if self.has_others else None})
        return plan.model_copy(update={"ops": tuple(self.ops), "job": job})

    def on_ranks(self, of: str, number: int | None) -> None:
        self.ranks = number or self.ranks

    # -- training ------------------------------------------------------------------------------

    def on_group(self, of: str, number: int | None) -> None:
        names = tuple(None if n == "-" else n for n in self.per_rank(of.removeprefix("<") or "-"))
        epochs = [0 if name is None else int(name[1:]) + 1 for name in names]
        self.epoch, self.step = max(epochs), 0
        for place in self.open():
            self.start(place, names[place.rank], epochs[place.rank])

    def on_state(self, of: str, number: int | None) -> None:
        short = {"opt": "optimizer.momentum_buffer", "rng": "rng.torch"}
        named = [part.split("=") for part in of.split(",")]
        parts = tuple(
            tuple(
                ev.Component(name=short.get(name, name), digest=mine, count=int(bool(mine)))
                for name, value in named
                for mine in (self.per_rank(value)[rank],)
            )
            for rank in range(self.ranks)
        )
        self.each(ev.StateSeen, **self.place, moment="entered", components=parts)

    def on_step(self, of: str, number: int | None) -> None:
        self.step += 1
        given, _, parts = of.partition("*")
        samples = self.per_rank(given)
        for rank in range(self.ranks) if number is None else (number,):
            loss = 2 / (1 + self.epoch + self.step + rank) + ("!" in of)
            inputs = _inputs("".join(f"{ord(letter):08x}" for letter in samples[rank].rstrip("!")))
            losses = ((loss,) * int(parts or 1),) * self.ranks
            self.each(ev.StepDone, [rank], **self.place, losses=losses, inputs=inputs)

    def on_report(self, of: str, number: int | None) -> None:
        self.each(ev.ReportBegun, epoch=self.epoch)
        self.each(ev.ReportReturned, epoch=self.epoch)
        self.epoch, self.step = self.epoch + 1, 0

    def on_upload(self, of: str, number: int | None) -> None:
        files = tuple({f"{rank}.pt": digest(self.epoch, rank)} for rank in range(self.ranks))
        self.each(ev.PartUploaded, epoch=self.epoch, checkpoint=f"c{self.epoch}", files=files)

    def on_commit(self, of: str, number: int | None) -> None:
        metric, _, value = of.partition(",")[2].partition("=")
        metrics = ({metric: int(value)} if metric else {},) * self.ranks
        name = None if of.startswith("-") else f"c{self.epoch - 1}"
        committed = ev.Committed(
            attempt=self.attempt, epoch=self.epoch - 1, checkpoint=name, metrics=metrics
        )
        self.say("controller-9", committed)

    def on_early(self, of: str, number: int | None) -> None:
        committed = ev.Committed(
            attempt=self.attempt,
            epoch=self.epoch - 1,
            checkpoint=f"e{self.attempt}",
            metrics=({},) * self.ranks,
            early=True,
        )
        self.say("controller-9", committed)

    def on_delete(self, of: str, number: int | None) -> None:
        self.say("controller-9", ev.CheckpointDeleted(attempt=self.attempt, checkpoint=of))

    def on_storage(self, of: str, number: int | None) -> None:
        found = tuple(
            ev.StoredCheckpoint(
                name=name.rstrip("~"),
                files={
                    f"{r}.pt": digest(int(name[1:].rstrip("~")), "torn" if "~" in name else r)
                    for r in range(self.ranks)
                },
            )
            for name in filter(None, of.split(","))
        )
        self.say("harness", ev.StorageSeen(op=None, checkpoints=found))

    def on_late(self, of: str, number: int | None) -> None:
        late = ev.StepDone(attempt=self.attempt - 1, rank=1, epoch=1, step=2, losses=(1.0,))
        self.say(f"worker-{self.pid(1) - 1000}", late)

    # -- files of the job's own ----------------------------------------------------------------

    def on_begin(self, of: str, number: int | None) -> None:
        self.each(ev.FileSaveBegun, **self.place, path=of)

    def on_write(self, of: str, number: int | None) -> None:
        path, _, ship = of.partition("=")
        self.on_begin(path, None)
        for rank in range(self.ranks):
            self.saves[path, rank] = (self.attempt, self.epoch, self.step)
        saved: dict[str, Any] = {"digest": digest(path, self.epoch, self.step), "bytes": 10}
        if ship:
            part = ev.SavedPart(name="ship", kind="numbers", digest=ship, size=float(ship))
            saved["parts"] = ((part,),) * self.ranks
        self.each(ev.FileSaved, **self.place, path=path, **saved)

    def on_rename(self, of: str, number: int | None) -> None:
        path, _, to = of.partition(">")
        self.origins[to] = self.origins.get(path, path)
        self.each(ev.FileRenamed, **self.place, path=path, to=to)

    def on_remove(self, of: str, number: int | None) -> None:
        self.each(ev.FileTouched, **self.place, operation="removing", path=of)

    def on_open(self, of: str, number: int | None) -> None:
        self.each(ev.FileTouched, **self.place, operation="opening", path=of)

    def on_copy(self, of: str, number: int | None) -> None:
        path, _, to = of.partition(">")
        self.origins[to] = path
        _, epoch, step = self.saves[path, 0]
        self.each(ev.FileCopied, epoch=epoch, step=step, path=to, digest=digest(path, epoch, step))

    def on_held(self, of: str, number: int | None) -> None:
        path, _, to = of.partition(">")
        self.origins[to] = path
        _, epoch, step = self.saves[path, 0]
        self.on_begin(to, None)
        saved: dict[str, Any] = {"digest": digest(path, epoch, step), "bytes": 10}
        self.each(ev.FileSaved, **self.place, path=to, **saved)

    def on_find(self, of: str, number: int | None) -> None:
        states: dict[str, Any] = {"-": "gone", "~": "elsewhere"}
        files = []
        for name in filter(None, of.split(",")):
            path = name.rstrip("-~")
            written = self.origins.get(path, path)
            content = ""  # of a file that no known saver wrote
            if (written, 0) in self.saves:
                _, epoch, step = self.saves[written, 0]
                content = digest(written, epoch, step)
            state = states.get(name[-1], "there")
            files.append(ev.SeenFile(path=path, digest=content, state=state))
        self.each(ev.FilesSeen, files=(tuple(files),) * self.ranks)

    def on_load(self, of: str, number: int | None) -> None:
        path, failed = of.rstrip("!/"), of.endswith("!")
        written = self.origins.get(path, path)
        for rank in range(1 if of.endswith("/") else self.ranks):
            attempt, epoch, step = self.saves.get((written, rank), (None, None, None))
            is_known = attempt is not None and not failed
            self.each(
                ev.FileLoaded,
                [rank],
                **self.place,
                path=path,
                digest=digest(written, epoch, step),
                saved_attempt=attempt if is_known else None,
                saved_rank=rank if is_known else None,
                saved_epoch=epoch if is_known else None,
                saved_step=step if is_known else None,
                error="EOFError: ran out of input" if failed else None,
            )

    # -- faults, and what comes of them --------------------------------------------------------

    def on_kill(self, of: str, number: int | None) -> None:
        self.on_stall(of, number)
        self.decide("failures")

    def on_stall(self, of: str, number: int | None) -> None:
        self.on_unseen(of, number)
        self.gone(len(self.ops) - 1, f"rank {self.ops[-1].at.rank} is gone")

    def on_unseen(self, of: str, number: int | None) -> None:
        self.inject("kill_worker", KillWorker(), 1 if number is None else number)

    def on_notice(self, of: str, number: int | None) -> None:
        rank = 1 if number is None else number
        self.inject("preempt_node", PreemptNode(notice_s=1.0), rank)
        self.notice(len(self.ops) - 1, rank, ahead_ms=1000)
        if of == "g":
            self.open(on=self.attempt)
            self.attempt -= 1

    def on_lose(self, of: str, number: int | None) -> None:
        self.gone(len(self.ops) - 1, "the node is dead")
        self.decide("preemptions")

    def inject(self, kind: str, fault: KillWorker | PreemptNode, rank: int) -> None:
        at = AtStep(epoch=self.epoch, step=max(1, self.step), rank=rank)
        done: dict[str, Any] = {kind: fault}
        self.ops.append(Op(index=len(self.ops), at=at, **done))
        self.invoke(len(self.ops) - 1, kind, rank)

    # -- the end -------------------------------------------------------------------------------

    def on_wait(self, of: str, number: int | None) -> None:
        self.now_ns += int(float(f"{number or 0}{of}") * 1e9)

    def on_end(self, of: str, number: int | None) -> None:
        self.each(ev.TrainFnEnded, [int(of)], epoch=self.epoch, step=0)

    def on_left(self, of: str, number: int | None) -> None:
        self.say("harness", ev.Leftover(kind="process", name="pid 7"))

    def on_trial(self, of: str, number: int | None) -> None:
        self.has_others = True
        self.say("driver", ev.ExperimentEnded(trials=2))
        self.bystander(1, steps=2, losses=of)

    def on_return(self, of: str, number: int | None) -> None:
        self.say("driver", ev.FitReturned(metrics={}, checkpoint=of or None))
        self.close()

    def on_hang(self, of: str, number: int | None) -> None:
        self.say("harness", ev.DeadlinePassed(limit_s=240))
        self.close()

    def per_rank(self, value: str) -> list[str]:
        """Return a value for each rank: of `a/b` each its own, the last for those after it."""
        given = value.split("/")
        return [given[min(rank, len(given) - 1)] for rank in range(self.ranks)]


def _inputs(samples: str) -> ev.Inputs | None:
    if not samples:
        return None
    return ev.Inputs(count=len(samples) // 8, digest=digest(samples), samples=samples)
