"""Architectures by name."""

from keras_elmo.config import ElmoConfig
from keras_elmo.pretrained.registry import get_model

PRESETS: dict[str, ElmoConfig] = {
    "tiny": ElmoConfig(
        filters=((1, 16), (2, 32), (3, 64), (4, 96), (5, 128)),
        num_highway=1,
        lstm_dim=512,
        projection_dim=128,
    ),
    **{name: get_model(name).config for name in ("small", "medium", "original")},
}
"""`tiny` is the bundled model's, the others those of the published models of the same names."""
