"""LoaderDatasource: a Loader's samples as a Ray Data dataset, read in parallel by its tasks."""

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

    A row is a sample. It has a column per tensor, with the tensor's shape without the batch dimension, and "sample", the sample number.
    The dataset contains each sample of one epoch once. Each task reads the share of one rank, in blocks of batch_size, to the host.

    Arguments as for Loader, except rank, world, reader_group, tail, device and progress, which are set here. The tasks open the sources, so
    their paths must exist on every node.
    """

    def __init__(self, source: Any, **options: Any) -> None:
        super().__init__()
        for name in ("rank", "world", "reader_group", "tail", "device", "progress"):
            if name in options:
                raise InvalidArgumentError(f"{name} is set by Ray: leave it out")
        loader = Loader(source, **options, rank=0, world=1, tail="pad", device="host")
        self._sources, self._given = tuple(loader._sources), loader._given
        self._batches = len(loader)
        chosen = next((options[name] for name in ("samples", "weights") if options.get(name) is not None), None)
        self._positions = options.get("draws") or (loader.samples if chosen is None else len(chosen))  # positions of an epoch
        self._row_bytes = 8 + sum(math.prod(shape[1:]) * described[1] for shape, (_, _, described, _) in zip(loader._shapes, loader._core.tensors, strict=True))

    def estimate_inmemory_data_size(self) -> int | None:
        return self._positions * self._row_bytes

    def get_read_tasks(self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None) -> list[Any]:
        world = max(1, min(parallelism, self._batches))
        tasks = []
        for rank in range(world):
            # The number of rows is unknown: which rank gets the last samples depends on the batch size.
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
