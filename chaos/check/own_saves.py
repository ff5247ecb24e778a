"""The saves of a job's own that an attempt could resume from, and whether it took the newest."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import PurePath

from chaos.check.analysis import RunAnalysis, RunTables
from chaos.check.attempt import Attempt
from chaos.check.files import SAVERS, Save, is_own, place_of, series_of
from chaos.check.model_files import files_with_model
from chaos.check.restarts import Restart
from chaos.check.save_operations import left_by
from chaos.model.event import (
    FileCopied,
    FileLoaded,
    FileRenamed,
    FileTouched,
    WroteOutside,
)
from chaos.model.paths import DRAWN_NAME
from chaos.model.places import START, Place, RankName
from chaos.model.tiers import Tiers
from chaos.model.trigger import IN_A_SAVE, AtMoment
from chaos.model.verdict import Anomaly
from chaos.words import plural

FIRST_SAVES = 2
HALF = 0.5  # of the numbers that are trained
_BY_STATE = ("state and inputs", "state")


def own_files(analysis: RunAnalysis, restart: Restart) -> Iterator[Anomaly]:
    """Yield an attempt that did not go on from the newest save of the job's own that was there.

    Nothing where Ray keeps the job's checkpoints, or no step was made.
    """
    if resumes_from_own_files(analysis) and restart.attempt.first_steps:
        sources = _Sources(analysis, restart)
        read = chain(sources.older(), sources.removed_newer())
        found = next(read, None) if sources.loads else sources.from_scratch()
        if found is not None:
            why = ""
            if sources.removal is None:
                why = _how_it_stopped(analysis, restart, has_read=bool(sources.loads))
            yield found.model_copy(update={"message": f"{found.message}{why}"})


def _how_it_stopped(analysis: RunAnalysis, restart: Restart, *, has_read: bool) -> str:
    """Return, as the end of a sentence, what a death inside a save has left, before a restart.

    `has_read`: the attempt read a save. If that is not what was left, it may have taken an older
    one for another reason.
    """
    clean, before = analysis.baseline, restart.attempt.index - 1
    if clean is None or "bucket" in analysis.plan.storage.values():
        return ""  # in a bucket a file is whole without a name of its own, and a link is none
    for injection in analysis.injections:
        at = injection.op.at
        if isinstance(at, AtMoment) and at.moment in IN_A_SAVE and before in injection.hits:
            loads = analysis.run.files.loads.items()
            every = (load for key, of in loads if key.attempt == before + 1 for _, load in of)
            read = {load.path for load in every} if has_read else None
            return left_by(at, analysis.history, clean, read)
    return ""


def resumes_from_own_files(analysis: RunAnalysis) -> bool:
    """Return whether the job keeps what it resumes from itself, and Ray none of it."""
    reference = analysis.reference
    ray_keeps = reference is not None and any(c.checkpoint for c in reference.lineage.commits)
    return analysis.run.keeps_own_files and not ray_keeps


def took_all_there_was(analysis: RunAnalysis, restart: Restart) -> bool:
    """Return whether an attempt was seen to go on from the newest of the job's own saves.

    Or to begin anew, as there was none.
    """
    attempt = restart.attempt
    is_seen = attempt.index in analysis.run.files.seen
    is_anew = all(start.place == START for start in attempt.starts.values())
    has_read = is_anew or bool(_loads(analysis, attempt))
    is_own = is_seen and has_read and analysis.run.keeps_own_files
    return is_own and not any(own_files(analysis, restart))


def beyond_sight(analysis: RunAnalysis, restart: Restart) -> str:
    """Return, as the end of a sentence, that a rank cannot see the file that another one read."""
    attempt, seen = restart.attempt, analysis.run.files.seen.get(restart.attempt.index, {})
    nodes = {place.rank: place.node_id for place in attempt.places}
    read = {rank: analysis.run.files.newest_loaded(attempt.index, rank) for rank in seen}
    for reader, load in read.items():
        for rank, files in seen.items():
            file = None if load is None else files.get(load[1].path)
            if file is None or read[rank] is not None or file.state == "there":
                continue
            if nodes.get(rank) != nodes.get(reader):
                return (
                    f"; rank {rank} runs on another node and does not see {file.path}, which "
                    f"lies on the disk of rank {reader}'s"
                )
    return ""


class _Sources:
    """The saves of earlier attempts at the start of one, and the files that its ranks read."""

    def __init__(self, analysis: RunAnalysis, restart: Restart) -> None:
        self.analysis, self.restart, self.files = analysis, restart, analysis.run.files
        attempt = restart.attempt
        starts = attempt.starts.values()
        self._index = attempt.index
        self.since = min((start.number for start in starts), default=0)
        self.there = self.files.there(attempt.index, before=self.since)
        self.loads = _loads(analysis, attempt)
        #: how the job itself lost the newest save, once that is known
        self.removal: FileTouched | None = None

    # -- an older one than there was -----------------------------------------------------------

    def older(self) -> Iterator[Anomaly]:
        """Yield the ranks that read an older save than there was, of the series that they read.

        The files that are read together count together: a save of which one rank's part is missing
        is not whole, nor one in whose folder a file is missing, such as a mark that it is whole.
        """
        for rank, (number, load) in self.loads.items():
            # A checkpoint may be several files, and several ranks' files: model here, optimizer
            # there, a part for each rank. To take the newest of each series would invent a save
            # that no rank could load; so the files that were read for one place are one save, and a
            # newer one must be whole in all of their series.
            age = self._moment(self.files.age(load))
            of_one_place = {
                series_of(other.path): other
                for of in self.loads
                for _, other in self.files.newest_of_series(self._index, of).values()
                if self._moment(self.files.age(other)) == age
            }
            of_one_place[series_of(load.path)] = load
            beside = self._beside[_folder_of(load.path)]
            pools = [
                [save for save in pool if self._is_filled(save, beside)]
                for other in of_one_place.values()
                if not _is_constant(pool := self._like(other))
            ]
            newest = self._newest(pools, load)
            if newest is None or newest.digest == load.digest:
                continue
            if self._moment(newest.age) <= self._moment(self._resumed(rank, load)):
                continue
            yield Anomaly(
                message=f"rank {rank} resumed from {load.path}, {self._age_in_words(rank, load)}; "
                f"{newest.title} of {_at(newest.age)} was there{self._again(newest)}",
                events=(newest.number, number),
            )

    def removed_newer(self) -> Iterator[Anomaly]:
        """Yield the ranks that read an older save than one that the job itself had removed again.

        A job that keeps the last few removes one only once a newer one is whole.
        """
        published = list(self.files.published(before=self.since))
        for rank, (number, load) in self.loads.items():
            alike = [save for save in published if series_of(save.name) == series_of(load.path)]
            resumed = self._moment(self._resumed(rank, load))
            newer = [save for save in alike if self._moment(save.age) > resumed]
            removals = {save.number: self._removal(save) for save in newer}
            newest = max(newer, key=lambda save: save.age, default=None)
            if newest is None or None in removals.values():
                continue  # one of them is lost in another way, or `older` tells of it
            removal = removals[newest.number]
            assert removal is not None
            place = _at(Place(removal[1].epoch, removal[1].step))
            yield Anomaly(
                message=f"rank {rank} resumed from {load.path}, {self._age_in_words(rank, load)}; "
                f"{newest.title} of {_at(newest.age)} had been saved, and the job removed it at "
                f"{place}{self._again(newest)}",
                events=(newest.number, removal[0], number),
            )

    def _removal(self, save: Save) -> tuple[int, FileTouched] | None:
        """Return the removal of a save by the job itself, before the attempt began.

        Of its very file or folder, or of one within it: another one of its series is kept or
        removed for reasons of its own.
        """
        names = (save.name, save.title)
        for number, touched in self.analysis.run.history.of(FileTouched):
            if not save.number < number < self.since or touched.how != "removing":
                continue
            if touched.path in names or any(touched.path.startswith(f"{n}/") for n in names):
                return number, touched
        return None

    def _moment(self, place: Place) -> Place:
        """Return one place for all between which no step lies, as an epoch's end and a head."""
        return self.files.last_step(place)

    def _resumed(self, rank: int, load: FileLoaded) -> Place:
        """Return the place of a rank's resume: as its state shows it, else as its file does."""
        shown = _place_by_state(self.restart.attempt, rank)
        return self.files.age(load) if shown is None else shown

    def _age_in_words(self, rank: int, load: FileLoaded) -> str:
        written, age, resumed = place_of(load), self.files.age(load), self._resumed(rank, load)
        if age < written:
            return f"written at {_at(written)} with the model of {_at(age)}"
        said = f"saved at {_at(written)}"
        is_earlier = self._moment(resumed) < self._moment(written)
        return f"{said}, and trained on from {_at(resumed)}" if is_earlier else said

    def _like(self, load: FileLoaded) -> list[Save]:
        """Return the saves of the series of a file that was read.

        By the name at which they lie; or by the one under which they were written, if it is not a
        copy that was read.
        """
        origin = self.files.origin(load)
        series, drafts = {series_of(load.path)}, set[str]()
        if origin is not None and (self._index not in self.files.seen or origin.name == load.path):
            series.add(origin.series)
            # What still has the name that the file read has given up is no save yet: with it, the
            # parts of all ranks would look whole.
            drafts = {origin.series} - {series_of(origin.name), series_of(load.path)}
        return [
            save
            for save in self.there
            if (series_of(save.name) in series or save.series in series)
            and series_of(save.name) not in drafts
        ]

    def _newest(self, pools: list[list[Save]], load: FileLoaded) -> Save | None:
        """Return the newest save that is whole in all series: of its files, the one like `load`."""
        whole = [self._whole_places(pool) for pool in pools]
        newest = max(set[Place].intersection(*whole), default=None) if whole else None
        at = [save for pool in pools for save in pool if self._moment(save.age) == newest]
        series = series_of(load.path)
        alike = sorted(at, key=lambda s: (s.rank == load.saved_rank, series_of(s.name) == series))
        return alike[-1] if alike else None

    def _whole_places(self, pool: list[Save]) -> set[Place]:
        """Return the places of a series at which each rank that has saves has one."""
        writers: dict[Place, set[int]] = {}
        for save in pool:
            writers.setdefault(self._moment(save.age), set()).add(save.rank)
        ranks = set().union(*writers.values())
        return {place for place, of in writers.items() if of == ranks}

    # -- none at all ---------------------------------------------------------------------------

    def from_scratch(self) -> Anomaly | None:
        """Return an attempt that began at the very beginning, although there were saves."""
        attempt = self.restart.attempt
        starts = attempt.starts.values()
        if not all(start.place == START for start in starts):
            return None
        # The files that the ranks found as they began are the evidence, not those written before:
        # these may have been removed since, be copied elsewhere later, or lie on the disk of a node
        # that is gone. Each of these is a sentence of its own below.
        left = self.files.left_last(self._index, before=self.since)
        newest = self._newest_of(self.there or left)
        head = f"attempt {attempt.index} started from scratch"
        events = tuple(start.number for start in starts)
        if newest is not None:
            was = f"{newest.title} of {_at(newest.age)} was there: no rank read it"
            message = f"{head}, although {was}{self._again(newest)}"
            return Anomaly(message=message, events=(newest.number, *events))
        if self._index not in self.files.seen:
            return None
        lost = [s for s in self.files.published(before=self.since) if not self._waited(s)]
        newest = self._newest_of(lost, whole=False)
        if newest is None or "there" in self._states(newest):
            return None  # nothing was kept, or a part of a save that never became whole
        message = f"{head}: {newest.title} of {_at(newest.age)} {self._lack(newest)}"
        return Anomaly(message=f"{message}{self._again(None)}", events=(newest.number, *events))

    def _newest_of(self, saves: list[Save], *, whole: bool = True) -> Save | None:
        """Return the newest save from which training may resume: as all ranks have it."""
        may = [save for save in saves if self._may_be_read(save)]
        newest: dict[int, Save] = {}
        for save in sorted(may, key=lambda save: save.age):
            if not whole or self._is_whole(save, may):
                newest[save.rank] = save
        return min(newest.values(), key=lambda save: save.age, default=None)

    def _may_be_read(self, save: Save) -> bool:
        """Return whether a file may be one from which training resumes.

        Once anything is read, it is one of a series that was read, or a copy of such a file on a
        disk that outlives its node. Before that, left out are files under a drawn name, those that
        only wait to be copied elsewhere, those without the model, if other files have it, and those
        with less than half as many numbers as are trained, as a schedule's.
        """
        # A job writes many files that are no checkpoint: logs, tables, pictures, caches. What it
        # reads after a restart is one by definition; before anything was read, the signs below must
        # do, and where none is there, nothing is said.
        read = {series_of(e.path) for of in self.files.loads.values() for _, e in of if is_own(e)}
        if read:
            # One that was set aside was in use: a job that begins anew beside it has lost it.
            names = {series_of(name) for name in (save.path, *save.former, save.name)}
            return not read.isdisjoint(names) or self._is_copy_of(read, save)
        if not self._with_model and save.saver not in SAVERS and not save.is_sharded:
            return False  # nothing shows that it is a checkpoint, and no picture or table
        if self._holds_too_little(save):
            return False
        is_staged = series_of(save.name) in self._staged | self._drafts
        names = {_file_of(other).name for other in self.files.saves if other.digest == save.digest}
        is_other = self._with_model and names.isdisjoint(self._with_model)
        # The working directory may lie in a folder with such a name, as that of a test does.
        below = save.name.removeprefix(str(self.analysis.plan.cwd))
        return not is_staged and not is_other and DRAWN_NAME.search(below) is None

    def _holds_too_little(self, save: Save) -> bool:
        """Return whether the files of a save have too few numbers to go on from, all together."""
        folder = PurePath(save.name).parent
        shares = [
            other.share
            for other in self.files.saves
            if (other.attempt, other.place) == (save.attempt, save.place)
            and PurePath(other.name).parent == folder
        ]
        return None not in shares and sum(filter(None, shares)) < HALF and not save.is_sharded

    def _is_copy_of(self, series: Collection[str], save: Save) -> bool:
        """Return whether a save outlives the node on which one of a series has its bytes."""
        if not self._outlives(save.name) or series_of(save.name) in self._drafts:
            return False
        alike = (other.name for other in self.files.saves if other.digest == save.digest)
        return any(series_of(name) in series and not self._outlives(name) for name in alike)

    @cached_property
    def _with_model(self) -> frozenset[str]:
        """The names of files in which the model was seen: they hold numbers of its very norm.

        Where some hold more than it, the others are for use elsewhere: no training goes on from
        a model alone, if it is kept with its optimizer as well.
        """
        found = {one for tables in self._compared for one in files_with_model(tables)}
        more = {name for name, is_alone in found if not is_alone}
        saves = (save for tables in self._compared for save in tables.files.saves)
        # What is in shards is not seen. Where a model that is seen stands alone, they have more.
        sharded = {_name_of(save.name) for save in saves if save.is_sharded and found}
        return frozenset(more or sharded or {name for name, _ in found})

    @cached_property
    def _compared(self) -> tuple[RunTables, ...]:
        reference = self.analysis.reference
        return (self.analysis.run,) if reference is None else (self.analysis.run, reference)

    def _waited(self, save: Save) -> bool:
        """Return whether a save waited on its node to be copied elsewhere, as its series is.

        With the node it is lost, and the job goes on from the newest that was copied.
        """
        if series_of(save.name) in self._carried:
            return save.digest not in self._copied
        # When another program's copy was whole is not known, but at the very first it may not be.
        made = {other.place for other in self.files.saves if other.number < self.since}
        return _name_of(save.name) in self._copied_by_others and len(made) <= FIRST_SAVES

    @cached_property
    def _carried(self) -> frozenset[str]:
        """The series of files that are copied to a disk which outlives their node."""
        copies = (copy for tables in self._compared for copy in _copies(tables))
        return frozenset(series_of(save.name) for save, path in copies if self._outlives(path))

    def _outlives(self, path: str) -> bool:
        return self._tiers.of_file(path) != "node"

    @cached_property
    def _tiers(self) -> Tiers:
        return Tiers.of(self.analysis.plan)

    @cached_property
    def _copied_by_others(self) -> frozenset[str]:
        """The names of saves under which another program has made files elsewhere."""
        found = set[str]()
        for tables in self._compared:
            saves = tables.files.saves
            known = {name for save in saves for name in (save.path, *save.former, save.name)}
            outside = {e.path for _, e in tables.history.of(WroteOutside) if e.how == "created"}
            copies = {_name_of(path) for path in outside - known if self._outlives(path)}
            found |= copies & set(map(_name_of, known))
        return frozenset(found)

    @cached_property
    def _copied(self) -> frozenset[str]:
        """The contents that were copied elsewhere before the attempt."""
        copies = self.analysis.run.history.of(FileCopied)
        at_once = {copied.digest for number, copied in copies if number < self.since}
        # One that is held at its operations is written as a save is.
        made, first = [*self.files.published(before=self.since)], dict[str | None, str]()
        for save in made:
            first.setdefault(save.digest, save.name)
        held = {s.digest for s in made if s.name != first[s.digest] and self._outlives(s.name)}
        return frozenset(at_once | {digest for digest in held if digest is not None})

    @cached_property
    def _staged(self) -> frozenset[str]:
        """The series of files that are copied elsewhere once they are written."""
        copies = (copy for tables in self._compared for copy in _copies(tables))
        pairs = ((series_of(save.name), series_of(path)) for save, path in copies)
        return frozenset(series for series, of_copy in pairs if series != of_copy)

    @cached_property
    def _drafts(self) -> frozenset[str]:
        """The series of names that the baseline's files have until they get another one."""
        tables = self._compared[-1]
        moved = {e.path: number for number, e in tables.history.of(FileRenamed)}
        laid = [(number, copied.path) for number, copied in tables.history.of(FileCopied)]
        kept = {series_of(save.name) for save in tables.files.saves}
        for at, path in laid:
            holders = (path, *map(str, PurePath(path).parents))
            if all(moved.get(holder, at) <= at for holder in holders):
                kept.add(series_of(path))
        former = {name for save in tables.files.saves for name in save.former}
        return frozenset(map(series_of, former.union(path for _, path in laid))) - kept

    def _is_whole(self, save: Save, others: list[Save]) -> bool:
        """Return whether all files lie beside a save that the baseline has saved at its place.

        Those of the names that are there at all, or that an attempt has read. On another number of
        ranks that is not known.
        """
        if self.analysis.reference is None or self.analysis.resized:
            return True
        names = {_file_of(other).name for other in others} | self._read_names
        due = {file for file in self._due.get(save.place, ()) if file.name in names}
        is_complete = due <= {_file_of(other) for other in others if other.place >= save.place}
        return is_complete and self._is_filled(save, self._filled[_folder_of(save.name)])

    @cached_property
    def _read_names(self) -> frozenset[str]:
        """The names of the run's own files that any attempt has read."""
        every = (load for loads in self.files.loads.values() for _, load in loads)
        return frozenset(_name_of(load.path) for load in every if is_own(load))

    @cached_property
    def _beside(self) -> Mapping[str, Counter[str]]:
        """The files that were there, by folder, each by its name without the numbers in it."""
        return _by_folder({f.path for f in self.files.found(self._index) if f.state == "there"})

    @cached_property
    def _filled(self) -> Mapping[str, Counter[str]]:
        """The files that the baseline put into each folder."""
        tables = self._compared[-1]
        copies = {copied.path for _, copied in tables.history.of(FileCopied)}
        return _by_folder(copies | {save.name for save in tables.files.saves})

    def _is_filled(self, save: Save, due: Counter[str]) -> bool:
        """Return whether as many files of each name lie beside a save as are due."""
        return self._index not in self.files.seen or due <= self._beside[_folder_of(save.name)]

    @cached_property
    def _due(self) -> Mapping[Place, set[RankName]]:
        """The files of the baseline's, by the place of their content."""
        found: dict[Place, dict[str, RankName]] = {}
        tables = self._compared[-1]
        copied = (replace(save, name=path) for save, path in _copies(tables))
        for save in (*tables.files.saves, *copied):
            # Of ranks that write one and the same file, the last has written it.
            found.setdefault(save.place, {})[save.name] = _file_of(save)
        return {place: set(files.values()) for place, files in found.items()}

    # -- words ---------------------------------------------------------------------------------

    def _states(self, save: Save) -> set[str]:
        """Return how the ranks found the files with a save's bytes."""
        found = self.files.found(self._index)
        return {file.state for file in found if file.digest == save.digest}

    def _lack(self, save: Save) -> str:
        """Return, in words, the reason why a save that was made was not there."""
        states = self._states(save)
        if "elsewhere" in states:
            return "lay in the temporary folder of another node, on which no rank runs now"
        if "gone" in states and not self._nodes_of(save).isdisjoint(self._lost_nodes()):
            return "lay on the disk of the node that was lost"
        removal = self._removal(save)
        if removal is None:
            return "was not there any more, and nothing else was"
        _, self.removal = removal
        at = _at(Place(self.removal.epoch, self.removal.step))
        saves = (other for other in self.files.saves if save.number < other.number < self.since)
        if any(other.place > save.place for other in saves):
            return f"was removed at {at}, before the next one was whole: remove it only then"
        return f"was removed at {at}, and no other one was there"

    def _nodes_of(self, save: Save) -> set[str]:
        """Return the nodes of the ranks that wrote a file of these bytes."""
        places = {(a.index, p.rank): p for a in self.analysis.run.attempts for p in a.places}
        writers = {(s.attempt, s.rank) for s in self.files.saves if s.digest == save.digest}
        return {place.node_id for writer, place in places.items() if writer in writers}

    def _lost_nodes(self) -> set[str]:
        takers = (s for s in self.analysis.injections if s.op.fault.nodes_lost)
        return {invoked.node_id for s in takers for _, invoked in s.invoked}

    def _again(self, newest: Save | None) -> str:
        """Return, as the end of a sentence, the steps trained again, and those from the newest."""
        lost = self.restart.lost_steps
        rank = max(lost, key=lambda rank: lost[rank], default=None)
        if rank is None or not lost[rank]:
            return ""
        cost = f"; it cost {plural(lost[rank], 'finished step')}"
        since = None if newest is None else self._steps_since(newest, rank)
        return cost if since is None else f"{cost}, and would have cost {since} from that save"

    def _steps_since(self, save: Save, rank: int) -> int:
        """Return the number of a rank's steps from a save to the end of the attempt before."""
        done = [s for a in self.analysis.run.attempts if a.index < self._index for s in a.steps]
        places = [Place(s.epoch, s.step) for s in done if s.rank == rank]
        return len({place for place in places if save.age < place <= places[-1]})


def _loads(analysis: RunAnalysis, attempt: Attempt) -> Mapping[int, tuple[int, FileLoaded]]:
    """Return the file of this run from which each rank resumed, if its save is known.

    Of several that it read, the one with the model of the place where it trains; else the youngest.
    """
    files = analysis.run.files
    found = {}
    for rank in sorted(attempt.starts):
        shown = _place_by_state(attempt, rank)
        of_model = [
            (number, load)
            for number, load in files.loads_of(attempt.index, rank)
            if shown is not None and is_own(load) and files.holds_model_of(load, shown)
        ]
        load = of_model[-1] if of_model else files.newest_loaded(attempt.index, rank)
        if load is not None and files.origin(load[1]) is not None:
            found[rank] = load
    return found


def _place_by_state(attempt: Attempt, rank: int) -> Place | None:
    """Return the place of a rank's resume, if its state shows one and no other."""
    start = attempt.starts.get(rank)
    is_shown = start is not None and start.by in _BY_STATE and not start.others
    return start.place if start is not None and is_shown else None


def _copies(tables: RunTables) -> Iterator[tuple[Save, str]]:
    """Yield the saves of which a course made copies, with the path of each."""
    first: dict[str | None, Save] = {}
    for save in tables.files.saves:
        if first.setdefault(save.digest, save).path != save.path and save.digest is not None:
            yield first[save.digest], save.name
    for _, copied in tables.history.of(FileCopied):
        if copied.digest in first:
            yield first[copied.digest], copied.path


def _name_of(path: str) -> str:
    return series_of(PurePath(path).name)


def _folder_of(path: str) -> str:
    """Return the folder of one save in which a file lies: it has a number; else an empty text."""
    folder = str(PurePath(path).parent)
    return folder if any(letter.isdigit() for letter in PurePath(folder).name) else ""


def _by_folder(paths: Iterable[str]) -> Mapping[str, Counter[str]]:
    found = defaultdict[str, Counter[str]](Counter)
    for path in paths:
        if folder := _folder_of(path):
            found[folder][series_of(PurePath(path).name)] += 1
    return found


def _file_of(save: Save) -> RankName:
    return RankName(save.rank, series_of(PurePath(save.name).name))


def _is_constant(pool: list[Save]) -> bool:
    """Return whether a series has the same content at each save, and so no age."""
    return len({save.digest for save in pool}) == 1 and len(pool) > 1


def _at(place: Place) -> str:
    return str(place) if place.step else f"epoch {place.epoch}"
