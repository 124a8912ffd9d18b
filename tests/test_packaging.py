"""What an installation gets."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_package_is_installed():
    # Its setting `find` would not find the bundled model, which stands beside the package.
    listed = re.search(r"^packages = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(), re.M | re.S)
    found = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for path in (ROOT / "keras_elmo").rglob("__init__.py")
    }
    assert set(re.findall(r'"(.*?)"', listed[1])) == found | {"keras_elmo.weights.default"}
