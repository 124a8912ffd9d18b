"""Texts for the explorer's fields that show what the bundled model has learned."""

CHARACTERS = {"spelling": "bank banks banking", "UTF-8": "café naïve Zürich"}
SIMILARITY = {
    "different words": ("He drank a cup of coffee.", "She made a pot of tea."),
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
    "bat": """He swung the bat and hit the ball.
The player dropped his bat and ran.
She broke the bat with her first hit.
A bat flew out of the cave.
The bat hung from the roof of the cave.
A bat caught insects in the dark.""",
}
LANGUAGE_MODEL = {
    "an odd word": "He shook his window and said nothing.",
    "no odd word": "He shook his head and said nothing.",
    "wrong agreement": "The keys to the house is on the table.",
}
