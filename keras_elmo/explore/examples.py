"""Texts in the explorer's fields in which the bundled model shows what it knows."""

CHARACTERS = {"spelling": "bank banks banking", "UTF-8": "café naïve Zürich"}
SIMILARITY = {
    "different words": ("The doctor gave her some medicine.", "A nurse brought him the pills."),
    "the same word": ("He left the room early.", "Her left hand was cold."),
}
# The first half of the sentences uses the word in one sense, the second half in another.
USES = {
    "left": """They left the house early in the morning.
He left the room without a word.
We left the ship at noon.
He held a sword in his left hand.
She raised her left arm.
His left eye was closed.""",
    "match": """He lit a match in the dark.
She struck a match and lit the candle.
The match burned his fingers.
They won the match by two goals.
The team lost the match on Sunday.
He scored in the final match.""",
}
LANGUAGE_MODEL = {
    "an odd word": "He shook his window and said nothing.",
    "no odd word": "He shook his head and said nothing.",
    "wrong agreement": "The keys to the house is on the table.",
}
