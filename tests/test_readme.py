"""The pages of the documentation: their code runs as it stands, and nothing public is missing.

Every block of a page is run, in order, in one empty folder: Python in one namespace, bash with
`keras-elmo` from this checkout. `pip` and `pytest` do nothing there (.ci/run runs these commands of
README.md), and the bundled model stands in for "original". A block that cannot run here says so in
the page, in the line above it: <!-- not run: reason -->. The recipes are programs: each is run by
itself, where its libraries are installed.
"""

import dataclasses
import inspect
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import keras_elmo
from helpers import tensorflow_only
from keras_elmo import analysis, cli, compat, list_models
from keras_elmo.pretrained import registry
from keras_elmo.pretrained.catalog import MANY_LANGUAGES

ROOT = Path(__file__).parent.parent
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in sorted(
        [
            *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
            *(ROOT / "docs").rglob("*.md"),
            *(ROOT / "examples").glob("*.md"),
            *(ROOT / "benchmarks").glob("*.md"),
            *(ROOT / "weights").rglob("*.md"),
        ]
    )
}
NOT_RUN = {  # how many blocks of a page are marked
    "CONTRIBUTING.md": 3,
    "README.md": 4,
    "docs/EMBEDDING.md": 2,
    "docs/EXPLORE.md": 1,
    "docs/LANGUAGES.md": 4,
    "docs/MIGRATION.md": 4,
    "docs/MODELS.md": 4,
    "docs/PROTEINS.md": 1,
    "docs/RECIPES.md": 1,
    "docs/SERVING.md": 1,
    "docs/TRAINING.md": 1,
    "examples/README.md": 7,
    "weights/README.md": 4,
    "weights/default/MODEL_CARD.md": 1,
}
RESULTS = {  # what is true in the end, beside the results that the comments in the pages name
    "README.md": ["exists('sentiment.keras')", "exists('sentiment/saved_model.pb')"],
    "docs/EXPLORE.md": ["all(map(exists, ('similarity.svg', 'left.png', 'weights.pdf')))"],
    "docs/KERAS_MODELS.md": ["exists('fine_tuned/weights.hdf5')"],
    "docs/LANGUAGES.md": ["exists('again/word.dic')"],
    "docs/MIGRATION.md": [
        "vectors.shape == again.shape == (1, 3, 512)",
        "first.shape == (2, 3, 512)",
        "layers.shape == (3, 4, 512)",
        "mask.shape == (2, 3)",
        "tokens.shape == (1, 5, 256)",
        "exists('vectors.hdf5')",
        "word_emb.shape == (1, 3, 256)",
        "sentences.shape == (1, 512)",
        "[array.shape for array in averages] == [(3, 512), (1, 512)]",
        "hidden_states[0].shape == (3, 1, 512)",
    ],
    "docs/TAGGER.md": [
        "max(history.history['val_f1']) > 0.7",
        "[name[0] for name in find_names('I met Jordan in Florence .')] == ['PER', 'LOC']",
        "exists('mix.png') and exists('tagger.keras')",
    ],
    "docs/SERVING.md": [
        "exists('my_serving/elmo/1/saved_model.pb')",
        "vectors.shape == (1, 2, 512)",
    ],
}
RECIPES = "docs/RECIPES.md"
STAND_INS = {
    "keras-elmo": f'exec "{sys.executable}" -m keras_elmo "$@"',
    "python": f'exec "{sys.executable}" "$@"',
    "pip": "exit 0",
    "pytest": "exit 0",
}


@dataclasses.dataclass
class Block:
    language: str
    code: str
    place: str
    not_run: str | None


def blocks_of(page):
    """Every fenced block of a page, with the reason why it is not run, if it has one."""
    pattern = r"(?:^<!-- not run: ([^\n]+) -->\n)?^```(\S*)\n(.*?)^```$"
    for match in re.finditer(pattern, PAGES[page], re.MULTILINE | re.DOTALL):
        line = PAGES[page][: match.start(3)].count("\n") + 1
        yield Block(match[2], match[3], f"{page}, line {line}", match[1])


def code_blocks(page):
    return [block for block in blocks_of(page) if block.language in ("bash", "python")]


def run_blocks(page):
    return [block for block in code_blocks(page) if not block.not_run]


def test_every_block_is_run_or_marked():
    for page in PAGES:
        assert PAGES[page].count("\n```") == 2 * len(list(blocks_of(page))), page
        languages = {block.language for block in blocks_of(page)}
        assert languages <= {"", "bash", "python", "{eval-rst}"}, page
    marked = {page: [block for block in code_blocks(page) if block.not_run] for page in PAGES}
    assert {page: len(blocks) for page, blocks in marked.items() if blocks} == NOT_RUN


@tensorflow_only
@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if page != RECIPES and run_blocks(page)])
def test_code_runs_in_order(page, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_MODELS", dict(registry._MODELS))
    environment = stand_ins(tmp_path.parent / f"{tmp_path.name}-commands")
    names = {}
    for block in run_blocks(page):
        if block.language == "python":
            code = block.code.replace('"original"', '"default"')
            exec(compile(code, block.place, "exec"), names)
        elif all(command[0] == "keras-elmo" for command in commands_of(block)):
            for command in commands_of(block):  # in this process, which has loaded Keras
                assert cli.main(command[1:]) == 0, block.place
        else:
            command = ["bash", "-eu", "-c", block.code]
            assert subprocess.run(command, env=environment).returncode == 0, block.place
        check_printed(block, capfd.readouterr().out)
    for result in RESULTS.get(page, []):
        assert eval(result, {**names, "exists": os.path.exists}), result


@tensorflow_only
@pytest.mark.slow
@pytest.mark.parametrize("recipe", run_blocks(RECIPES), ids=lambda block: block.place)
def test_recipes_run(recipe, tmp_path):
    for package in re.findall(r"^(?:import|from) (\w+)", recipe.code, re.MULTILINE):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    (tmp_path / "recipe.py").write_text(recipe.code)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "HF_HOME": str(tmp_path / "hub"),  # where Datasets keeps what it has read
    }
    command, options = [sys.executable, "recipe.py"], dict(capture_output=True, encoding="utf-8")
    run = subprocess.run(command, cwd=tmp_path, env=environment, **options)
    assert run.returncode == 0, run.stderr
    check_printed(recipe, run.stdout)


def check_printed(block, printed):
    """Fails unless each result that a comment beside a `print` names was printed, in order."""
    for said in re.findall(r"^ *print\(.*\)  # (.*?)(?::.*)?$", block.code, re.MULTILINE):
        assert said in printed, block.place
        printed = printed.split(said, 1)[1]


def commands_of(block):
    """The words of each command of a block in bash."""
    lines = block.code.replace("\\\n", "").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def stand_ins(folder):
    """An environment whose first commands are the stand-ins."""
    folder.mkdir()
    for name, command in STAND_INS.items():
        (folder / name).write_text(f"#!/bin/sh\n{command}\n")
        (folder / name).chmod(0o755)
    path = os.pathsep.join([str(folder), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}


def test_commands_and_their_options_exist(capsys):
    text = "\n".join(PAGES.values())
    for command in sorted(set(re.findall(r"^keras-elmo (\w[\w-]*)", text, re.MULTILINE))):
        with pytest.raises(SystemExit):
            cli.main([command, "--help"])
        known = capsys.readouterr().out
        for line in re.findall(rf"keras-elmo {command}\b.*(?:\\\n.*)*", text):
            for option in re.findall(r"--[a-z-]+", re.split(r"`|&&| #", line)[0]):
                assert option in known, (command, option)


def test_links_to_files_lead_somewhere():
    for page in PAGES:
        prose = re.sub(r"^```.*?^```", "", PAGES[page], flags=re.MULTILINE | re.DOTALL)
        for link in re.findall(r"\]\(([^)#\s]+)", prose):
            if not link.startswith("http"):
                assert (ROOT / page).parent.joinpath(link).exists(), (page, link)


def test_every_model_is_listed():
    shown = {f"many-languages/{code}": f"`{code}` {s}" for code, s in MANY_LANGUAGES.items()}
    page = " ".join(PAGES["docs/MODELS.md"].split())
    for name in list_models():
        assert " ".join(shown.get(name, f"| `{name}` |").split()) in page, name
        assert "/" in name or f"| `{name}` |" in PAGES["README.md"], name


@pytest.mark.needs("matplotlib")
def test_the_api_reference_is_complete():
    from keras_elmo import plot

    reference = "\n".join(text for page, text in PAGES.items() if page.startswith("docs/api/"))
    documented = re.findall(r"^\.\. auto(?:class|function):: (\S+)$", reference, re.MULTILINE)
    public = {f"keras_elmo.{name}" for name in keras_elmo.__all__} - {"keras_elmo.__version__"}
    helpers = {
        f"{module.__name__}.{name}"
        for module in (analysis, compat, plot)
        for name, value in inspect.getmembers(module)
        if getattr(value, "__module__", None) == module.__name__ and not name.startswith("_")
    }
    assert sorted(documented) == sorted(public | helpers)
