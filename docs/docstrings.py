"""Converts Keras-style docstrings for mkdocstrings' parser of Google style."""

import re
import textwrap
from pathlib import Path

import griffe

API = Path(__file__).parent / "api"
NAMES = {  # public names, and where they are
    path.rsplit(".", 1)[1]: path
    for page in sorted(API.glob("*.md"))
    for path in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
}
EXAMPLE = re.compile(r"^>>> .*\n?(?:.+\n?)*", re.MULTILINE)
PARAGRAPH = re.compile(
    r"^(Input shape|Output shape|Returns|Yields):\n((?: +\S.*\n?|\n(?= ))+)", re.MULTILINE
)


class KerasDocstrings(griffe.Extension):
    """Rewrites each docstring before it is parsed."""

    def on_object(self, *, obj, **kwargs):
        if obj.docstring is not None and not obj.is_alias:
            obj.docstring.value = to_google_style(obj.docstring.value, obj.name)


def to_google_style(text, own_name=None):
    """Rewrites the sections that Google style lacks, and links names to their place on the site."""

    def link(match):
        path = NAMES.get(match[1])
        return match[0] if path is None or match[1] == own_name else f"[{match[0]}][{path}]"

    text = re.sub(r"`(\w+)`", link, text)
    text = text.replace("BILM_TF.md", "[BILM_TF.md][what-bilm-tf-computes-exactly]")
    text = EXAMPLE.sub(lambda code: f"```pycon\n{code[0].rstrip()}\n```\n", text)
    text = PARAGRAPH.sub(lambda part: f"**{part[1]}:** {textwrap.dedent(part[2])}", text)
    text = re.sub(r"^Call arguments:$", "Other Parameters: Call arguments:", text, flags=re.M)
    return re.sub(r"^(Examples?|Reference):", r"**\1:**", text, flags=re.M)
