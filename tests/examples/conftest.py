"""The tests of the examples are skipped where the packages that these need are missing."""

from importlib.util import find_spec

import pytest

PACKAGES = ("matplotlib", "pyarrow", "scorch", "seqeval")


class SkippedModule(pytest.Module):
    def collect(self):
        pytest.skip("the examples need more packages: pip install 'keras-elmo[examples]'")


def pytest_pycollect_makemodule(module_path, parent):
    if not all(map(find_spec, PACKAGES)):
        return SkippedModule.from_parent(parent, path=module_path)
    return None


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    """Programs run in an empty folder, and with short epochs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("harness.LEAST_STEPS", 1)
