"""Draws the pictures of README.md and the site: python docs/pictures.py"""

from pathlib import Path

import keras_elmo
from keras_elmo import plot

FOLDER = Path(__file__).parent / "pictures"
LEFT = [
    "They left the house early in the morning .",
    "He left the room without a word .",
    "She left the town the next day .",
    "We left the ship at noon .",
]
HAND = [
    "He held a sword in his left hand .",
    "The door on the left side was open .",
    "She raised her left arm .",
    "His left eye was closed .",
]


def main():
    """Draws all pictures again."""
    FOLDER.mkdir(exist_ok=True)
    embedder = keras_elmo.Embedder(progress=False)
    first, second = "He left the room early .", "Her left hand was cold ."
    figures = {
        "similarity": plot.similarity(first, second, model=embedder),
        "uses_of_left": plot.uses_of_word(
            "left",
            LEFT + HAND,
            model=embedder,
            labels=len(LEFT) * ["to leave"] + len(HAND) * ["not right"],
        ),
    }
    for name, figure in figures.items():
        figure.savefig(FOLDER / f"{name}.png", dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    main()
