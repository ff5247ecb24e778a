"""Failed runs, grouped by what is wrong with the job."""

import re
from collections import Counter
from collections.abc import Callable, Container, Sequence
from typing import Any, Self

from chaos.audit.group import GROUPS, Group
from chaos.audit.run_row import Defect, RunRow, without_names
from chaos.check.diagnosis import EFFECTS
from chaos.check.epochs import CURSOR, EPOCHS
from chaos.check.fix_hints import is_unseen
from chaos.check.headline import as_sentence
from chaos.check.samples import SAMPLE_ORDER, SAMPLES
from chaos.check.state import STATE
from chaos.check.state_snapshots import is_rng
from chaos.check.trajectory import TRAJECTORY
from chaos.model.severity import SEVERITIES, Severity
from chaos.model.verdict import JobLine
from chaos.record import Record
from chaos.words import plural

# From the least that a reproduction needs to the most.
# The checks that tell of a place in the data, each where the others do not show.
_DATA = frozenset({CURSOR, SAMPLE_ORDER, SAMPLES, EPOCHS})
HEADS_MIN = 2  # right resumes, without which nothing shows that places matter
_FAULTS = ("kill_worker", "kill_loader", "fail_save", "kill_node", "preempt_node")


class Confirmation(Record):
    """The result of a finding's reproduction on another backend."""

    #: `confirmed`: the same check is broken there; `otherwise`: another one is; `refuted`: the job
    #: passed; `open`: the run was inconclusive
    state: str
    headline: str

    def __str__(self) -> str:
        words = {
            "confirmed": "confirmed",
            "otherwise": "broken as well, in another way",
            "refuted": "not confirmed",
        }
        return words.get(self.state, "could not be confirmed")


class Finding(Record):
    """One cause: the runs that show it, and the smallest of them."""

    name: str
    defect: Defect
    runs: tuple[int, ...]
    #: of the runs, those of several places
    combined: int
    groups: dict[Group, int]
    places: tuple[str, ...]
    smallest: RunRow
    #: a path below the audit's folder
    repro: str
    #: likewise
    report: str
    confirmation: Confirmation | None = None
    #: the resumes that alone show it, in a sentence
    note: str = ""
    #: what was shown to be the cause by giving it back, in a sentence
    proof: str = ""
    #: the values that were given back for that
    cause: tuple[str, ...] = ()
    #: what giving values back did not mend, in a sentence
    trial: str = ""
    #: the severity that giving values back has shown
    graded: Severity | None = None
    #: of the job's code, behind it
    lines: tuple[JobLine, ...] = ()

    @property
    def severity(self) -> Severity:
        return self.graded or self.defect.severity

    @property
    def headline(self) -> str:
        """The smallest run in a sentence: its headline, if that is about this cause."""
        run, headline = self.smallest, self.smallest.headline
        if run.defects[:1] != (self.defect,) and self._own:
            headline = as_sentence(f"{run.faults}{self._own}")
        # Instead of its usual reasons, where these were tried.
        if (self.proof or self.trial) and self.defect.check in (STATE, TRAJECTORY):
            told = dict(zip((d.check for d in run.defects), run.sentences, strict=False))
            headline = as_sentence(f"{run.faults}{told.get(TRAJECTORY, self._own)}")
        headline = self._without_guesses(headline)
        return " ".join(filter(None, (headline, self.proof, self.trial, self.note)))

    @property
    def is_open(self) -> bool:
        """Whether no check names the cause for certain.

        Buffers that a forward call moves may differ for what moves them. A generator that did not
        come back is taken for the cause where nothing else is known to be one. And of a part that
        is another one it may not have been seen why.
        """
        is_moved = all(part.startswith(("model.buffers", "rng.")) for part in self.defect.parts)
        is_open = self.defect.check == STATE and (is_moved or is_unseen(self._own))
        return is_open or self.defect.check in EFFECTS

    def proven(self, sentence: str, lines: Sequence[JobLine], cause: Sequence[str]) -> Self:
        """Return the finding with what was shown to be its cause, and the lines of that.

        A part of the state that is not among it is no longer named as what is lost: it follows.
        """
        proof: dict[str, Any] = {"proof": sentence, "lines": tuple(lines), "cause": tuple(cause)}
        if not {*self.defect.parts} & {*cause}:
            proof["defect"] = self._effect
        return self.model_copy(update=proof)

    def not_mended(self, sentence: str) -> Self:
        """Return the finding with what did not mend it: generators, which are not the cause then.

        The result is wrong: nothing shows that it is only drawn otherwise.
        """
        trial: dict[str, Any] = {"trial": sentence, "graded": "wrong result"}
        if all(is_rng(part) for part in self.defect.parts):
            trial |= {"defect": self._effect}
        return self.model_copy(update=trial)

    @property
    def _effect(self) -> Defect:
        """The numbers that differ, in place of a part of the state that is not their cause."""
        others = [d for d in self.smallest.defects if d.check == TRAJECTORY]
        return others[0] if others and self.defect.check == STATE else self.defect

    @property
    def brief(self) -> str:
        """The defect in a sentence, without the faults that showed it."""
        return as_sentence(self._without_guesses(self._own)) if self._own else self.headline

    def _without_guesses(self, text: str) -> str:
        """Return a text without what was likely, where the cause was shown."""
        for guess in self.smallest.guesses if self.proof else ():
            text = text.replace(guess, "")
        return text

    @property
    def _own(self) -> str:
        """The sentence of the smallest run on this defect; empty in a record of an older chaos."""
        run = self.smallest
        return dict(zip(run.defects, run.sentences, strict=False)).get(self.defect, "")

    @property
    def elsewhere(self) -> str:
        """The result of its reproduction elsewhere, in words; empty if there is none.

        What is said of the finding itself is not said again.
        """
        seen = self.confirmation
        if seen is None:
            return ""
        is_same = without_names(seen.headline) == without_names(self.smallest.headline)
        return f"{seen}, same difference" if is_same else f"{seen}: {seen.headline}"

    @property
    def besides(self) -> tuple[str, ...]:
        """The more specific checks that the smallest run breaks for another cause."""
        defects = self.smallest.defects
        at = defects.index(self.defect) if self.defect in defects else 0
        before = dict.fromkeys(defect.check for defect in defects[:at])
        return tuple(check for check in before if check != self.defect.check)

    @property
    def count(self) -> int:
        """The number of places and of runs of several places that show it."""
        return len(self.runs)

    @property
    def extent(self) -> str:
        """The number of places, and of runs of several places, in words."""
        alone = self.count - self.combined
        places = plural(alone, "place") if alone else ""
        runs = f"{plural(self.combined, 'run')} of several places" if self.combined else ""
        return " and ".join(filter(None, (places, runs)))


def findings(runs: Sequence[RunRow]) -> tuple[Finding, ...]:
    """Group the failed runs by cause, the cause with the most places first.

    A run belongs to the causes that its first broken check names; if it also shows a
    more frequent cause, to that one. A trajectory that parts is no such cause, since
    almost every defect makes it part. If the same part of the state is lost, it is one
    cause, even if other parts are lost with it: these depend on the place. So is a place in the
    data that did not come back: the place decides whether steps are skipped, samples left out, or
    an epoch is trained in another's order.
    """
    failed = [run for run in runs if run.status == "fail" and run.defects]
    same = _same_cause([defect for run in failed for defect in run.defects])
    broken = [_renamed(run, same.__getitem__) for run in failed]
    main = _main_of_data(broken)
    moved = {run.number for run in broken if _of_data(run) not in (None, main)}
    broken = [_with_main(run, main) for run in broken]
    counts = Counter(run.defects[0] for run in broken)
    ranking = sorted(counts, key=lambda d: (d.check == TRAJECTORY, -counts[d], d.check, d.gist))
    grouped: dict[Defect, list[RunRow]] = {defect: [] for defect in ranking}
    for run in broken:
        for defect in _causes(run, ranking):
            grouped.setdefault(defect, []).append(run)
    found = [(defect, of) for defect, of in grouped.items() if of]
    found.sort(key=lambda item: -len(item[1]))
    names = _names([defect for defect, _ in found])
    right = [run for run in runs if run.is_right]
    # A run that shows two causes is an example of both: one that shows a cause alone comes first.
    of_several = Counter(id(run) for _, of in found for run in of)
    unclear = {run.number for run in broken if of_several[id(run)] > 1} | moved
    return tuple(
        _finding(defect, of, name, unclear, _only_within(defect, of, right))
        for (defect, of), name in zip(found, names, strict=True)
    )


def _renamed(run: RunRow, name: Callable[[Defect], Defect]) -> RunRow:
    """Return a run in which each defect has another name, and the first sentence of that name."""
    sentence_of: dict[Defect, str] = {}
    sentences = dict(zip(run.defects, run.sentences, strict=False))
    for defect in run.defects:
        sentence_of.setdefault(name(defect), sentences.get(defect, ""))
    return run.model_copy(
        update={"defects": tuple(sentence_of), "sentences": tuple(sentence_of.values())}
    )


def _of_data(run: RunRow) -> Defect | None:
    """Return the first sign of a place in the data, if it is the cause of a run, or one of two.

    Neither an optimizer nor a schedule chooses inputs. Where the model came back, something was
    loaded, and its place in the data is another matter.
    """
    first, *others = run.defects
    if first.check in _DATA:
        return first
    parts = {part.partition(".")[0] for d in run.defects if d.check == STATE for part in d.parts}
    if first.check != STATE or not parts <= {"optimizer", "schedule", "scaler"}:
        return None
    return next((defect for defect in others if defect.check in _DATA), None)


def _main_of_data(runs: Sequence[RunRow]) -> Defect | None:
    """Return the gravest and then most frequent sign of a place in the data that was lost."""
    counts = Counter(defect for run in runs if (defect := _of_data(run)) is not None)
    order = sorted(counts, key=lambda d: (SEVERITIES.index(d.severity), -counts[d], d.gist))
    return next(iter(order), None)


def _with_main(run: RunRow, main: Defect | None) -> RunRow:
    """Return a run in which one sign of the place in the data stands for all."""
    if main is None or _of_data(run) is None:
        return run
    return _renamed(run, lambda defect: main if defect.check in _DATA else defect)


def size(run: RunRow) -> tuple[object, ...]:
    """Return the size of a reproduction, to sort by: ops, means, then the place in training."""
    kind = run.ops[0].kind
    means = _FAULTS.index(kind) if kind in _FAULTS else len(_FAULTS)
    return len(run.ops), means, run.place.order, run.number


def _same_cause(defects: Sequence[Defect]) -> dict[Defect, Defect]:
    """Return, for each defect, the one with the fewest parts of those that begin with its first."""
    of: dict[object, Defect] = {}
    for defect in sorted(set(defects), key=lambda d: (len(d.parts), d.gist)):
        of.setdefault((defect.check, defect.severity, defect.parts[:1] or defect.gist), defect)
    return {d: of[d.check, d.severity, d.parts[:1] or d.gist] for d in set(defects)}


def _causes(run: RunRow, ranking: Sequence[Defect]) -> Sequence[Defect]:
    own, others = run.defects[0], run.defects[1:]
    shown = {own, *(defect for defect in others if defect.check != TRAJECTORY)}
    first = next(defect for defect in ranking if defect in shown)
    # Only parts of the state are known to be lost one by one.
    found = [first, *(d for d in others if d.check == first.check and d.parts)]
    if own.check == first.check and own.parts:
        found.append(own)
    data = _of_data(run)
    if data is not None and own.check == STATE:
        found += [own, data]
    return tuple(dict.fromkeys(found))


def united(found: Sequence[Finding], runs: Sequence[RunRow]) -> tuple[Finding, ...]:
    """Return the findings of all these runs; those that were shown to have one cause are one.

    The first of them stands for all of its severity.
    """
    of: dict[object, list[Finding]] = {}
    for finding in found:
        key = (finding.severity, *sorted(finding.cause)) if finding.cause else finding.name
        of.setdefault(key, []).append(finding)
    rows = {run.number: run for run in runs}
    return tuple(
        same[0].model_copy(update=_extent([rows[n] for n in {n for one in same for n in one.runs}]))
        for same in of.values()
    )


def _extent(runs: Sequence[RunRow]) -> dict[str, Any]:
    """Return what a finding says of all runs that show it."""
    counts = Counter(run.group for run in runs)
    in_order = sorted(runs, key=lambda run: (GROUPS.index(run.group), run.place.order))
    return {
        "runs": tuple(sorted(run.number for run in runs)),
        "combined": sum(run.is_combined for run in runs),
        "groups": {group: counts[group] for group in GROUPS if counts[group]},
        "places": tuple(f"{run.group}: {run.name}" for run in in_order),
    }


def _finding(
    defect: Defect, runs: Sequence[RunRow], name: str, unclear: Container[int], note: str
) -> Finding:
    """Return a finding; of the `unclear` runs none is its example if another shows it."""
    smallest = min(runs, key=lambda run: (run.number in unclear, size(run)))
    return Finding(
        name=name,
        defect=defect,
        smallest=smallest,
        **_extent(runs),
        repro=f"repro/{name}.chaos.yaml",
        report=f"runs/{smallest.number}/report.html",
        note=note,
        lines=_own_lines(smallest, defect),
    )


def _own_lines(run: RunRow, defect: Defect) -> tuple[JobLine, ...]:
    """Return the lines behind a defect: of what was made, that of its own parts."""
    is_first = run.defects[:1] == (defect,)
    own = {part.partition(".")[0] for part in defect.parts}
    return tuple(
        line
        for line in run.lines
        if (line.part.partition(".")[0] in own if line.role == "made" else is_first or own)
    )


def _only_within(defect: Defect, wrong: Sequence[RunRow], right: Sequence[RunRow]) -> str:
    """Return a sentence if resumes from within an epoch alone show a cause; else an empty text."""
    heads = sum(run.within is False for run in right)
    if heads < HEADS_MIN or not all(run.within for run in wrong) or any(r.within for r in right):
        return ""
    sentence = (
        f"Only resumes from within an epoch fail ({len(wrong)} of {len(wrong)}, and none of "
        f"{heads} from an epoch's beginning)"
    )
    is_drawn = defect.check == SAMPLE_ORDER or any(part.startswith("rng") for part in defect.parts)
    # torch 2.13, `_BaseDataLoaderIter`: the seed of its workers, also where it has none.
    draws = "a DataLoader without a `generator` draws from torch's as each iteration begins"
    return f"{sentence}; {draws}." if is_drawn else f"{sentence}."


def _names(defects: Sequence[Defect]) -> list[str]:
    """Return the names of findings by their checks, numbered if a check has several."""
    seen: Counter[str] = Counter()
    names = []
    for defect in defects:
        word = re.sub(r"\W+", "_", defect.check)
        seen[word] += 1
        names.append(word if seen[word] == 1 else f"{word}_{seen[word]}")
    return names
