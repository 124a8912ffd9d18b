"""Architectures by name."""

from keras_elmo.config import ElmoConfig

PRESETS = {
    "tiny": ElmoConfig(
        filters=((1, 16), (2, 32), (3, 64), (4, 96), (5, 128)),
        n_highway=1,
        lstm_dim=512,
        projection_dim=128,
    ),
    "small": ElmoConfig(n_highway=1, lstm_dim=1024, projection_dim=128),
    "medium": ElmoConfig(n_highway=1, lstm_dim=2048, projection_dim=256),
    "original": ElmoConfig(),
}
"""`tiny` is the bundled model's, the others those of the published models of the same names."""
