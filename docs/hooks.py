"""Pages of the site that are kept elsewhere in the repository, and the links between them all.

The same Markdown is read in the repository and on the site: there links lead to files, here to
pages. Notebooks are run, and shown with what comes out.
"""

import os
import re
import tempfile
from pathlib import Path

import latex2mathml.converter
import nbclient
import nbformat
from mkdocs.structure.files import File
from nbconvert import MarkdownExporter

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
NOTEBOOKS = "examples/notebooks"
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]+)\$", re.DOTALL)
CODE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)


def on_files(files, config):
    """Adds the pages from outside docs/, and the programs, tables and pictures they link to."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for path in sorted((ROOT / NOTEBOOKS).glob("*.ipynb")):
        files.append(File.generated(config, f"{NOTEBOOKS}/{path.name}", abs_src_path=str(path)))
        for uri, content in _shown(path).items():
            files.append(File.generated(config, f"{NOTEBOOKS}/{uri}", content=content))
    for page in list(files.documentation_pages()):
        source = _source_of(page.src_uri)
        if source.startswith(f"docs/{NOTEBOOKS}"):
            continue
        for link in LINK.findall((ROOT / source).read_text(encoding="utf-8")):
            target = _target_of(source, link)
            uri = _uri_of(target)
            if (ROOT / target).is_file() and files.get_file_from_path(uri) is None:
                files.append(File.generated(config, uri, abs_src_path=str(ROOT / target)))
    return files


def _shown(path):
    """A notebook after it was run: its page of Markdown, and its pictures."""
    notebook = nbformat.read(path, as_version=4)
    if os.environ.get("RUN_NOTEBOOKS") != "0":  # the tests run them too
        with tempfile.TemporaryDirectory() as folder:
            resources = {"metadata": {"path": folder}}
            nbclient.NotebookClient(notebook, timeout=300, resources=resources).execute()
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = FORMULA.sub(_mathml, cell.source)
        else:  # what TensorFlow says when it starts
            cell.outputs = [x for x in cell.outputs if x.get("name") != "stderr"]
    names = {"unique_key": path.stem, "output_files_dir": ""}
    markdown, resources = MarkdownExporter().from_notebook_node(notebook, names)
    link = f"[The notebook]({path.name})\n\n"
    return {f"{path.stem}.md": link + markdown, **resources["outputs"]}


def _mathml(formula):
    display, inline = formula.groups()
    text = display or inline
    return latex2mathml.converter.convert(text, display="block" if display else "inline")


def on_page_markdown(markdown, page, config, files):
    """Turns links between files of the repository into links between pages of the site."""
    if page.file.src_uri.startswith(f"{NOTEBOOKS}/"):
        return markdown
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
