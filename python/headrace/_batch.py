"""Batch: the tensors of one batch by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ._errors import InvalidArgumentError
from ._tensor import Tensor


class Batch(Mapping[str, Tensor]):
    """The tensors of one batch by name, [batch, (windows,) dimensions of the array...].

    The memory is reused for a later batch once the batch and everything made from its tensors have been released, and the work
    that was queued by then on the streams that took them (``torch.from_dlpack`` names one) is done. Work on other streams must
    be waited for before releasing the batch.
    """

    __slots__ = ("_samples", "_tensors", "epoch", "number", "valid")

    def __init__(self, tensors: dict[str, Tensor], samples: bytes, valid: int, epoch: int, number: int) -> None:
        self._tensors = tensors
        self._samples: bytes | list[int] = samples  # decoded on first use: a list of ints costs as much as the rest of the batch
        self.valid = valid  #: number of valid places; the remaining ones are repetitions (tail="pad")
        self.epoch = epoch
        self.number = number  #: number within this rank's batches since the epoch began or was resumed

    @property
    def samples(self) -> list[int]:
        """The sample number at each place of the batch."""
        if isinstance(self._samples, bytes):
            self._samples = memoryview(self._samples).cast("Q").tolist()
        return self._samples

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def torch(self) -> dict[str, Any]:
        """The same tensors as torch tensors, without a copy."""
        return {name: tensor.torch() for name, tensor in self._tensors.items()}

    def jax(self, sharding: Any = None) -> dict[str, Any]:
        """The same tensors as jax.Arrays, as Tensor.jax() returns them, or laid out by a jax.sharding.Sharding (or a mapping of names to
        shardings), such as over the local devices along the batch. With several processes, each batch is its process's part of the global one.

        Raises InvalidArgumentError if the sharding cannot divide a tensor.
        """
        arrays = {name: tensor.jax() for name, tensor in self._tensors.items()}
        if sharding is None:
            return arrays
        import jax

        for name, array in arrays.items():
            own = sharding.get(name) if isinstance(sharding, Mapping) else sharding
            try:
                if own is not None and jax.process_count() > 1:
                    arrays[name] = jax.make_array_from_process_local_data(own, self._tensors[name].numpy())
                elif own is not None:
                    own.shard_shape(array.shape)  # raises the error that explains why not
                    arrays[name] = jax.device_put(array, own)
            except ValueError as error:
                raise InvalidArgumentError(f"sharding: tensor {name!r} of shape {array.shape} cannot be divided by {own}: {error}") from None
        return arrays

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}: {tensor.shape}" for name, tensor in self._tensors.items())
        return f"headrace.Batch({shapes})"
