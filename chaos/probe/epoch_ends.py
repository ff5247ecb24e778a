"""The ends of a rank's epochs: by its reports, by its saves, or by the steps of the baseline."""

from chaos.model.places import TrainingPlace
from chaos.probe.cursor import Cursor
from chaos.probe.saves import SaveFolder, SaveRecord


class EpochEnds:
    """The ends of one rank's epochs, and the saves that lie at them."""

    def __init__(
        self, cursor: Cursor, saves: SaveFolder, *, ranks: int, reported_epoch: int | None
    ) -> None:
        self._cursor, self._saves = cursor, saves
        self._reported_epoch = reported_epoch
        self._recent_saves: list[SaveRecord] = []
        self._baseline_lengths = saves.load_epoch_lengths(cursor.rank, ranks=ranks)
        self._reported_lengths: dict[int, int] = {}  # the steps of each epoch that was reported
        #: whether the job makes steps, as far as the baseline shows
        self.makes_steps = any(self._baseline_lengths.values())
        self._has_stepped = False

    @property
    def has_reported(self) -> bool:
        return bool(self._reported_lengths)

    @property
    def is_before_training(self) -> bool:
        """Whether this attempt of a job that makes steps has made none: what it writes is data."""
        return self.makes_steps and not self._has_stepped

    def add_save(self, save: SaveRecord) -> None:
        """Remember a save until the next step: its epoch may end here."""
        self._recent_saves.append(save)

    def step_done(self) -> None:
        """Remember that the saves so far lie in the middle of an epoch."""
        self._has_stepped = True
        self._recent_saves.clear()

    def has_save(self) -> bool:
        """Return whether any rank has saved a file since the last step of an epoch.

        The ranks step together: the save of one holds up the next step of the others.
        """
        cursor = self._cursor
        return cursor.step > 0 and self._saves.has_mark("place", *cursor.place_key())

    def is_end(self, place: TrainingPlace) -> bool:
        """Return whether an epoch ended there: by its report, or by its steps in the baseline.

        The report after a save may never begin, since a fault may come between.
        """
        epoch, step = place
        if epoch in self._reported_lengths:
            return self._reported_lengths[epoch] == step
        return step > 0 and self._baseline_lengths.get(epoch) == step

    def is_at_end(self, epoch_steps: int | None) -> bool:
        """Return whether a step begins the next epoch, in a job that reports nothing.

        Its epochs are those of the baseline. In the baseline itself, an epoch ends after
        `epoch_steps`; without that, where any rank has saved a file since the last step: by now
        all ranks have come to this one, since they share its gradients.
        """
        epoch, step = self._cursor.epoch, self._cursor.step
        if self._baseline_lengths:
            return 0 < step == self._baseline_lengths.get(epoch)
        if epoch_steps is not None:
            return step >= epoch_steps
        return self.has_save()

    def is_at_reported_end(self) -> bool:
        """Return whether the report that ends this epoch came before, with a step after its end.

        A checkpoint may be older than its report: one that is saved beside training is reported
        when it is whole, which is a save later. A job that resumes from it trains the rest of
        that epoch, and does not report it again. `reported_epoch` is the epoch whose report came
        with the checkpoint that this attempt resumed from; of epochs after it, each has its report.
        """
        cursor = self._cursor
        return (
            self._reported_epoch is not None
            and cursor.epoch <= self._reported_epoch
            and cursor.epoch not in self._reported_lengths
            and 0 < cursor.step == self._baseline_lengths.get(cursor.epoch)
        )

    def begin_next_epoch(self) -> None:
        """Begin the epoch after one whose report came in an earlier attempt."""
        cursor = self._cursor
        self._saves.set_mark("passed", cursor.attempt, cursor.epoch)
        cursor.epoch, cursor.step = cursor.epoch + 1, 0

    def pass_at_report(self) -> None:
        """Pass the end at a report, if it is the one of a last checkpoint saved beside training.

        In the baseline no step lies between the report of this epoch and that one, and what is
        saved here is reported by the second.
        """
        # With saves beside training (`dcp.async_save`) a checkpoint is reported when it is whole,
        # one save later, so that the last two reports of a job come without a step between them:
        #
        #     steps of the epoch | report of the save before | report of this epoch's own save
        #
        # An attempt that resumed from the first of the two counts no end at it, since its
        # checkpoint brought that report with it. Without this, its second report would end the
        # epoch that the baseline ended with the first, and the baseline's last epoch be missing.
        cursor = self._cursor
        is_saved = self._saves.has_mark("place", *cursor.place_key())
        is_next_empty = self._baseline_lengths.get(cursor.epoch + 1) == 0
        if is_saved and is_next_empty and self.is_at_reported_end():
            self.begin_next_epoch()

    def mark_ends(self) -> None:
        """Mark the saves since the last step as the end of their epoch."""
        # A save comes before the report that ends its epoch, so only now is it known that a job
        # which loads it continues with the next epoch. The mark is a file of its own, for later
        # attempts; saves of earlier steps stay places within the epoch.
        epoch, step = self._cursor.epoch, self._cursor.step
        self._reported_lengths[epoch] = step
        for save in self._recent_saves:
            if (save.epoch, save.step) == (epoch, step) and step > 0:
                self._saves.mark_epoch_end(save)
        self._recent_saves.clear()
