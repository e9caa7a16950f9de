"""LoaderDatasource: a Loader's samples as a dataset of Ray Data, read in parts by its tasks."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

from ._errors import InvalidArgumentError
from ._loader import Loader

try:
    from ray.data import Datasource, ReadTask
    from ray.data.block import BlockAccessor, BlockMetadata
except ImportError as error:
    raise ImportError("headrace.ray needs Ray Data: pip install 'ray[data]'") from error


class LoaderDatasource(Datasource):  # type: ignore[misc]
    """``ray.data.read_datasource(LoaderDatasource("era5.zarr", input_dims={"time": 4}, batch_size=16))``

    A row is a sample: a column for each tensor, of its shape without the batch, and "sample", its number. Every sample of one epoch comes
    once. Each task reads a part of the epoch, as a rank of so many would, in blocks of batch_size; on the host.

    Arguments as for Loader, except for those that say which part: rank, world, reader_group, tail; and device, progress. Sources are opened
    by the tasks: their paths have to be there on every node.
    """

    def __init__(self, source: Any, **options: Any) -> None:
        super().__init__()
        for name in ("rank", "world", "reader_group", "tail", "device", "progress"):
            if name in options:
                raise InvalidArgumentError(f"{name} is Ray's to say: leave it out")
        loader = Loader(source, **options, rank=0, world=1, tail="pad", device="host")
        self._sources, self._given = tuple(loader._sources), loader._given
        self._batches = len(loader)
        chosen = next((options[name] for name in ("samples", "weights") if options.get(name) is not None), None)
        self._positions = options.get("draws") or (loader.samples if chosen is None else len(chosen))  # of an epoch
        self._row_bytes = 8 + sum(math.prod(shape[1:]) * described[1] for shape, (_, _, described, _) in zip(loader._shapes, loader._core.tensors, strict=True))

    def estimate_inmemory_data_size(self) -> int | None:
        return self._positions * self._row_bytes

    def get_read_tasks(self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None) -> list[Any]:
        world = max(1, min(parallelism, self._batches))
        tasks = []
        for rank in range(world):
            # Which rank has the last samples depends on the batch's size.
            metadata = BlockMetadata(num_rows=None, size_bytes=self._positions * self._row_bytes // world, input_files=None, exec_stats=None)
            read = functools.partial(_read_part, self._sources, {**self._given, "rank": rank, "world": world})
            tasks.append(ReadTask(read, metadata, per_task_row_limit=per_task_row_limit))
        return tasks


def _read_part(sources: tuple[Any, ...], given: dict[str, Any]) -> Iterator[Any]:
    for batch in Loader(sources, **given):
        columns: dict[str, Any] = {name: tensor.numpy()[:batch.valid] for name, tensor in batch.items()}
        columns["sample"] = batch.samples[:batch.valid]
        if batch.valid:
            yield BlockAccessor.batch_to_arrow_block(columns)


__all__ = ["LoaderDatasource"]
