"""From the name or place of a model to its files: folders, archives, pairs."""

import errno
import gc
import gzip
import io
import json
import os
import shutil
import tarfile
import zipfile

import pytest

from helpers import TINY
from keras_elmo import ElmoConfig, ElmoLayer, Embedder
from keras_elmo.pretrained.language_models import find_language_model
from keras_elmo.pretrained.locate import find_model_files
from many_languages import MANY_LANGUAGES, VARIANTS

OPTIONS = (TINY / "options.json").read_bytes()
WEIGHTS = (TINY / "weights.hdf5").read_bytes()
MODEL = {"options.json": OPTIONS, "weights.hdf5": WEIGHTS}
PICKLED = {
    path.name: path.read_bytes()
    for path in (MANY_LANGUAGES / "word_char").iterdir()
    if path.suffix in (".json", ".dic", ".pkl") and path.name != "sentences.json"
}
FAMILIES = {
    "NLPL": ("options.json", "model.hdf5", ["vocab.txt.gz", "meta.json", "README"]),
    "Schuster": ("options262.json", "es_weights.hdf5", ["es_best_mapping.pth"]),
    "EMBEDDIA": ("sl/options.json", "sl/slovenian-elmo-weights.hdf5", []),
    "German": ("options.json", "weights.hdf5", ["vocab-train.txt", "checkpoint", "x.ckpt.index"]),
    "AllenNLP": ("elmo_pt_options.json", "ELMO_PT_WEIGHTS.HDF5", []),
    "keras_elmo": ("m/options.json", "m/weights.hdf5", ["m/vectors.hdf5", "m/vocab.txt"]),
    "macOS": ("options.json", "weights.hdf5", ["__MACOSX/._options.json", ".partial-0.hdf5"]),
    "a language model": ("options.json", "biggest.h5", ["softmax.hdf5"]),
}


def packed(kind, path, files):
    """Writes files to a folder, zip or tar.gz file; returns its path."""
    if kind == "folder":
        for name, content in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
        return path
    path = path.with_name(f"{path.name}.{kind}")
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
            for name, content in files.items():
                target.writestr(name, content)
    else:
        with tarfile.open(path, "w:gz") as target:
            for name, content in files.items():
                add(target, name, content)
    return path


def add(target, name, content=b"", **header):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in header.items():
        setattr(info, field, value)
    target.addfile(info, io.BytesIO(content))


def content_of(model):
    """The content of a model's options and weights."""
    files = find_model_files(model)
    return files.options.read_bytes(), files.weights.read_bytes()


every_kind = pytest.mark.parametrize("kind", ["folder", "zip", "tar.gz"])


@every_kind
@pytest.mark.parametrize("family", FAMILIES)
def test_published_families_are_read(kind, family, tmp_path):
    options, weights, others = FAMILIES[family]
    files = {**dict.fromkeys(others, b"x"), weights: WEIGHTS, options: OPTIONS}
    path = packed(kind, tmp_path / "model", files)
    found = find_model_files(str(path))
    assert (found.options.read_bytes(), found.weights.read_bytes()) == (OPTIONS, WEIGHTS)
    assert found.config == ElmoConfig.from_json(TINY / "options.json")
    assert found.lexicon is None
    assert (found.softmax is not None) == ("lang" in family)
    assert found.place == path
    assert find_model_files(found) is found
    unpacked = found.weights
    del found
    gc.collect()
    assert unpacked.exists() == (kind == "folder")
    assert os.listdir(tmp_path) == [path.name]


@every_kind
@pytest.mark.parametrize("inside", ["", "it.model/"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_elmo_for_many_langs_is_recognized(kind, inside, variant, tmp_path):
    source = MANY_LANGUAGES / variant
    paths = {path.relative_to(source): path for path in source.rglob("*") if path.is_file()}
    files = {f"{inside}{name}": path.read_bytes() for name, path in paths.items()}
    found, expected = (
        find_model_files(packed(kind, tmp_path / "it", files)),
        find_model_files(source),
    )
    assert found.options.name == "config.json"
    assert found.weights.read_bytes() == (source / "encoder.pkl").read_bytes()
    assert (found.config, found.lexicon) == (expected.config, expected.lexicon)


@pytest.mark.parametrize("first", ["weights.hdf5", "options.json"])
def test_a_pair_in_the_wrong_order_is_told_so(first):
    pair = TINY / first, TINY / "options.json"
    with pytest.raises(ValueError, match=r"options\.json is a JSON file.* as \(options, weights\)"):
        find_model_files(pair)


@every_kind
def test_files_beside_the_weights(kind, tmp_path):
    beside = {"m/softmax.hdf5": b"softmax", "m/vocabulary.txt": b"a\n", "vocabulary.txt": b"b\n"}
    files = {**{f"m/{name}": data for name, data in MODEL.items()}, **beside}
    found = find_model_files(packed(kind, tmp_path / "model", files))
    assert found.softmax.read_bytes() == b"softmax"
    assert found.vocabulary.read_bytes() == b"a\n"
    found = find_model_files(TINY)
    assert (found.softmax, found.vocabulary) == (None, None)


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_only_the_files_of_a_model_are_unpacked(kind, tmp_path):
    names = ["vectors.txt", "notes/options.txt", "vocab.txt.gz", "m/x.json", "vocabulary.txt"]
    files = {f"m/{name}": content for name, content in MODEL.items()}
    path = packed(kind, tmp_path / "a", {**files, **dict.fromkeys(names, b"x")})
    found = find_model_files(path)
    folder = found.weights.parent
    assert folder.name.startswith(path.name)  # for messages that name files in it
    assert sorted(os.listdir(folder)) == sorted(MODEL)


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_messages_name_the_archive(kind, tmp_path):
    path = packed(kind, tmp_path / "model", MODEL)
    with pytest.raises(FileNotFoundError, match=rf"^{path} has no softmax\.hdf5"):
        find_language_model(path, needs_softmax=True)


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_at_most_eight_files_are_unpacked(kind, tmp_path):
    files = {**PICKLED, **{f"configs/{i}.json": b"{}" for i in range(9)}}
    found = find_model_files(packed(kind, tmp_path / "a", files))
    names = os.listdir(found.weights.parent)
    assert len(names) == 8 and {"config.json", "encoder.pkl", "token_embedder.pkl"} < set(names)


def test_a_model_of_words_in_an_archive_brings_its_vocabulary(tmp_path):
    config = ElmoConfig(None, vocabulary_size=4, lstm_dim=8, projection_dim=4)
    ElmoLayer(None, config=config).export_hdf5(tmp_path / "words")
    (tmp_path / "words" / "vocabulary.txt").write_text("<S>\n</S>\n<UNK>\nthe\n")
    path = shutil.make_archive(tmp_path / "words", "zip", tmp_path / "words")
    assert Embedder(path).vocabulary == ["<S>", "</S>", "<UNK>", "the"]


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_an_archive_may_have_the_path_of_its_model(kind, tmp_path):
    files = {f"my/new/model/{name}": content for name, content in MODEL.items()}
    assert content_of(packed(kind, tmp_path / "model", files)) == (OPTIONS, WEIGHTS)


def test_pairs_and_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(TINY.parent))
    name = TINY.name
    for model in (
        f"~/{name}",
        (f"~/{name}/options.json", TINY / "weights.hdf5"),
        [f"{TINY}/options.json", f"~/{name}/weights.hdf5"],
    ):
        assert content_of(model) == (OPTIONS, WEIGHTS)


@pytest.mark.parametrize("folder", [{"training.json": b"{"}, {"checkpoints/step-3.ckpt": b""}])
def test_a_training_run(folder, tmp_path):
    run = packed("folder", tmp_path / "run", {**folder, "options.json": OPTIONS})
    for place in [run, run / "model"][: len(folder.keys() & {"training.json"}) + 1]:
        with pytest.raises(FileNotFoundError, match="run holds an unfinished training.*keras-elmo"):
            content_of(place)
    packed("folder", run / "model", MODEL)
    packed("folder", run, {"vectors.h5": b"of the user", "exported": b""})
    assert content_of(run) == (OPTIONS, WEIGHTS)
    files = {"training.json": b"", "checkpoints/x.ckpt": b""}  # of another program
    files |= {"my_options.json": OPTIONS, "my_weights.h5": WEIGHTS}
    assert content_of(packed("folder", tmp_path / "beside", files)) == (OPTIONS, WEIGHTS)


def test_places_without_a_model_are_named(tmp_path):
    def refused(model, message, error=FileNotFoundError):
        with pytest.raises(error, match=message):
            content_of(model)

    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", r"empty must hold options\.json.*Found nothing")
    refused(
        "nowhere/at/all",
        r"^nowhere/at/all is neither a known model nor an existing folder or archive\. Known",
    )
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "saved_model.pb").touch()
    for hub in (
        tmp_path / "hub",
        "https://tfhub.dev/google/elmo/3",
        "https://www.kaggle.com/models/google/elmo/TensorFlow1/elmo/3",
    ):
        refused(hub, "is a SavedModel of TensorFlow, which cannot be read.* pass 'original'")
    os.mkfifo(tmp_path / "fifo")
    for path in (TINY / "weights.hdf5", tmp_path / "fifo", "/dev/zero"):
        refused(str(path), "is neither a folder nor a complete zip or tar.gz file")
    refused((TINY / "weights.hdf5", TINY / "weights.hdf5"), "is not a JSON file", ValueError)
    for address in ("HTTP://example.org/elmo", "file:///elmo", "https://example.org/elmo"):
        refused(address, "is a URL: pass a published")
        refused((f"{address}/options.json", f"{address}/weights.hdf5"), "is a URL: pass")
    refused((TINY / "options.json", tmp_path / "w.hdf5"), r"w\.hdf5 of the pair .* does not exist")
    (tmp_path / "step-00000001.ckpt").write_bytes(b"PK")
    refused(
        tmp_path / "step-00000001.ckpt", r"is a checkpoint .* `keras-elmo export .*\.ckpt --out"
    )
    (tmp_path / "task.keras").write_bytes(b"PK")
    refused(tmp_path / "task.keras", r"^.*task\.keras is a saved Keras model: load it with keras")
    refused([TINY], r"a pair of paths \(options, weights\), got 1 items", ValueError)
    refused(3, "a pair .* of paths, or hf://user/repo; got 3", ValueError)


@every_kind
@pytest.mark.parametrize("missing", ["encoder.pkl", "config.json"])
def test_missing_files_of_elmo_for_many_langs_are_named(kind, missing, tmp_path):
    files = {name: data for name, data in PICKLED.items() if name != missing}
    path = packed(kind, tmp_path / "it", files)
    message = rf"it.* must hold options\.json.* {missing}.* Found char\.dic"
    with pytest.raises(FileNotFoundError, match=message):
        content_of(path)


def test_hdf5_with_options_decides(tmp_path):
    path = packed(
        "zip", tmp_path / "a", {**PICKLED, "model.hdf5": WEIGHTS, "x_options.json": OPTIONS}
    )
    assert content_of(path) == (OPTIONS, WEIGHTS)
    path = packed("zip", tmp_path / "b", {**PICKLED, "vectors.hdf5": WEIGHTS})
    assert content_of(path)[1] == PICKLED["encoder.pkl"]


@every_kind
def test_several_candidates_are_listed(kind, tmp_path):
    files = {"a/options.json": OPTIONS, "a/model.hdf5": WEIGHTS, "b/model.hdf5": WEIGHTS}
    path = packed(kind, tmp_path / "model", files)
    message = rf"{path} must hold one model; found a/model\.hdf5, b/model\.hdf5\. Pass the pair"
    with pytest.raises(ValueError, match=message):
        content_of(path)
    path = packed(kind, tmp_path / "two", {f"{x}/{n}": d for x in "ab" for n, d in PICKLED.items()})
    with pytest.raises(ValueError, match="one model; found a/config.json, b/config.json"):
        content_of(path)


def test_a_folder_inside_a_folder_counts_only_where_the_outer_one_has_no_model(tmp_path):
    packed("folder", tmp_path, MODEL)
    packed("folder", tmp_path / "x", {"options.json": b"{}", "weights.hdf5": b""})
    assert content_of(tmp_path) == (OPTIONS, WEIGHTS)
    packed("folder", tmp_path / "y" / ".partial-1", MODEL)
    with pytest.raises(FileNotFoundError, match="must hold options.json.*Found nothing"):
        content_of(tmp_path / "y")


def test_an_architecture_too_large_for_its_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(ElmoLayer, "build", lambda *_: pytest.fail("layers are built for it"))
    options = json.loads(OPTIONS)
    options["lstm"] |= {"dim": 1 << 16, "projection_dim": 1 << 16, "n_layers": 64}
    files = {**MODEL, "options.json": json.dumps(options).encode()}
    with pytest.raises(ValueError, match=r"weights\.hdf5 has 110,552 bytes, too few for the arr"):
        ElmoLayer(packed("folder", tmp_path / "model", files))


# --- archives ------------------------------------------------------------------------------------


def refused(path, message, error=ValueError):
    before = set(os.listdir(path.parent))
    with pytest.raises(error, match=message) as caught:
        content_of(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert set(os.listdir(path.parent)) == before


@pytest.mark.parametrize(
    "header",
    [
        {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
        {"type": tarfile.LNKTYPE, "linkname": "../../x"},
        {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 5},
        {"type": tarfile.FIFOTYPE},
    ],
)
def test_links_and_devices_in_a_tar_file_are_no_files(header, tmp_path):
    with tarfile.open(tmp_path / "model.tgz", "w:gz") as target:
        add(target, "options.json", OPTIONS)
        add(target, "weights.hdf5", **header)
    refused(tmp_path / "model.tgz", "Found options.json. Pass", FileNotFoundError)


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_archives_lead_nowhere_outside(kind, tmp_path):
    path = packed(kind, tmp_path / "model", {"../options.json": OPTIONS, "weights.hdf5": WEIGHTS})
    refused(path, "Found weights.hdf5. Pass", FileNotFoundError)
    files = {"/m/options.json": OPTIONS, "/m/weights.hdf5": WEIGHTS}
    found = find_model_files(packed(kind, tmp_path / "absolute", files))
    assert found.options.parent == found.weights.parent
    assert found.weights.read_bytes() == WEIGHTS


def test_a_link_in_a_zip_file_is_a_file_with_its_text(tmp_path):
    path = packed("zip", tmp_path / "model", MODEL)
    link = zipfile.ZipInfo("softmax.hdf5")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(path, "a") as target:
        target.writestr(link, "/etc/passwd")
    files = find_model_files(path)
    assert files.softmax.read_bytes() == b"/etc/passwd" and not files.softmax.is_symlink()


@pytest.mark.parametrize("damage", ["cut off", "checksum", "no tar", "no gzip", "empty"])
def test_a_damaged_tar_file_is_named(damage, tmp_path):
    path = packed("tar.gz", tmp_path / "m", MODEL)
    data = path.read_bytes()
    path.write_bytes(
        {
            "cut off": data[: len(data) // 2],
            "checksum": data[:-8] + bytes(4) + data[-4:],
            "no tar": gzip.compress(b"just text" * 1000),
            "no gzip": data[:10] + b"x" * 1000,
            "empty": gzip.compress(b""),
        }[damage]
    )
    refused(path, "cannot be unpacked: .*pack or copy it again")


@pytest.mark.parametrize(
    "old, new",
    [
        # in the central directory: versions, flags and the method of each file; and a name
        (b"PK\x01\x02\x14\x03\x14\0\0\0", b"PK\x01\x02\x14\x03\x14\0\x01\0"),
        (b"\x14\x03\x14\0\0\0\x08\0", b"\x14\x03\x14\0\0\0\x63\0"),
        (b"PK\x01\x02", b"PK\x01\x03"),
        (WEIGHTS[5000:6000], bytes(1000)),
    ],
    ids=["encrypted", "unknown compression", "directory", "checksum"],
)
def test_zip_files_that_cannot_be_unpacked_are_named(tmp_path, old, new):
    stored = zipfile.ZIP_STORED if len(old) == 1000 else zipfile.ZIP_DEFLATED
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w", stored) as target:
        for name, content in MODEL.items():
            target.writestr(name, content)
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))
    refused(path, "cannot be unpacked: .*without a password")


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_a_full_disk_is_no_damage(kind, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    path = packed(kind, tmp_path / "model", MODEL)
    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(OSError, match="No space left") as caught:
        find_model_files(path)
    assert caught.value.errno == errno.ENOSPC
