"""Jobs of any extent, and the sample of their places."""

from collections.abc import Sequence

from hypothesis import strategies as st

from chaos.audit.job_profile import JobProfile, ProfiledSaveOperation
from chaos.audit.site_category import (
    SiteCategory,
)
from chaos.audit.site_groups import FaultSite
from chaos.model.places import EpochRank, TrainingPlace
from chaos.model.trigger import SAVE_MOMENTS

SEEDS = st.integers(min_value=0, max_value=2**32)


def operations(
    epochs: Sequence[int], ranks: Sequence[int]
) -> st.SearchStrategy[ProfiledSaveOperation]:
    places = st.frozensets(st.sampled_from([EpochRank(e, r) for e in epochs for r in ranks]))
    paths = st.sampled_from(["c/last.pt", "c/epoch_*.pt"])
    steps = places.map(lambda some: dict.fromkeys(sorted(some), 1.0))
    moments, outlives = st.sampled_from(SAVE_MOMENTS), st.booleans()
    return st.builds(ProfiledSaveOperation, moments, paths, steps, st.just(False), outlives)


@st.composite
def extents(draw: st.DrawFn, *, steps_max: int = 8) -> JobProfile:
    ranks = tuple(range(draw(st.integers(1, 3))))
    epochs = tuple(range(draw(st.integers(0, 5))))
    trailing = draw(st.booleans())
    lengths = st.integers(0, steps_max)
    trained = [*epochs, *([len(epochs)] if trailing else [])]
    steps = {EpochRank(e, r): n for e in trained for r in ranks if (n := draw(lengths))}
    saved = tuple(e for e in epochs if draw(st.booleans()))
    uploaders = ranks if draw(st.booleans()) else ranks[:1]
    return JobProfile(
        ranks=ranks,
        epochs=epochs,
        saved_epochs=saved,
        uploads=tuple(EpochRank(epoch, rank) for epoch in saved for rank in uploaders),
        saves=tuple(EpochRank(epoch, rank) for epoch in saved for rank in uploaders),
        steps=steps,
        remaining_s={epoch: draw(st.floats(0, 30)) for epoch, _ in steps},
        seconds=3.0,
        settings={
            "max_failures": draw(st.sampled_from([-1, 0, 3])),
            "num_workers": draw(st.sampled_from([len(ranks), [1, len(ranks) + 1]])),
        },
        replaced={},
        loading_ranks=draw(st.sampled_from([(), ranks[:1], ranks])),
        background_saves=tuple(
            EpochRank(epoch, uploaders[0]) for epoch in saved if draw(st.booleans())
        ),
        loaders={place: 1 for place, n in steps.items() if n > 1 and draw(st.booleans())},
        operations=tuple(
            draw(st.lists(operations(saved, uploaders), max_size=6, unique_by=kind_of))
            if saved
            else ()
        ),
    )


def kind_of(operation: ProfiledSaveOperation) -> tuple[str, str]:
    return operation.moment, operation.path


def groups_of(places: tuple[FaultSite, ...]) -> set[SiteCategory]:
    return {place.group for place in places}


def under_torchrun(*, away: tuple[int, ...] = (), least: int | None = None) -> JobProfile:
    places = tuple(EpochRank(epoch, 0) for epoch in range(4))
    return JobProfile(
        ranks=(0, 1),
        epochs=(),
        saved_epochs=(),
        uploads=(),
        saves=places,
        script_saves=tuple(TrainingPlace(epoch, 3) for epoch in range(4)),
        operations=(ProfiledSaveOperation("saving", "exp/last.pt", dict.fromkeys(places, 3)),),
        steps={EpochRank(epoch, rank): 3 for epoch in range(4) for rank in (0, 1)},
        remaining_s=dict.fromkeys(range(4), 10.0),
        seconds=3.0,
        settings={"num_workers": 2 if least is None else [least, 2]},
        replaced={},
        loading_ranks=(0,),
        launcher="torchrun",
        remote_ranks=away,
    )
