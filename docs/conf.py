"""The documentation site: sphinx-build -W --keep-going -c docs . build/site

The sources are the Markdown files and notebooks of the repository; index.md lists them.
"""

import inspect

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util.inspect import stringify_signature

project = "keras_elmo"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
include_patterns = [
    "index.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
    "docs/**.md",
    "examples/README.md",
    "examples/notebooks/*.ipynb",
    "weights/**.md",
]

# Markdown and notebooks
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
highlight_language = "none"  # of blocks that name none: what a command prints
nb_execution_mode = "off"  # their outputs are stored

# Docstrings
default_role = "py:obj"
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_inherit_docstrings = False
napoleon_custom_sections = [
    ("Attributes", "params_style"),
    ("Call arguments", "params_style"),
    "Input shape",
    "Output shape",
    "Returns",  # whose text before a colon is no type
    "Yields",
]
maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"

# Looks
html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = "keras_elmo"
html_sourcelink_suffix = ""  # the button beside the title opens the notebook, or the Markdown
html_math_renderer = "mathml"
copybutton_exclude = ".linenos, .gp, .go"


def setup(app):
    app.connect("autodoc-process-signature", signature_of_class)
    app.add_html_math_renderer("mathml", (show_formula, None), (show_formula, None))


def signature_of_class(app, what, name, obj, *_):
    """The arguments of `__init__`: autodoc shows those of Keras' `__new__`, `*args, **kwargs`."""
    if what == "class":
        signature = inspect.signature(obj).replace(return_annotation=inspect.Signature.empty)
        return stringify_signature(signature, unqualified_typehints=True), None


def show_formula(translator, node):
    """MathML, which browsers draw without a program from elsewhere; a wide formula scrolls."""
    if isinstance(node, nodes.math_block):
        formula = tex2mathml(node.astext(), as_block=True)
        translator.body.append(f'<div style="overflow-x: auto">{formula}</div>')
    else:
        translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode
