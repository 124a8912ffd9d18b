"""May this output be written? Each way to write gives the same answer, and nothing is lost."""

import importlib
import os
import re
import shutil
from pathlib import Path

import pytest

from helpers import TINY
from keras_elmo import Embedder, cli, compat, export_hdf5, export_onnx, export_saved_model, files
from keras_elmo.export import onnx, saved_model
from keras_elmo.training.settings import TrainingSettings
from training_models import DATA, tiny_model, vocabulary

ANSWERS = {
    "exists": "exists already: choose a different name, or pass (overwrite=True|--overwrite)",
    "input": "is an input and would be overwritten|holds an input",
    "not ours": "is not a (file|folder) that can be replaced|holds files that keras_elmo did not "
    "write|holds more than an export",
}


@pytest.fixture(scope="module")
def embedder():
    return Embedder(TINY, progress=False)


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    """The folder of a model with a softmax."""
    folder = tmp_path_factory.mktemp("models") / "lm"
    tiny_model().export_hdf5(folder, vocabulary())
    return folder


@pytest.fixture(autouse=True)
def no_graphs(monkeypatch):
    """Exports write a file in the place of a graph, which would take seconds."""
    write = lambda _, folder: Path(folder, "saved_model.pb").write_text("graph")  # noqa: E731
    monkeypatch.setattr(saved_model, "write_saved_model", write)
    monkeypatch.setattr(onnx, "write_onnx", lambda _, path: Path(path).write_text("graph"))


class Ways:
    """The ways to write; each reads `source` and writes `path`."""

    def __init__(self, embedder, language_model, capsys):
        self._embedder, self._language_model, self._capsys = embedder, language_model, capsys

    def _run(self, *arguments, overwrite):
        self._capsys.readouterr()
        options = ["--overwrite"] if overwrite else []
        if cli.main([*map(str, arguments), *options]):
            raise ValueError(self._capsys.readouterr().err)

    def embed_file(self, source, path, overwrite):
        self._embedder.embed_file(source, path, overwrite=overwrite)

    def embed(self, source, path, overwrite):
        command = ("embed", "--model", TINY, "--input", source, "--output", path)
        self._run(*command, overwrite=overwrite)

    def dump_words(self, source, path, overwrite):
        self._embedder.dump_words(source, path, overwrite=overwrite)

    def dump_words_command(self, source, path, overwrite):
        command = ("dump-words", source, "--model", TINY, "--output", path)
        self._run(*command, overwrite=overwrite)

    def vocab(self, source, path, overwrite):
        self._run("vocab", source, "--min-count", 1, "--output", path, overwrite=overwrite)

    def export_hdf5(self, source, path, overwrite):
        export_hdf5(source, path, overwrite=overwrite)

    def export(self, source, path, overwrite):
        self._run("export", source, "--output", path, overwrite=overwrite)

    def export_saved_model(self, source, path, overwrite):
        export_saved_model(source, path, overwrite=overwrite)

    def export_onnx(self, source, path, overwrite):
        export_onnx(source, path, overwrite=overwrite)

    def evaluate(self, source, path, overwrite):
        command = ("evaluate", self._language_model, source, "--per-sentence", path)
        self._run(*command, overwrite=overwrite)

    def compat_embed_file(self, source, path, overwrite):
        elmo = compat.ElmoEmbedder.__new__(compat.ElmoEmbedder)
        elmo.embedder = self._embedder
        with open(source) as lines:
            elmo.embed_file(lines, path)

    def compat_dump(self, source, path, overwrite):
        pair = (TINY / "options.json", TINY / "weights.hdf5")
        compat.dump_token_embeddings(source, *pair, path)

    def compat_dump_bilm(self, source, path, overwrite):
        pair = (TINY / "options.json", TINY / "weights.hdf5")
        compat.dump_bilm_embeddings(DATA / "vocab.txt", source, *pair, path)


FILES = {
    "embed_file": "v.h5",
    "embed": "v.h5",
    "dump_words": "words.h5",
    "dump_words_command": "words.h5",
    "vocab": "vocabulary.txt",
    "evaluate": "scores.txt",
}
FOLDERS = {
    "embed_file": "v.parquet",
    "embed": "v.parquet",
    "export_hdf5": "model",
    "export": "model",
    "export_saved_model": "served",
}
# As the originals do.
ALWAYS_REPLACE = {
    "compat_embed_file": "v.h5",
    "compat_dump": "words.h5",
    "compat_dump_bilm": "v.h5",
}
CASES = [
    *((*item, "file") for item in (*FILES.items(), *ALWAYS_REPLACE.items())),
    ("embed_file", "v.npz", "file"),
    pytest.param(
        "export_onnx", "model.onnx", "file", marks=pytest.mark.needs("tf2onnx", "onnxruntime")
    ),
    *(
        pytest.param(*item, "folder", marks=pytest.mark.needs("pyarrow"))
        for item in FOLDERS.items()
    ),
]


def tree(folder):
    """All that is in a folder: links, and files with their content."""
    return {
        str(path): os.readlink(path) if path.is_symlink() else path.is_file() and path.read_bytes()
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("way, name, kind", CASES)
def test_each_way_gives_the_same_answer(
    tmp_path, embedder, language_model, capsys, monkeypatch, way, name, kind
):
    write, path = getattr(Ways(embedder, language_model, capsys), way), tmp_path / name
    source = tmp_path / "text.txt"
    source.write_text("bank\nriver\n")
    if "export" in way:
        source = shutil.copytree(TINY, tmp_path / "source")
    always = way in ALWAYS_REPLACE

    def refused(answer, source, path, overwrite):
        before = tree(tmp_path)
        with pytest.raises((FileExistsError, ValueError)) as error:
            write(source, path, overwrite)
        assert re.search(ANSWERS[answer], str(error.value)), error.value
        assert tree(tmp_path) == before

    # Free.
    write(source, path, False)
    written = set(tree(path)) if kind == "folder" else path.read_bytes()
    assert written

    # It exists.
    if not always:
        refused("exists", source, path, False)
    write(source, path, True)
    assert (set(tree(path)) if kind == "folder" else path.read_bytes()) == written

    # It is an input.
    own = path if kind == "folder" else path.with_name("in" + path.suffix)
    if kind == "file" and "export" not in way:
        shutil.copy(source, own)
        refused("input", own, own, True)
        link = path.with_name("link" + path.suffix)
        link.symlink_to(own)
        refused("input", own, link, True)
        link.unlink()
    elif way == "export_onnx":
        shutil.copy(source / "weights.hdf5", own)
        refused("input", (source / "options.json", own), own, True)
    elif "export" in way:
        refused("input", source, source, True)

    # It is a folder, a file or a link of somebody.
    other = path.with_name("other" + path.suffix)
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    refused("not ours", source, other, True)
    link = path.with_name("link" + path.suffix)
    if kind == "file":
        link.symlink_to(path)  # it is kept, and the file that it names is replaced
        path.write_text("old")
        write(source, link, True)
        assert link.is_symlink() and path.read_bytes() == written
    else:
        link.symlink_to(path)
        refused("not ours", source, link, True)
        (tmp_path / ("file" + path.suffix)).write_text("mine")
        refused("not ours", source, tmp_path / ("file" + path.suffix), True)

    # It appears meanwhile.
    late, sync = path.with_name("late" + path.suffix), files.sync_to_disk

    def appears(name):
        if not late.exists():
            if kind == "folder":
                late.mkdir()
            (late / "thesis.txt" if kind == "folder" else late).write_text("mine")
        sync(name)

    if not always:
        with monkeypatch.context() as patch:
            patch.setattr(files, "sync_to_disk", appears)
            with pytest.raises((FileExistsError, ValueError)) as error:
                write(source, late, False)
        assert re.search(f"{ANSWERS['exists']}|{ANSWERS['not ours']}", str(error.value))
        mine = late / "thesis.txt" if kind == "folder" else late
        assert mine.read_text() == "mine"


@pytest.mark.parametrize("way, name", [("embed_file", "v.h5"), ("embed", "v.h5")])
@pytest.mark.parametrize("option", ["vectors", "compression", "format", "field"])
def test_a_bad_argument_loses_no_vectors(tmp_path, embedder, monkeypatch, way, name, option):
    """Those of a killed run, although the output may be overwritten."""
    source = tmp_path / "text.fasta"
    source.write_text(">a\nMKV\n")
    folder = tmp_path / f".{name}.parts"
    folder.mkdir()
    (folder / "part-00000.h5").write_text("hours of work")
    before = tree(tmp_path)
    with pytest.raises((SystemExit, ValueError)):
        if way == "embed_file":
            embedder.embed_file(source, tmp_path / name, overwrite=True, **{option: "x"})
        else:
            command = ["embed", "--model", str(TINY), "--input", str(source), "--overwrite"]
            if cli.main([*command, "--output", str(tmp_path / name), f"--{option}", "x"]):
                raise ValueError
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", ["vocabulary.txt", "log.csv", "model", "checkpoints"])
def test_training_replaces_only_a_run(tmp_path, capsys, name):
    """Not what somebody has in the folder, unless it is the vocabulary of the run."""
    run = tmp_path / "run"
    path = run / name if "." in name else run / name / "notes.txt"
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    command = ["train", str(DATA / "train.txt"), "--output", str(run)]
    before = tree(tmp_path)
    assert cli.main(command) == 1
    message = f"{run / name} would be replaced, although {run} holds no training run: move it"
    assert message in capsys.readouterr().err
    assert tree(tmp_path) == before
    (run / "training.json").write_text("{}")  # of a run that was killed
    TrainingSettings(files=DATA / "train.txt", output=run).check_files()
    (run / "training.json").unlink()
    if name == "vocabulary.txt":
        TrainingSettings(files=DATA / "train.txt", output=run, vocabulary=path).check_files()


@pytest.mark.parametrize(
    "command", [["embed", "a"], ["dump-words", __file__], ["vocab", __file__]], ids=lambda x: x[0]
)
def test_commands_answer_before_they_load_anything(tmp_path, capsys, monkeypatch, command):
    (tmp_path / "v.h5").write_text("mine")
    main = importlib.import_module("keras_elmo.cli.main")
    monkeypatch.setattr(main, "import_keras", lambda **_: pytest.fail("too late"))
    assert cli.main([*command, "--output", str(tmp_path / "v.h5")]) == 1
    assert "exists already" in capsys.readouterr().err
