"""Adapters that pass a Loader's batches to other libraries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ._errors import InvalidArgumentError

if TYPE_CHECKING:
    from ._batch import Batch
    from ._loader import Loader


def torch_dataset(loader: Loader) -> Any:
    try:
        from torch.utils.data import IterableDataset, get_worker_info
    except ImportError:
        raise ImportError("Loader.torch_dataset() needs PyTorch: https://pytorch.org/get-started") from None

    class Dataset(IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Iterator[dict[str, Any]]:
            if get_worker_info() is not None:
                raise InvalidArgumentError("num_workers must be 0: a headrace.Loader reads with threads of its own, and no "
                                           "process forked from this one can use it")
            for batch in loader:
                yield batch.torch()

        def __len__(self) -> int:
            return len(loader)

        def state_dict(self) -> dict[str, Any]:
            return loader.state_dict()

        def load_state_dict(self, state: Mapping[str, Any]) -> None:
            loader.load_state_dict(state)

    return Dataset()


class DaliSource:
    """Per epoch, yields batches as DALI's external source takes them: tuples of NumPy or GPU arrays, one per entry of `names`.

    Iterating again starts the next epoch. Each batch is kept alive until the next is requested: DALI has copied it by then (with
    no_copy=True it would need the batch for longer).
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._batches: Iterator[Batch] | None = None  # None: the epoch has ended
        self._given = 0  # batches delivered in this epoch
        self._held: Batch | None = None
        self.names: tuple[str, ...] = tuple(loader._names)

    def __iter__(self) -> DaliSource:
        # DALI requests an iterator at the end of an epoch and again on reset; only one may start an epoch.
        if self._batches is None or self._given:
            self._batches, self._given = iter(self._loader), 0
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> tuple[Any, ...]:
        self._held = None
        self._held = None if self._batches is None else next(self._batches, None)
        if self._held is None:
            self._batches = None
            raise StopIteration
        self._given += 1
        on_gpu = hasattr(next(iter(self._held.values())), "__cuda_array_interface__")
        return tuple(tensor if on_gpu else np.from_dlpack(tensor) for tensor in self._held.values())
