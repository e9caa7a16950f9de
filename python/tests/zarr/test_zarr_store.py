"""headrace.zarr.Store fulfils zarr's store contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from zarr.core.buffer import Buffer, cpu
from zarr.testing.store import StoreTests

from headrace.zarr import Store

pytest.importorskip("pytest_asyncio")  # runs zarr's tests, which are coroutines


class TestStore(StoreTests[Store, cpu.Buffer]):
    store_cls = Store
    buffer_cls = cpu.Buffer

    async def get(self, store: Store, key: str) -> Buffer:
        return self.buffer_cls.from_bytes((store.root / key).read_bytes())

    async def set(self, store: Store, key: str, value: Buffer) -> None:
        path = store.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value.to_bytes())

    @pytest.fixture
    def store_kwargs(self, tmp_path: Path) -> dict[str, Any]:
        return {"root": str(tmp_path)}

    def test_store_repr(self, store: Store) -> None:
        assert repr(store) == f"headrace.zarr.Store('file://{store.root.as_posix()}')"

    def test_store_supports_writes(self, store: Store) -> None:
        assert store.supports_writes

    def test_store_supports_listing(self, store: Store) -> None:
        assert store.supports_listing
