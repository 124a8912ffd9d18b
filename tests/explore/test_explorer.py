"""The explorer shows the numbers of the model."""

import functools
import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from helpers import TINY, to_numpy
from keras_elmo import ElmoLayer, analysis, cli, encode_sentences, explore, perplexity
from keras_elmo.explore import examples
from many_languages import MANY_LANGUAGES
from training_models import DATA, tiny_model, vocabulary

pytest.importorskip("streamlit", reason="the explorer needs Streamlit")
import streamlit
from streamlit.dataframe_util import convert_arrow_bytes_to_pandas_df
from streamlit.testing.v1 import AppTest

pytestmark = pytest.mark.needs("streamlit")
PAGE = Path(explore.__file__).with_name("page.py")


@pytest.fixture(autouse=True, scope="module")
def nothing_stays_cached():
    gc.freeze()  # Streamlit collects garbage after each run, among all that is loaded here
    yield
    gc.unfreeze()
    streamlit.cache_resource.clear()
    streamlit.cache_data.clear()


@pytest.fixture
def page():
    """Opens a view of a model."""

    def opened(address, model=TINY):
        return done(AppTest.from_function(view_of, args=(address, str(model)), default_timeout=120))

    return opened


def view_of(address, model):
    from keras_elmo.explore import views

    views.show(address, model)


def done(widget):
    app = widget.run()
    assert not app.exception
    return app


def typed(app, **values):
    """The page after typing into fields, which the first words of their labels name."""
    for widget in (*app.text_input, *app.text_area):
        name = widget.label.split()[0].strip(",").lower()
        if name in values:
            widget.set_value(values.pop(name))
    assert not values
    return done(app)


@functools.cache
def tiny_layer():
    return ElmoLayer(TINY, vectors="layers")


def layers(sentence):
    return to_numpy(tiny_layer()(encode_sentences([sentence.split()])))[0]


def charts(app):
    """The title of each chart of several layers, and its data."""
    protos = [chart.proto for chart in app.get("vega_lite_chart")]
    return {
        json.loads(proto.spec)["layer"][0]["title"]: convert_arrow_bytes_to_pandas_df(
            proto.datasets[0].data.data
        )
        for proto in protos
        if "layer" in json.loads(proto.spec)
    }


def test_similarity_and_its_weights(page):
    app = typed(page("similarity"), first="The bank paid.", second="On the bank")
    assert json.loads(app.get("vega_lite_chart")[0].proto.spec)["height"] <= 265
    table = app.dataframe[0].value
    first, second = layers("The bank paid ."), layers("On the bank")
    for layer, name in enumerate(["token vectors", "LSTM 1", "LSTM 2"]):
        found = table[table.layer == name].cosine.to_numpy().reshape(4, 3)
        norms = np.linalg.norm(first[layer], axis=1)[:, None] * np.linalg.norm(
            second[layer], axis=1
        )
        np.testing.assert_allclose(found, first[layer] @ second[layer].T / norms, atol=1e-5)
    (slider,) = [slider for slider in app.slider if slider.label == "s of LSTM 2"]
    after = done(slider.set_value(5.0)).dataframe[0].value
    is_sum = table.layer == "weighted sum (0.33, 0.33, 0.33)"
    assert after[~is_sum].equals(table[~is_sum])
    mixes = [analysis.mixed(x, analysis.softmax([0, 0, 5])) for x in (first, second)]
    expected = analysis.cosines(*mixes).ravel()
    np.testing.assert_allclose(after[is_sum].cosine, expected, atol=1e-5)
    name = "weighted sum (0.01, 0.01, 0.99)"
    assert set(after[is_sum].layer) == {name}
    assert list(charts(app)) == ["token vectors", "LSTM 1", "LSTM 2", name]
    for text, message in (("  ", "at least one word, got none"), (61 * "a ", "at most 60 words")):
        app = typed(app, first=text)
        assert message in app.error[0].value.replace("\\", "")
        assert app.text_input[1].value == "On the bank" and app.slider[2].value == 5.0
    assert typed(app, first="The bank paid.").dataframe[0].value.equals(after)


def test_characters_and_filters(page):
    words = ["caf\u00e9", "a", 60 * "b"]
    app = typed(page("characters"), words=" ".join(words))
    fired = app.dataframe[0].value
    rows = encode_sentences([words])[0, 1:-1]
    drawn = charts(app)["Characters and their ids"]
    spelled = drawn[drawn["filter"] == ""]
    assert spelled.id.tolist() == rows[rows != 261].tolist()
    assert "".join(spelled.character) == f"\u25b8cafc3a9\u25c2\u25b8a\u25c2\u25b8{48 * 'b'}\u25c2"
    encoder = tiny_layer().token_encoder
    table = np.pad(to_numpy(encoder.char_embedding), ((1, 0), (0, 0)))[rows]
    for (width, _), convolution in zip(encoder.filters, encoder.convolutions):
        kernel, bias = map(to_numpy, convolution.weights)
        windows = np.lib.stride_tricks.sliding_window_view(table, width, axis=1)
        outputs = np.einsum("ntcw,wcf->ntf", windows, kernel) + bias
        activations = np.maximum(outputs, 0).max(axis=1)
        found = fired[fired.width == str(width)].activation
        np.testing.assert_allclose(found, activations.mean(axis=1), atol=1e-5)
        for number, word in enumerate(activations):
            best = word.argmax()
            start = outputs[number, :, best].argmax()
            window = drawn[drawn.row == f"{number + 1}.{width} width {width}: {word[best]:.2f}"]
            assert window.position.tolist() == list(range(start, start + width))
            assert window.id.tolist() == rows[number, start : start + width].tolist()
    app = done(app.radio[0].set_value("UTF-8"))
    assert app.text_input[0].value == examples.CHARACTERS["UTF-8"]


@pytest.mark.parametrize("variant", ["char_only", "word_char", "word_only"])
def test_characters_of_a_model_with_a_lexicon(page, variant):
    model = MANY_LANGUAGES / variant
    app = typed(page("characters", model), words="the xyz")
    if variant == "word_only":
        assert "no characters" in app.info[0].value
        return
    rules = ElmoLayer(model).text_encoder
    rows = rules.encode_words(["the", "xyz"])[:, -rules.max_characters_per_token :]
    spelled = charts(app)["Characters and their ids"]
    spelled = spelled[spelled["filter"] == ""]
    assert "".join(spelled.character) == "\u25b8the\u25c2\u25b8xyz\u25c2"
    assert spelled.id.tolist() == rows[:, :5].ravel().tolist()


def test_uses_of_a_word(page):
    text = "The bank paid. Nothing else.\nOn the Bank we sat for an hour .\nA bank"
    sentences = ["The bank paid .", "On the Bank we sat for an hour .", "A bank"]
    app = typed(page("uses"), word="bank", sentences=text)
    vectors = np.stack([layers(s)[-1, j] for s, j in zip(sentences, (1, 2, 1))])
    near = analysis.nearest(vectors, 1)
    contexts = ["The [bank] paid .", "On the [Bank] we sat for an hour .", "A [bank]"]
    table = app.dataframe[0].value
    assert table.use.tolist() == contexts
    assert table["nearest use"].tolist() == [contexts[j] for [(j, _)] in near]
    np.testing.assert_allclose(table.cosine, [cosine for [(_, cosine)] in near], atol=1e-5)
    (key,) = charts(app).values()
    assert key.label.is_unique and key.sentence.tolist() == contexts
    assert key.context.tolist()[1] == "On the [Bank] we sat for ..."  # where space is short
    app = done(app.selectbox[0].set_value("LSTM 1"))
    app = typed(app, word="![x](http://a.b/x.png)")  # typed text is not markup
    assert "![" not in (shown := app.error[0].value)
    assert "not occur in the 4 sentences" in shown.replace("\\", "")
    assert app.selectbox[0].value == "LSTM 1" and app.text_area[0].value == text
    app = typed(app, word="bank", sentences="A bank .")
    assert "occurs only once" in app.info[0].value
    app = typed(app, sentences=201 * "A bank.\n")
    assert "first 200 of 201" in app.info[0].value
    assert len(app.dataframe[0].value) == 200


def test_how_sure_the_language_model_is(page, tmp_path):
    model, words = tiny_model(), vocabulary()
    model.export_hdf5(tmp_path / "model", words)
    sentence = (DATA / "heldout.txt").read_text().splitlines()[0] + " zzz"
    (tmp_path / "text.txt").write_text(sentence + "\n")
    scores = []
    perplexity(model, tmp_path / "text.txt", words, on_sentence=scores.append)
    app = typed(page("language-model", tmp_path / "model"), sentence=sentence)
    assert "predicted as <UNK>: zzz" in app.markdown[-1].value.replace("\\", "")
    table, count = app.dataframe[0].value, len(sentence.split())
    forward = table[table.direction == "forward"].probability
    backward = table[table.direction == "backward"].probability
    np.testing.assert_allclose(forward, np.exp(-scores[0].forward[:count]), rtol=1e-4)
    np.testing.assert_allclose(backward, np.exp(-scores[0].backward[-count:]), rtol=1e-4)
    np.testing.assert_allclose(table.bits, -np.log2(table.probability), rtol=1e-4)


def test_a_model_without_a_softmax_says_how_to_get_one(page):
    assert "keras-elmo train" in page("language-model").info[0].value


def test_each_view_has_an_address(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["page.py", str(TINY)])
    app = done(AppTest.from_file(PAGE, default_timeout=120))
    assert app.header[0].value == "Similarity"
    links = [link.proto.page for link in app.get("page_link")]
    assert links == ["similarity", "characters", "uses", "language-model"]
    guide = (Path(__file__).parents[2] / "docs/EXPLORE.md").read_text()
    assert re.findall(r"^\| .* \| `/([\w-]+)` \|", guide, re.MULTILINE) == links


def chosen(app, example):
    """The page with an example; it opens with the first one."""
    radio = app.radio[0]
    return app if radio.value == example else done(radio.set_value(example))


@pytest.mark.slow
def test_examples_show_what_the_bundled_model_knows(page):
    app = page("uses", "default")
    for word, text in examples.USES.items():
        app = chosen(app, word)
        table, half = app.dataframe[0].value, len(text.splitlines()) // 2
        assert len(table) == 2 * half
        senses = [list(table.use).index(use) < half for use in table["nearest use"]]
        assert senses == half * [True] + half * [False]
    app = page("similarity", "default")
    for example, word, other, grows in (
        ("different words", "6 coffee", "6 tea", True),
        ("the same word", "2 left", "2 left", False),
    ):
        table = chosen(app, example).dataframe[0].value
        cosines = table[(table["first"] == word) & (table["second"] == other)].cosine.tolist()
        assert (cosines[2] - cosines[0] > 0.4) if grows else (cosines[0] - cosines[2] > 0.4)
    app = page("language-model", "default")
    bits = {}
    for example in examples.LANGUAGE_MODEL:
        table = chosen(app, example).dataframe[0].value
        table = table[table.direction == "forward"]
        bits[example] = dict(zip(table.word, table.bits))
    assert max(bits["an odd word"], key=bits["an odd word"].get) == "4 window"
    assert bits["no odd word"]["4 head"] < 1
    assert bits["wrong agreement"]["6 is"] > 6


def test_a_taken_port_is_named(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert cli.main(["explore", "--port", port, "--no-browser"]) == 1
    assert f"Cannot serve on port {port}" in capsys.readouterr().err


def test_a_wrong_model_is_named_before_anything_starts(capsys):
    assert cli.main(["explore", "--model", "smal"]) == 1
    assert "Did you mean 'small'" in capsys.readouterr().err


def test_without_streamlit_the_extra_is_named(capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert cli.main(["explore"]) == 1
    assert "keras-elmo[explore]" in capsys.readouterr().err


@pytest.fixture
def server():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "keras_elmo", "explore", "--no-browser", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--model", TINY],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # Background jobs, and their children, ignore the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    address = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            urllib.request.urlopen(f"{address}/_stcore/health").close()
            break
        except OSError:
            time.sleep(0.1)
    yield process, address
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=60)[0].decode()
    assert process.returncode in (130, 143), output
    assert "Traceback" not in output, output


@pytest.mark.slow
def test_a_foreign_host_is_refused_and_the_server_ends_with_the_command(server):
    """As a browser sends it for a page of a host whose name was made to point to this machine."""
    process, address = server
    port = int(address.rpartition(":")[2])

    def status(host):
        request = (
            f"GET /_stcore/stream HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n"
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(request.encode())
            return connection.recv(1000).split()[1]

    assert status(f"127.0.0.1:{port}") == b"101"
    for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}"):
        assert status(host) == b"403"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143
    with pytest.raises(OSError):
        urllib.request.urlopen(address)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("playwright") is None, reason="needs Playwright")
def test_in_a_browser(server, tmp_path):
    from playwright import sync_api

    chromium = next(filter(os.path.exists, ["/usr/bin/chromium", "/usr/bin/google-chrome"]), None)
    if chromium is None:
        pytest.skip("needs Debian's chromium")
    _, address = server
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        requests = []
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        first = page.get_by_role("textbox", name="First sentence")
        first.wait_for(timeout=120_000)
        first.fill("A cold hand")
        page.get_by_role("textbox", name="Second sentence").fill("Her left hand was cold.")
        page.keyboard.press("Enter")
        cell = page.locator("path[aria-label*='second: 3 hand; first: 3 hand']")
        cell.first.wait_for(timeout=30_000)
        found = [
            float(re.search(r"cosine: ([-\u2212.\d]+)", label).group(1).replace("\u2212", "-"))
            for label in cell.evaluate_all("all => all.map(e => e.getAttribute('aria-label'))")
        ]
        expected = analysis.cosines(layers("A cold hand"), layers("Her left hand was cold ."))
        np.testing.assert_allclose(found[:3], expected[:, 2, 2], atol=1e-5)
        reached = set()
        for _ in range(40):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.getAttribute('aria-label')"))
        assert {"First sentence", "Second sentence"} <= reached
        page.goto(f"{address}/characters")
        typed = page.get_by_role("textbox", name="Words")
        typed.fill("of banks there")  # the second word was there before
        page.keyboard.press("Enter")
        words = page.locator("[aria-label^='Y-axis'] text")
        words.get_by_text("there", exact=True).first.wait_for(timeout=30_000)
        labels = [text for text in words.all_text_contents() if not text.startswith("width")]
        assert labels[:3] == ["of", "banks", "there"]
        page.get_by_role("link", name="Similarity").click()
        page.get_by_role("link", name="Characters and filters").click()
        typed.wait_for(timeout=30_000)
        assert typed.input_value() == "of banks there"
        page.get_by_role("link", name="Uses of a word").click()
        page.get_by_role("textbox", name="Sentences").wait_for(timeout=30_000)
        assert page.url == f"{address}/uses"
        page.set_viewport_size({"width": 400, "height": 800})
        for view in ("similarity", "characters", "uses"):  # this model has no softmax
            page.goto(f"{address}/{view}")
            page.locator("[data-testid='stExpander']").first.wait_for(timeout=30_000)
            page.locator("[data-test-script-state='notRunning']").wait_for(timeout=30_000)
            edges = page.evaluate(
                "[...document.querySelectorAll('[data-testid=stMain] :is(text, p)')]"
                ".map(e => e.getBoundingClientRect()).filter(e => e.width)"
                ".flatMap(e => [e.left, e.right])"
            )
            assert len(edges) > 20 and min(edges) >= 0 and max(edges) <= 400
        page.set_viewport_size({"width": 1400, "height": 1000})
        page.goto(f"{address}/similarity")
        drawn = page.locator("[data-testid='stVegaLiteChart']:has(svg)")
        drawn.nth(3).wait_for(timeout=30_000)
        page.locator("[data-test-script-state='notRunning']").wait_for(timeout=30_000)
        bottoms = drawn.evaluate_all("all => all.map(e => e.getBoundingClientRect().bottom)")
        assert len(bottoms) == 4 and max(bottoms) <= 1000
        browser.close()
    assert all(url.startswith((address, "data:", "blob:")) for url in requests)
