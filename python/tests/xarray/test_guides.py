"""The code in the guides runs unmodified, in order, in one namespace and an empty directory."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

from headrace.xarray import HeadraceBackendEntrypoint

GUIDES = Path(__file__).resolve().parents[3] / "docs" / "guide"


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Registers the engine under its name, as a wheel does and a build tree does not."""
    plugins = xr.backends.plugins
    monkeypatch.setitem(plugins.BACKEND_ENTRYPOINTS, "headrace", (None, HeadraceBackendEntrypoint))
    plugins.list_engines.cache_clear()
    yield
    plugins.list_engines.cache_clear()


@pytest.mark.parametrize("name", ["xarray", "dask"])
def test_guide(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registered: Any) -> None:
    pytest.importorskip("dask")
    pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    text = (GUIDES / f"{name}.md").read_text()
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    assert len(blocks) >= 3
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks:
        lines_above = "\n" * text.count("\n", 0, block.start(1))  # so that a failure shows the guide's line number
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(lines_above + block.group(1), str(GUIDES / f"{name}.md"), "exec"), namespace)
