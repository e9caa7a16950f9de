"""pytest plugin: runs xarray's own tests with reads of engine "zarr" redirected to engine "headrace".

`tools/xarray-suite` uses it. The tests are unmodified: the plugin replaces the engine by an adapter that takes zarr's
arguments. Stores that are Python objects in memory are first copied to a directory. Writes (mode "a", "r+", "w") go to
zarr's own engine.

HEADRACE_SUITE_ENGINE   "headrace" redirects; "zarr" leaves everything as it is, for comparison
HEADRACE_SUITE_REPORT   file that receives a JSON object per test, and a final one with counts
"""

from __future__ import annotations

import asyncio
import atexit
import collections
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from xarray.backends import api, plugins
from xarray.backends.zarr import ZarrBackendEntrypoint

REDIRECTED = os.environ.get("HEADRACE_SUITE_ENGINE") == "headrace"
COUNTS: collections.Counter[str] = collections.Counter()


def _copied_to_directory(store: Any) -> str:
    """Copies a zarr-python store, or a dict of its chunks, to files."""
    from zarr.core.buffer import default_buffer_prototype
    from zarr.storage import MemoryStore, StorePath

    prefix = ""
    if isinstance(store, StorePath):
        store, prefix = store.store, store.path
    if isinstance(store, dict):
        store = MemoryStore(store)

    async def copy(root: Path) -> None:
        async for key in store.list():
            value = await store.get(key, default_buffer_prototype())
            assert value is not None
            path = root / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(value.to_bytes())

    def run() -> None:
        asyncio.run(copy(root))

    import threading

    root = Path(tempfile.mkdtemp(prefix="xarray-suite-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    thread = threading.Thread(target=run)  # the test may run in an event loop
    thread.start()
    thread.join()
    return str(root / prefix)


class RedirectedEntrypoint(ZarrBackendEntrypoint):
    """Looks like zarr's engine; reads with headrace."""

    def _ours(self, method: str, target: Any, arguments: dict[str, Any]) -> Any:
        from headrace.xarray import HeadraceBackendEntrypoint

        ours = HeadraceBackendEntrypoint()
        arguments.pop("cache_members", None)
        arguments.pop("engine", None)
        if not getattr(target, "supports_consolidated_metadata", True):
            arguments["consolidated"] = False
        options = arguments.get("storage_options")
        if isinstance(target, str) and "://" in target and not target.startswith("file://"):
            import zarr

            store = zarr.open_group(target, mode="r", storage_options=options).store
            target, arguments["storage_options"] = _copied_to_directory(store), None
        elif not isinstance(target, str | os.PathLike) and type(target).__name__ not in ("LocalStore", "ZipStore"):
            target = _copied_to_directory(target)
        COUNTS["reads by headrace"] += 1
        return getattr(ours, method)(target, **arguments)

    def _mine(self, arguments: dict[str, Any]) -> bool:
        mine = arguments.get("mode", "r") == "r" and not arguments.get("store")
        if not mine:
            COUNTS["calls left to zarr"] += 1
        return mine

    def open_dataset(self, filename_or_obj: Any, **arguments: Any) -> Any:  # type: ignore[override]
        if not self._mine(arguments):
            return super().open_dataset(filename_or_obj, **arguments)
        arguments.pop("store", None)
        return self._ours("open_dataset", filename_or_obj, arguments)

    def open_datatree(self, filename_or_obj: Any, **arguments: Any) -> Any:  # type: ignore[override]
        if not self._mine(arguments):
            return super().open_datatree(filename_or_obj, **arguments)
        return self._ours("open_datatree", filename_or_obj, arguments)

    def open_groups_as_dict(self, filename_or_obj: Any, **arguments: Any) -> Any:  # type: ignore[override]
        if not self._mine(arguments):
            return super().open_groups_as_dict(filename_or_obj, **arguments)
        return self._ours("open_groups_as_dict", filename_or_obj, arguments)


# xarray derives the supported decoding options from the signature.
RedirectedEntrypoint.open_dataset_parameters = (
    "filename_or_obj",
    "mask_and_scale",
    "decode_times",
    "concat_characters",
    "decode_coords",
    "drop_variables",
    "use_cftime",
    "decode_timedelta",
    "group",
    "mode",
    "consolidated",
    "storage_options",
    "zarr_format",
    "store",
    "engine",
    "use_zarr_fill_value_as_mask",
    "cache_members",
)


def pytest_configure(config: pytest.Config) -> None:
    if not REDIRECTED:
        return
    original = plugins.get_backend

    def get_backend(engine: Any) -> Any:
        backend = original(engine)
        return RedirectedEntrypoint() if type(backend) is ZarrBackendEntrypoint else backend

    plugins.get_backend = get_backend
    assert api.plugins is plugins, "xarray's open_dataset asks another module for its engines"


def _report(entry: dict[str, Any]) -> None:
    path = os.environ.get("HEADRACE_SUITE_REPORT")
    if path:
        with open(path, "a") as report:
            report.write(json.dumps(entry) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if report.when == "call" or report.outcome != "passed":
        outcome = report.outcome
        if hasattr(report, "wasxfail"):
            outcome = "xpassed" if outcome == "passed" else "xfailed"
        reason = ""
        if report.outcome == "failed" and call.excinfo is not None:
            reason = f"{call.excinfo.typename}: {call.excinfo.value}"[:300]
        _report({"test": f"{item.module.__name__}::{item.nodeid.split('::', 1)[1]}", "outcome": outcome, "why": reason})
    return report


def pytest_unconfigure(config: pytest.Config) -> None:
    _report({"counts": dict(COUNTS)})
