"""Places in training, as sentences about findings name them."""

from chaos.model.places import TrainingPlace


def describe_place(place: TrainingPlace) -> str:
    """Return an epoch, with the step within it if it is not its beginning."""
    return str(place) if place.step else f"epoch {place.epoch}"
