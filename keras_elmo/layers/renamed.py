"""Arguments that had other names when a model was saved."""

from typing import Any

_NAMES = {
    "n_directions": "num_directions",
    "n_highway": "num_highway",
    "n_layers": "num_layers",
    "n_negative_samples": "num_negative_samples",
    "n_tokens_vocab": "vocabulary_size",
}


def current_names(config: dict[str, Any]) -> dict[str, Any]:
    """The config of a saved layer, with the current names of its arguments."""
    return {_NAMES.get(name, name): value for name, value in config.items()}
