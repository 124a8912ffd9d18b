"""The README.md of an exported folder: its model card on the Hugging Face Hub."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_elmo.config import ElmoConfig
from keras_elmo.pretrained.weight_table import count_parameters

CARD = "README.md"
_TAGS = ["elmo", "keras", "word-embeddings"]
_METADATA = ("language", "license")
_TEXT = """---
{metadata}
---

# ELMo

A bidirectional language model. Each of its layers has a vector for every token, which depends on
the sentence ([Peters et al. 2018](https://aclanthology.org/N18-1202/)).

| | |
| --- | --- |
{rows}

The folder is in the format of {programs}:

```python
from keras_elmo import ElmoLayer, Embedder  # pip install "keras-elmo[hub]"

layer = ElmoLayer("hf://USER/REPO")  # for a Keras model
vectors = Embedder("hf://USER/REPO").embed(["tokens separated by spaces"])
```

<!-- Add what else users need to know: the training text, its tokenization, and above, between the
lines ---, `language` and `license`. -->
"""
_MARK = "<!-- An export replaces this file unless it has been edited since: "


def model_card(config: ElmoConfig, details: Mapping[str, Any]) -> str:
    """The text of a card.

    Args:
        config: The architecture.
        details: Rows for its table, by name; `language`, an ISO 639 code, and `license` become
            metadata.
    """
    metadata: dict[str, Any] = {"library_name": "keras_elmo", "pipeline_tag": "feature-extraction"}
    metadata |= {"tags": _TAGS, **{name: details[name] for name in _METADATA if details.get(name)}}
    rows = {name[0].upper() + name[1:]: value for name, value in describe(config)}
    rows |= {name: value for name, value in details.items() if name not in _METADATA}
    return _marked(
        _TEXT.format(
            # JSON is YAML too. The language "no" would be a boolean without quotation marks.
            metadata="\n".join(f"{name}: {json.dumps(x)}" for name, x in metadata.items()),
            rows="\n".join(f"| {_cell(name)} | {_cell(x)} |" for name, x in rows.items()),
            programs="keras_elmo" if config.has_lexicon else "bilm-tf, AllenNLP and keras_elmo",
        )
    )


def describe(config: ElmoConfig) -> Iterator[tuple[str, Any]]:
    """Names and values that describe an architecture."""
    parameters = count_parameters(config)
    if config.has_lexicon and config.word_dim:
        yield "words", f"{config.vocabulary_size:,} in the lexicon, {config.word_dim} numbers each"
    if config.reads_characters:
        filters = ", ".join(f"{number} of width {width}" for width, number in config.filters or ())
        dim, width = config.char_embedding_dim, config.max_characters_per_token
        table = f"{config.num_characters:,} in the lexicon, " if config.has_lexicon else ""
        yield "characters", f"{table}{dim} numbers each, at most {width} a token"
        yield "convolutions", f"{filters}; {config.activation}"
        yield "highway layers", config.num_highway
    elif not config.has_lexicon:
        yield "words", f"{config.vocabulary_size:,} in the vocabulary"
    lstm = f"{config.num_layers} layers of {config.lstm_dim} units"
    directions = "forward and backward" if config.bidirectional else "forward"
    yield "LSTM", f"{lstm}, projected to {config.projection_dim}, {directions}"
    clips = {"cell": config.cell_clip, "projection": config.proj_clip}
    yield "clips", ", ".join(f"{x} {c:g}" if c else f"{x} none" for x, c in clips.items())
    skip = config.use_skip_connections
    yield "skip", "layers after the first add their input" if skip else "none"
    yield "parameters", f"{parameters:,}"
    yield "memory", f"{4 * parameters / 1e6:.1f} MB in float32"
    yield "word vector", f"{config.output_dim} numbers, in each of {config.num_layers + 1} layers"


def is_edited(path: Path) -> bool:
    """Whether a file that exists is anything but a card that `model_card` returned."""
    if not path.exists():
        return False
    text = path.read_text(encoding="utf-8", errors="replace")
    return text != _marked(text.rpartition(_MARK)[0])


def _cell(text):
    return " ".join(str(text).split()).replace("|", "\\|")


def _marked(text):
    return f"{text}{_MARK}{hashlib.sha256(text.encode()).hexdigest()[:16]} -->\n"
