"""Failed runs, grouped by what is wrong with the job."""

import re
from collections import Counter
from collections.abc import Callable, Container, Sequence
from typing import Any, Self

from pydantic import Field

from chaos.audit.run_row import Defect, DefectKey, RunRow
from chaos.audit.site_category import SITE_CATEGORIES, SiteCategory
from chaos.check.diagnosis import EFFECTS
from chaos.check.epochs import CURSOR, EPOCHS
from chaos.check.samples import SAMPLE_ORDER, SAMPLES
from chaos.check.state import STATE
from chaos.check.trajectory import TRAJECTORY
from chaos.model.events.state import OPTIMIZER_STATE, SETTINGS
from chaos.model.severity import SEVERITIES, Severity
from chaos.model.verdict import JobLine
from chaos.record import Record
from chaos.resume.state_snapshots import is_rng
from chaos.wording import capitalize_first, format_sentence, plural

# The checks that tell of a place in the data, each where the others do not show. The most telling
# first: where training went on, in which order, and what was missing in the end.
_DATA = (CURSOR, SAMPLE_ORDER, SAMPLES, EPOCHS)
HEADS_MIN = 2  # right resumes, without which nothing shows that places matter
# From the least that a reproduction needs to the most.
_FAULTS = ("kill_worker", "kill_loader", "fail_save", "kill_node", "preempt_node")


class Confirmation(Record):
    """The result of a finding's reproduction on another backend."""

    #: `confirmed`: the same check is broken there; `otherwise`: another one is; `refuted`: the job
    #: passed; `open`: the run was inconclusive
    state: str
    headline: str
    #: the first broken promise there; None without one
    defect: DefectKey | None = None

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
    defect: DefectKey
    runs: tuple[int, ...]
    #: of the runs, those of several places
    combined: int
    groups: dict[SiteCategory, int]
    places: tuple[str, ...]
    smallest: RunRow
    #: what that run shows of the defect, in the fields of its kind
    facts: dict[str, Any] = Field(default_factory=dict)
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
        """The smallest run in a sentence, its faults first."""
        return self._describe(self.smallest.faults)

    @property
    def fault_text(self) -> str:
        """The faults of the smallest run, in words."""
        return self.smallest.faults.removesuffix("; ")

    @property
    def consequence(self) -> str:
        """The headline without the faults: what they led to, and what was shown of it."""
        return self._describe("")

    def _describe(self, faults: str) -> str:
        """Return the smallest run's headline, if that is about this cause, behind these faults."""
        run = self.smallest
        headline = (run.headline_without_guess if self.proof else "") or run.headline
        if not faults:
            headline = capitalize_first(headline[_find_prefix_length(run, headline) :])
        if run.defect_keys[:1] != (self.defect,) and self._defect_sentence:
            headline = format_sentence(f"{faults}{self._defect_sentence}")
        # Instead of its usual reasons, where these were tried.
        if (self.proof or self.trial) and self.defect.check in (STATE, TRAJECTORY):
            sentence_by_check = {
                defect.check: self._choose_sentence(defect) for defect in run.defects
            }
            headline = format_sentence(
                f"{faults}{sentence_by_check.get(TRAJECTORY, self._defect_sentence)}"
            )
        return " ".join(filter(None, (headline, self.proof, self.trial, self.note)))

    @property
    def is_open(self) -> bool:
        """Whether no check names the cause for certain.

        Buffers that a forward call moves may differ for what moves them. A generator that did not
        come back is taken for the cause where nothing else is known to be one. And of a part that
        is another one it may not have been seen why.
        """
        is_moved = all(part.startswith(("model.buffers", "rng.")) for part in self.defect.parts)
        is_open = self.defect.check == STATE and (is_moved or self._example.is_unexplained)
        return is_open or self.defect.check in EFFECTS

    def add_proof(self, sentence: str, lines: Sequence[JobLine], cause: Sequence[str]) -> Self:
        """Return the finding with what was shown to be its cause, and the lines of that.

        A part of the state that is not among it is no longer named as what is lost: it follows.
        """
        is_named = {*self.defect.parts} & {*cause} or self._is_optimizer_among(cause)
        finding = self if is_named or self.defect.check != STATE else self.name_numbers()
        return finding.replace(proof=sentence, lines=tuple(lines), cause=tuple(cause))

    def add_failed_trial(self, sentence: str) -> Self:
        """Return the finding with what did not mend it: generators, which are not the cause then.

        The result is wrong: nothing shows that it is only drawn otherwise.
        """
        is_drawn = self.defect.check == STATE and all(is_rng(part) for part in self.defect.parts)
        finding = self.name_numbers() if is_drawn else self
        return finding.replace(trial=sentence, graded="wrong result")

    def _is_optimizer_among(self, cause: Sequence[str]) -> bool:
        """Return whether one of several optimizers is the cause, of whose parts one is lost."""
        return any(path.endswith(OPTIMIZER_STATE) for path in cause) and any(
            part.startswith("optimizer.") and part.rpartition(".")[2] not in SETTINGS
            for part in self.defect.parts
        )

    def name_numbers(self) -> Self:
        """Return the finding with the numbers that differ, in place of a sign that only follows."""
        defect = next((d for d in self.smallest.defects if d.check == TRAJECTORY), None)
        return self if defect is None else self.replace(defect=defect.key, facts=defect.facts)

    @property
    def brief(self) -> str:
        """The defect in a sentence, without the faults that showed it."""
        return format_sentence(self._defect_sentence) if self._defect_sentence else self.headline

    def _choose_sentence(self, defect: Defect) -> str:
        """Return a defect's sentence: without what is likely, where the cause was shown."""
        return (defect.sentence_without_guess if self.proof else "") or defect.sentence

    @property
    def _example(self) -> Defect:
        """This defect in the smallest run; without a sentence if that shows it by another sign."""
        no_example = Defect(**self.defect.model_dump(include={*DefectKey.model_fields}))
        return next((d for d in self.smallest.defects if d.key == self.defect), no_example)

    @property
    def _defect_sentence(self) -> str:
        return self._choose_sentence(self._example)

    @property
    def elsewhere(self) -> str:
        """The result of its reproduction elsewhere, in words; empty if there is none.

        What is said of the finding itself is not said again.
        """
        confirmation = self.confirmation
        if confirmation is None:
            return ""
        is_same = confirmation.defect in self.smallest.defect_keys[:1]
        return (
            f"{confirmation}, by the same kind of finding"
            if is_same
            else f"{confirmation}: {confirmation.headline}"
        )

    @property
    def besides(self) -> tuple[str, ...]:
        """The more specific checks that the smallest run breaks for another cause."""
        defects = self.smallest.defect_keys
        index = defects.index(self.defect) if self.defect in defects else 0
        earlier_checks = dict.fromkeys(defect.check for defect in defects[:index])
        return tuple(check for check in earlier_checks if check != self.defect.check)

    @property
    def count(self) -> int:
        """The number of places and of runs of several places that show it."""
        return len(self.runs)

    @property
    def extent(self) -> str:
        """The number of places, and of runs of several places, in words."""
        single_count = self.count - self.combined
        places = plural(single_count, "place") if single_count else ""
        runs = f"{plural(self.combined, 'run')} of several places" if self.combined else ""
        return " and ".join(filter(None, (places, runs)))


def _find_prefix_length(run: RunRow, headline: str) -> int:
    """Return the length of the faults at the beginning of a headline, 0 where it has none there."""
    is_first = bool(run.faults) and headline.startswith(capitalize_first(run.faults))
    return len(run.faults) if is_first else 0


def group_findings(runs: Sequence[RunRow]) -> tuple[Finding, ...]:
    """Group the failed runs by cause, the cause with the most places first.

    A run belongs to the causes that its first broken check names; if it also shows a
    more frequent cause, to that one. A trajectory that parts is no such cause, since
    almost every defect makes it part. If the same part of the state is lost, it is one
    cause, even if other parts are lost with it: these depend on the place. So is a place in the
    data that did not come back: the place decides whether steps are skipped, samples left out, or
    an epoch is trained in another's order.
    """
    failed_runs = [run for run in runs if run.status == "fail" and run.defects]
    main_by_defect = _merge_same_cause([key for run in failed_runs for key in run.defect_keys])
    broken_runs = [_rename_defects(run, main_by_defect.__getitem__) for run in failed_runs]
    main_defect = _find_main_data_defect(broken_runs)
    replaced_numbers = {
        run.number for run in broken_runs if _find_data_defect(run) not in (None, main_defect)
    }
    broken_runs = [_merge_data_defects(run, main_defect) for run in broken_runs]
    counts = Counter(run.defect_keys[0] for run in broken_runs)
    ranking = sorted(counts, key=lambda d: (d.check == TRAJECTORY, -counts[d], d.check, d.kind))
    runs_by_defect: dict[DefectKey, list[RunRow]] = {defect: [] for defect in ranking}
    for run in broken_runs:
        for defect in _select_causes(run, ranking):
            runs_by_defect.setdefault(defect, []).append(run)
    causes = [(defect, cause_runs) for defect, cause_runs in runs_by_defect.items() if cause_runs]
    causes.sort(key=lambda item: -len(item[1]))
    names = _name_findings([defect for defect, _ in causes])
    right_runs = [run for run in runs if run.is_right]
    # A run that shows two causes is an example of both: one that shows a cause alone comes first.
    cause_counts = Counter(id(run) for _, cause_runs in causes for run in cause_runs)
    unclear_numbers = {
        run.number for run in broken_runs if cause_counts[id(run)] > 1
    } | replaced_numbers
    return tuple(
        _build_finding(
            defect,
            cause_runs,
            name,
            unclear_numbers,
            _describe_epoch_limit(defect, cause_runs, right_runs),
        )
        for (defect, cause_runs), name in zip(causes, names, strict=True)
    )


def _rename_defects(run: RunRow, rename: Callable[[DefectKey], DefectKey]) -> RunRow:
    """Return a run in which each defect is another one, with the first sentence about that."""
    renamed_defects: dict[DefectKey, Defect] = {}
    for defect in run.defects:
        key = rename(defect.key)
        fields = key.model_dump(include={*DefectKey.model_fields})
        renamed_defects.setdefault(key, defect.replace(**fields))
    return run.replace(defects=tuple(renamed_defects.values()))


def _find_data_defect(run: RunRow) -> DefectKey | None:
    """Return the first sign of a place in the data, if it is the cause of a run, or one of two.

    Neither an optimizer nor a schedule chooses inputs. Where the model came back, something was
    loaded, and its place in the data is another matter.
    """
    first_defect, *other_defects = run.defect_keys
    if first_defect.check in _DATA:
        return first_defect
    parts = {part.partition(".")[0] for d in run.defects if d.check == STATE for part in d.parts}
    if first_defect.check != STATE or not parts <= {"optimizer", "schedule", "scaler"}:
        return None
    return next((defect for defect in other_defects if defect.check in _DATA), None)


def _find_main_data_defect(runs: Sequence[RunRow]) -> DefectKey | None:
    """Return the gravest, then most telling, then most frequent sign of a lost place in the data.

    A batch that was fetched and not trained was called "54 of 140 samples" in all places but one,
    and a loader that was skipped twice "other inputs", where one place showed four skipped steps.
    """
    counts = Counter(defect for run in runs if (defect := _find_data_defect(run)) is not None)
    order = sorted(
        counts,
        key=lambda d: (
            SEVERITIES.index(d.severity),
            _DATA.index(d.check),
            -counts[d],
            d.kind,
        ),
    )
    return next(iter(order), None)


def _merge_data_defects(run: RunRow, main_defect: DefectKey | None) -> RunRow:
    """Return a run in which one sign of the place in the data stands for all."""
    if main_defect is None or _find_data_defect(run) is None:
        return run
    return _rename_defects(run, lambda defect: main_defect if defect.check in _DATA else defect)


def measure_size(run: RunRow) -> tuple[object, ...]:
    """Return the size of a reproduction, to sort by: ops, means, then the place in training."""
    kind = run.ops[0].kind
    fault_index = _FAULTS.index(kind) if kind in _FAULTS else len(_FAULTS)
    return len(run.ops), fault_index, run.place.order, run.number


def _merge_same_cause(defects: Sequence[DefectKey]) -> dict[DefectKey, DefectKey]:
    """Return, for each defect, the one with the fewest parts of those that begin with its first."""
    main_by_cause: dict[object, DefectKey] = {}
    for defect in sorted(set(defects), key=lambda d: (len(d.parts), d.kind, d.parts)):
        main_by_cause.setdefault(_identify_cause(defect), defect)
    return {defect: main_by_cause[_identify_cause(defect)] for defect in set(defects)}


def _identify_cause(defect: DefectKey) -> object:
    """Return what defects of one cause share: of parts of the state, the first, however lost."""
    if defect.check == STATE and defect.parts:
        return defect.check, defect.severity, defect.parts[0]
    return defect.check, defect.severity, defect.kind, defect.parts


def _select_causes(run: RunRow, ranking: Sequence[DefectKey]) -> Sequence[DefectKey]:
    main_defect, other_defects = run.defect_keys[0], run.defect_keys[1:]
    candidates = {main_defect, *(defect for defect in other_defects if defect.check != TRAJECTORY)}
    top_defect = next(defect for defect in ranking if defect in candidates)
    # Only parts of the state are known to be lost one by one.
    causes = [top_defect]
    if top_defect.check == STATE:
        causes += [defect for defect in other_defects if defect.check == STATE]
        causes += [main_defect] if main_defect.check == STATE else []
    data_defect = _find_data_defect(run)
    if data_defect is not None and main_defect.check == STATE:
        causes += [main_defect, data_defect]
    return tuple(dict.fromkeys(causes))


def merge_findings(findings: Sequence[Finding], runs: Sequence[RunRow]) -> tuple[Finding, ...]:
    """Return the findings of all these runs; those that were shown to have one cause are one.

    The first of them stands for all of its severity.
    """
    findings_by_cause: dict[object, list[Finding]] = {}
    for finding in findings:
        key = (finding.severity, *sorted(finding.cause)) if finding.cause else finding.name
        findings_by_cause.setdefault(key, []).append(finding)
    rows = {run.number: run for run in runs}
    return tuple(
        same_cause[0].model_copy(
            update=_summarize_runs(
                [rows[n] for n in {n for member in same_cause for n in member.runs}]
            )
        )
        for same_cause in findings_by_cause.values()
    )


def _summarize_runs(runs: Sequence[RunRow]) -> dict[str, Any]:
    """Return what a finding says of all runs that show it."""
    counts = Counter(run.group for run in runs)
    ordered_runs = sorted(runs, key=lambda run: (SITE_CATEGORIES.index(run.group), run.place.order))
    return {
        "runs": tuple(sorted(run.number for run in runs)),
        "combined": sum(run.is_combined for run in runs),
        "groups": {group: counts[group] for group in SITE_CATEGORIES if counts[group]},
        "places": tuple(f"{run.group}: {run.name}" for run in ordered_runs),
    }


def _build_finding(
    defect: DefectKey, runs: Sequence[RunRow], name: str, unclear_numbers: Container[int], note: str
) -> Finding:
    """Return a finding; no run of `unclear_numbers` is its example if another shows it."""
    smallest = min(runs, key=lambda run: (run.number in unclear_numbers, measure_size(run)))
    return Finding(
        name=name,
        defect=defect,
        smallest=smallest,
        facts=next((d.facts for d in smallest.defects if d.key == defect), {}),
        **_summarize_runs(runs),
        repro=f"repro/{name}.chaos.yaml",
        report=f"runs/{smallest.number}/report.html",
        note=note,
        lines=_select_lines(smallest, defect),
    )


def _select_lines(run: RunRow, defect: DefectKey) -> tuple[JobLine, ...]:
    """Return the lines behind a defect: of what was made, that of its own parts."""
    is_first = run.defect_keys[:1] == (defect,)
    part_roots = {part.partition(".")[0] for part in defect.parts}
    return tuple(
        line
        for line in run.lines
        if (
            line.part.partition(".")[0] in part_roots
            if line.role == "made"
            else is_first or part_roots
        )
    )


def _describe_epoch_limit(
    defect: DefectKey, wrong_runs: Sequence[RunRow], right_runs: Sequence[RunRow]
) -> str:
    """Return a sentence if resumes from within an epoch alone show a cause; else an empty text."""
    epoch_starts = sum(run.within is False for run in right_runs)
    if (
        epoch_starts < HEADS_MIN
        or not all(run.within for run in wrong_runs)
        or any(r.within for r in right_runs)
    ):
        return ""
    sentence = (
        f"Only resumes from within an epoch fail ({len(wrong_runs)} of {len(wrong_runs)}, and "
        "none of "
        f"{epoch_starts} from an epoch's beginning)"
    )
    is_drawn = defect.check == SAMPLE_ORDER or any(part.startswith("rng") for part in defect.parts)
    # torch 2.13, `_BaseDataLoaderIter`: the seed of its workers, also where it has none.
    explanation = "a DataLoader without a `generator` draws from torch's as each iteration begins"
    return f"{sentence}; {explanation}." if is_drawn else f"{sentence}."


def _name_findings(defects: Sequence[DefectKey]) -> list[str]:
    """Return the names of findings by their checks, numbered if a check has several."""
    check_counts: Counter[str] = Counter()
    names = []
    for defect in defects:
        check_name = re.sub(r"\W+", "_", defect.check)
        check_counts[check_name] += 1
        names.append(
            check_name
            if check_counts[check_name] == 1
            else f"{check_name}_{check_counts[check_name]}"
        )
    return names
