"""What an installation gets."""

import re
from pathlib import Path

from packaging.version import Version

ROOT = Path(__file__).parents[1]


def test_every_package_is_installed():
    # Its setting `find` would not find the bundled model, which stands beside the package.
    listed = re.search(r"^packages = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(), re.M | re.S)
    found = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for path in (ROOT / "keras_elmo").rglob("__init__.py")
    }
    assert set(re.findall(r'"(.*?)"', listed[1])) == found | {"keras_elmo.weights.default"}


def test_oldest_versions_are_the_lower_bounds():
    pins = re.findall(r"^([\w-]+)==(.+)$", (ROOT / "tests" / "oldest.txt").read_text(), re.M)
    oldest = {name: Version(version) for name, version in pins if name != "jaxlib"}
    project = (ROOT / "pyproject.toml").read_text()
    required = re.search(r"^dependencies = \[(.*?)\]", project, re.M | re.S)[1]
    assert set(re.findall(r'"([\w-]+)', required)) <= set(oldest)
    bounds = dict(re.findall(r'"([\w-]+)>=([\d.]+)"', project))
    assert oldest == {name: Version(bounds[name]) for name in oldest}
