"""Pages of the site that are kept elsewhere in the repository, and the links between them all.

The same Markdown is read in the repository and on the site: there links lead to files, here to
pages.
"""

import os
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
PAGES = {  # file of the repository: page of the site
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "examples/README.md": "examples/README.md",
    "benchmarks/README.md": "benchmarks/README.md",
    "weights/README.md": "weights/README.md",
    "weights/default/MODEL_CARD.md": "weights/default/MODEL_CARD.md",
}
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)#\s]+)")
CODE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)


def on_files(files, config):
    """Adds the pages from outside docs/, and the programs, tables and pictures they link to."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for page in list(files.documentation_pages()):
        source = _source_of(page.src_uri)
        for link in LINK.findall((ROOT / source).read_text(encoding="utf-8")):
            target = _target_of(source, link)
            uri = _uri_of(target)
            if (ROOT / target).is_file() and files.get_file_from_path(uri) is None:
                files.append(File.generated(config, uri, abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Turns links between files of the repository into links between pages of the site."""
    source, folder = _source_of(page.file.src_uri), os.path.dirname(page.file.src_uri)

    def to_page(link):
        return os.path.relpath(_uri_of(_target_of(source, link[0])), folder or ".")

    parts = CODE.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(to_page, part) for part in parts)


def _source_of(uri):
    return next((source for source, page in PAGES.items() if page == uri), f"docs/{uri}")


def _target_of(source, link):
    return os.path.normpath(os.path.join(os.path.dirname(source), link))


def _uri_of(target):
    return PAGES.get(target, target.removeprefix("docs/"))
