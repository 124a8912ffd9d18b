"""The README.md of an exported folder: its model card on the Hugging Face Hub."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_elmo.config import ElmoConfig
from keras_elmo.pretrained.weight_table import count_parameters
from keras_elmo.text.reader import counted

CARD = "README.md"
_TAGS = ["elmo", "keras", "word-embeddings"]
_METADATA = ("language", "license")
_TEXT = """---
{metadata}
---

# ELMo

A bidirectional language model. Each of its layers has a vector for every word, which depends on the
sentence ([Peters et al. 2018](https://aclanthology.org/N18-1202/)).

| | |
| --- | --- |
{rows}

The folder is in the format of {programs}:

```python
from keras_elmo import ElmoLayer, Embedder  # pip install "keras-elmo[hub]"

layer = ElmoLayer("hf://USER/REPO")  # for a Keras model
vectors = Embedder("hf://USER/REPO").embed(["The bank raised its rates ."])
```

<!-- Add what else users need to know: the training text, its tokenization, and above, between the
lines ---, `language` and `license`. -->
"""
_MARK = "<!-- An export replaces this file unless it has been edited since: "


def model_card(config: ElmoConfig, facts: Mapping[str, Any]) -> str:
    """The text of a card.

    Args:
        config: The architecture.
        facts: Rows for its table, by name; `language`, an ISO 639 code, and `license` become
            metadata.
    """
    metadata: dict[str, Any] = {"library_name": "keras_elmo", "pipeline_tag": "feature-extraction"}
    metadata |= {"tags": _TAGS, **{name: facts[name] for name in _METADATA if facts.get(name)}}
    inputs = [f"{config.num_filters:,} filters over characters"] * config.reads_characters
    if config.word_dim or not config.reads_characters:
        inputs.append(f"a table of {config.vocabulary_size:,} words")
    rows = {
        "Input": " and ".join(inputs),
        "LSTM": f"{counted(config.num_layers, 'layer')} of {config.lstm_dim:,} units, "
        f"{'forward and backward' if config.bidirectional else 'forward'}",
        "Vectors": f"{config.output_dim:,} numbers in each of {config.num_layers + 1} layers",
        "Parameters": f"{count_parameters(config):,}",
        **{name: value for name, value in facts.items() if name not in _METADATA},
    }
    return _marked(
        _TEXT.format(
            # JSON is YAML too. The language "no" would be a boolean without quotation marks.
            metadata="\n".join(f"{name}: {json.dumps(x)}" for name, x in metadata.items()),
            rows="\n".join(f"| {_cell(name)} | {_cell(x)} |" for name, x in rows.items()),
            programs="keras_elmo" if config.has_lexicon else "bilm-tf, AllenNLP and keras_elmo",
        )
    )


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
