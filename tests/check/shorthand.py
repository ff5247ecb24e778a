"""Histories in one line: two ranks, one word for each thing that happens.

    g  g<c0  g<c0/-   a worker group opens; what it is handed (per rank)
    @model=7,rng=1/2  the state that the ranks enter with (per rank); `opt=`: empty
    s  s:ab/cd  s*2   the next step; its samples (per rank); its micro-batches
    s!  s1            with another loss than elsewhere; on rank 1 alone
    r                 report() is entered, and returns, on both ranks
    u                 both ranks' parts of this epoch's checkpoint are uploaded
    c  c-  c,n=3      the report is committed: with its checkpoint, without, with a metric
    d:c0              Ray removes a checkpoint
    L:c0,c1~  L       what storage holds: `~` is damaged; when the run is over
    w:f  w:f=3  v:f   a file is written; `ship` in it is 3; its writing begins and does not end
    m:f>g  k:f>g      it is renamed; it is copied
    q:f,g-,h~  q      what a rank finds of these as it begins: `-` is gone, `~` lies elsewhere
    l:f  l:f!  l:f/   a file is read; it cannot be; rank 0 alone reads it
    x  y  i           rank 1 is killed; Ray does not decide; what came of it is not seen
    z                 rank 1 of the attempt before makes a step
    n  X              notice for rank 1's node, one second ahead; it is lost
    n:g               the same, and Ray opens a group on that node
    +30               that many seconds pass
    end:0  end:1      rank's train function returned
    left              a process is left behind
    t:a               the other trial of the experiment, with these losses
    .  .c0  H         the run ends; with that result; it is hung, and ended by us

Checkpoints are named by their epoch. `plan` has an op for each strike.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from chaos.faults.kill_worker import KillWorker
from chaos.faults.preempt_node import PreemptNode
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.plan import Plan
from tests.check.scribe import RANKS, Scribe
from tests.check.story import Story
from tests.check.watching import digest


def told_in(line: str) -> History:
    """Return the history of a line."""
    return _Telling().tell(line)


def plan_of(line: str, **expect: Any) -> Plan:
    """Return the plan whose ops are the strikes of a line."""
    telling = _Telling()
    telling.tell(line)
    plan = Story().plan(**expect)
    job = plan.job.model_copy(update={"trial": 0 if " t:" in line else None})
    return plan.model_copy(update={"ops": tuple(telling.ops), "job": job})


@dataclass
class _Telling(Scribe):
    """`saves`: where each file of the job's own was last saved, by path and rank.

    `origins`: the paths under which renamed and copied files were written.
    """

    saves: dict[tuple[str, int], tuple[int, int, int]] = field(default_factory=dict)

    origins: dict[str, str] = field(default_factory=dict)

    def tell(self, line: str) -> History:
        for word in line.split():
            name = re.match(r"\w+|[.@+]", word)
            assert name is not None, word
            known = {"@": "state", "+": "wait", ".": "over"}
            head = known.get(name.group(), name.group())
            head = "step" if head in ("s", "s1") else head
            getattr(self, f"on_{head}")(word)
        return History(self.entries)

    def on_g(self, word: str) -> None:
        self.attempt += 1
        handed = _each(word.partition("<")[2] or "-")
        names = tuple(None if name == "-" else name for name in handed)
        self.epoch = max((int(name[1:]) + 1 for name in names if name), default=0)
        self.step = 0
        self.open(f"node-{self.attempt}")
        epochs = tuple(0 if name is None else int(name[1:]) + 1 for name in names)
        for rank in RANKS:
            started = ev.WorkerStarted(
                attempt=self.attempt,
                rank=rank,
                world_size=2,
                pid=self.attempt * 10 + rank,
                node_id=f"node-{self.attempt}-{rank}",
                checkpoint=names[rank],
                epoch=epochs[rank],
            )
            self.say(f"worker-{rank}", started)
        self.ranks(ev.CheckpointRead, checkpoint=names)

    def on_state(self, word: str) -> None:
        named = [part.split("=") for part in word[1:].split(",")]
        parts = tuple(
            tuple(
                ev.Component(
                    name={"opt": "optimizer.momentum_buffer", "rng": "rng.torch"}.get(n, n),
                    digest=_each(value)[rank],
                    count=int(bool(_each(value)[rank])),
                )
                for n, value in named
            )
            for rank in RANKS
        )
        self.ranks(ev.StateSeen, **self.place, moment="entered", components=parts)

    def on_step(self, word: str) -> None:
        self.step += 1
        only = RANKS if not word.startswith("s1") else (1,)
        parts = int(word.partition("*")[2] or 1)
        given = _each(word.partition(":")[2].partition("*")[0])
        for rank in only:
            loss = 2 / (1 + self.epoch + self.step + rank) + ("!" in word)
            samples = "".join(f"{ord(letter):08x}" for letter in given[rank].rstrip("!"))
            done = ev.StepDone(
                attempt=self.attempt,
                rank=rank,
                **self.place,
                losses=(loss,) * parts,
                inputs=_inputs(samples) if samples else None,
            )
            self.say(f"worker-{rank}", done)

    def on_r(self, word: str) -> None:
        self.ranks(ev.ReportBegun, epoch=self.epoch)
        self.ranks(ev.ReportReturned, epoch=self.epoch)
        self.epoch, self.step = self.epoch + 1, 0

    def on_u(self, word: str) -> None:
        files = tuple({f"{rank}.pt": digest(self.epoch, rank)} for rank in RANKS)
        name = f"c{self.epoch}"
        self.ranks(ev.PartUploaded, epoch=self.epoch, checkpoint=name, files=files)

    def on_c(self, word: str) -> None:
        ended = self.epoch - 1
        metric = word.partition(",")[2].partition("=")
        record = {metric[0]: int(metric[2])} if metric[0] else {}
        self.say(
            "controller",
            ev.Committed(
                attempt=self.attempt,
                epoch=ended,
                checkpoint=None if word.startswith("c-") else f"c{ended}",
                metrics=(record, record),
            ),
        )

    def on_d(self, word: str) -> None:
        gone = word.partition(":")[2]
        self.say("controller", ev.CheckpointDeleted(attempt=self.attempt, checkpoint=gone))

    def on_L(self, word: str) -> None:  # noqa: N802 (the word's own letter)
        named = [name for name in word.partition(":")[2].split(",") if name]
        found = tuple(
            ev.StoredCheckpoint(
                name=name.rstrip("~"),
                files={
                    f"{r}.pt": digest(int(name[1:].rstrip("~")), r if "~" not in name else "torn")
                    for r in RANKS
                },
            )
            for name in named
        )
        self.say("harness", ev.StorageSeen(op=None, checkpoints=found))

    def on_w(self, word: str) -> None:
        path, _, ship = word.partition(":")[2].partition("=")
        self.on_v(f"v:{path}")
        for rank in RANKS:
            self.saves[path, rank] = (self.attempt, self.epoch, self.step)
        saved: dict[str, Any] = {"digest": digest(path, self.epoch, self.step), "bytes": 10}
        if ship:
            part = ev.SavedPart(name="ship", kind="numbers", digest=ship, size=float(ship))
            saved["parts"] = ((part,), (part,))
        self.ranks(ev.FileSaved, **self.place, path=path, **saved)

    def on_v(self, word: str) -> None:
        self.ranks(ev.FileSaveBegun, **self.place, path=word.partition(":")[2])

    def on_m(self, word: str) -> None:
        path, _, to = word.partition(":")[2].partition(">")
        self.origins[to] = path
        self.ranks(ev.FileRenamed, **self.place, path=path, to=to)

    def on_k(self, word: str) -> None:
        path, _, to = word.partition(":")[2].partition(">")
        self.origins[to] = path
        _, epoch, step = self.saves[path, 0]
        done = {"path": to, "digest": digest(path, epoch, step)}
        self.ranks(ev.FileCopied, epoch=epoch, step=step, **done)

    def on_q(self, word: str) -> None:
        files = []
        for name in filter(None, word.partition(":")[2].split(",")):
            path = name.rstrip("-~")
            written = self.origins.get(path, path)
            _, epoch, step = self.saves[written, 0]
            states: dict[str, Any] = {"-": "gone", "~": "elsewhere"}
            state = states.get(name[-1], "there")
            found = ev.SeenFile(path=path, digest=digest(written, epoch, step), state=state)
            files.append(found)
        for rank in RANKS:
            seen = ev.FilesSeen(attempt=self.attempt, rank=rank, files=tuple(files))
            self.say(f"worker-{rank}", seen)

    def on_l(self, word: str) -> None:
        path = word.partition(":")[2].rstrip("!/")
        written = self.origins.get(path, path)
        for rank in RANKS[: 1 if word.endswith("/") else 2]:
            attempt, epoch, step = self.saves.get((written, rank), (None, None, None))
            failed = word.endswith("!")
            loaded = ev.FileLoaded(
                attempt=self.attempt,
                rank=rank,
                **self.place,
                path=path,
                digest=digest(written, epoch, step),
                saved_attempt=None if failed else attempt,
                saved_rank=None if failed or attempt is None else rank,
                saved_epoch=None if failed else epoch,
                saved_step=None if failed else step,
                error="EOFError: ran out of input" if failed else None,
            )
            self.say(f"worker-{rank}", loaded)

    def on_x(self, word: str) -> None:
        self.strike(KillWorker())
        self.decide("failures")

    def on_y(self, word: str) -> None:
        self.strike(KillWorker())

    def on_i(self, word: str) -> None:
        self.strike(KillWorker(), is_seen=False)

    def on_z(self, word: str) -> None:
        late = ev.StepDone(attempt=self.attempt - 1, rank=1, epoch=1, step=2, losses=(1.0,))
        self.say("worker-1", late)

    def on_n(self, word: str) -> None:
        self.strike(PreemptNode(notice_s=1.0))
        op, node = len(self.ops) - 1, f"node-{self.attempt}-1"
        at_ns = self.now_ns + 1_000_000_000
        self.say("chaos", ev.NoticeGiven(op=op, node_id=node, deadline_ns=at_ns))
        self.say("chaos", ev.GateReleased(op=op, attempt=self.attempt, rank=1))
        if word == "n:g":
            self.attempt += 1
            self.open(f"node-{self.attempt - 1}")
            self.attempt -= 1

    def on_X(self, word: str) -> None:  # noqa: N802 (the word's own letter)
        self.gone(len(self.ops) - 1)
        self.decide("preemptions")

    def on_wait(self, word: str) -> None:
        self.now_ns += int(float(word[1:]) * 1e9)

    def on_end(self, word: str) -> None:
        rank = int(word.partition(":")[2])
        ended = ev.TrainFnEnded(attempt=self.attempt, rank=rank, epoch=self.epoch, step=0)
        self.say(f"worker-{rank}", ended)

    def on_left(self, word: str) -> None:
        self.say("harness", ev.Leftover(kind="process", what="pid 7"))

    def on_t(self, word: str) -> None:
        seen = ev.BystanderSeen(
            trial=1,
            began_ns=0,
            ended_ns=self.now_ns,
            attempts=1,
            failures=0,
            steps=2,
            losses={"rank 0, epoch 0": word.partition(":")[2]},
            finished=True,
        )
        self.say("driver", ev.ExperimentEnded(trials=2))
        self.say("harness", seen)

    def on_over(self, word: str) -> None:
        self.say("driver", ev.FitReturned(metrics={}, checkpoint=word[1:] or None))
        self.close()

    def on_H(self, word: str) -> None:  # noqa: N802 (the word's own letter)
        self.say("harness", ev.DeadlinePassed(limit_s=240))
        self.close()


def _each(value: str) -> tuple[str, str]:
    """Return a value for each rank: the one before the slash, and the one after it."""
    first, slash, second = value.partition("/")
    return first, second if slash else first


def _inputs(samples: str) -> ev.Inputs:
    return ev.Inputs(count=len(samples) // 8, digest=digest(samples), samples=samples)
