"""What all runs together say of chaos: how much it sees, names rightly, and imagines."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chaos.selftest.interval import Share
from chaos.selftest.trial import Judged
from chaos.zoo.catalogue import Exhibit

EXIT_GOOD, EXIT_BAD, EXIT_UNKNOWN = 0, 1, 2


@dataclass(frozen=True)
class BugScore:
    """The runs of one bug, or of all."""

    total: int
    detected: Share
    named: Share

    @property
    def revealed(self) -> int:
        """How many runs could show it."""
        return self.detected.total


@dataclass(frozen=True)
class Score:
    """The whole self-test; rows are in the order of their numbers."""

    seed: int
    backend: str
    exhibits: tuple[Exhibit, ...]
    rows: tuple[Judged, ...]
    seconds: float

    def of(self, exhibit: Exhibit) -> list[Judged]:
        """Give the runs of one exhibit."""
        return [row for row in self.rows if row.exhibit == exhibit.id]

    @property
    def bugs(self) -> list[Exhibit]:
        """The planted bugs that were tried."""
        return [exhibit for exhibit in self.exhibits if not exhibit.is_control]

    @property
    def controls(self) -> list[Exhibit]:
        """The controls that were tried."""
        return [exhibit for exhibit in self.exhibits if exhibit.is_control]

    @property
    def on_bugs(self) -> BugScore:
        """The runs of all bugs together."""
        return bug_score([row for row in self.rows if not row.is_control])

    @property
    def false_alarms(self) -> Share:
        """The control runs that were called wrong."""
        return false_alarms([row for row in self.rows if row.is_control])

    @property
    def caught(self) -> Share:
        """The bugs of which every run that could show them was caught, and there was one."""
        scores = [bug_score(self.of(bug)).detected for bug in self.bugs]
        return Share(sum(s.total > 0 and s.count == s.total for s in scores), len(scores))

    @property
    def misnamed(self) -> list[str]:
        """The bugs that were called something else at least once."""
        return [bug.id for bug in self.bugs if any(row.is_misnamed for row in self.of(bug))]

    @property
    def exit_code(self) -> int:
        """1 for a bug missed or a right job blamed, 2 where something was not shown, else 0."""
        if any(row.is_miss or row.is_false_alarm for row in self.rows):
            return EXIT_BAD
        untried = any(bug_score(self.of(bug)).revealed == 0 for bug in self.bugs)
        undecided = any(row.is_undecided and row.is_control for row in self.rows)
        return EXIT_UNKNOWN if untried or undecided else EXIT_GOOD

    def to_json(self) -> str:
        """Give everything for machines."""
        return json.dumps(
            {
                "seed": self.seed,
                "backend": self.backend,
                "seconds": self.seconds,
                "exit_code": self.exit_code,
                "bugs": {bug.id: _bug_words(bug_score(self.of(bug))) for bug in self.bugs},
                "all_bugs": _bug_words(self.on_bugs),
                "controls": {c.id: _share_words(false_alarms(self.of(c))) for c in self.controls},
                "false_alarms": _share_words(self.false_alarms),
                "runs": [row.model_dump(mode="json") for row in self.rows],
            },
            indent=2,
        )


def bug_score(rows: Sequence[Judged]) -> BugScore:
    """Count what was seen of a bug."""
    revealing = [row for row in rows if row.revealing]
    detected = [row for row in revealing if not row.is_miss]
    named = sum(row.named for row in detected)
    return BugScore(len(rows), Share(len(detected), len(revealing)), Share(named, len(detected)))


def false_alarms(rows: Iterable[Judged]) -> Share:
    """Count what was called wrong among runs of right jobs that were decided."""
    decided = [row for row in rows if row.is_false_alarm or not row.is_undecided]
    return Share(sum(row.is_false_alarm for row in decided), len(decided))


def _share_words(share: Share) -> dict[str, object]:
    return {"count": share.count, "of": share.total, "interval_95": list(share.bounds)}


def _bug_words(score: BugScore) -> dict[str, object]:
    return {
        "runs": score.total,
        "detected": _share_words(score.detected),
        "named": _share_words(score.named),
    }
