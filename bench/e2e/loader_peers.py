"""Loaders of loader_compare.py that other projects provide: NVIDIA DALI, physicsnemo.datapipes and insitubatch.

Each is used as its documentation recommends. On a GPU they deliver tensors there themselves.

  dali         external_source with parallel=True: a process per CPU makes whole batches, as many ahead as torch's DataLoader has, and a
               pipeline moves them. DALI reads no Zarr: the source uses zarr-python, and reads a frame once per batch, even if several
               samples need it. It gets the order through a file, since its processes start before the first epoch.
  physicsnemo  Dataset and DataLoader with a sampler; threads read, and on a GPU four streams copy from pinned memory. Its own readers
               have one sample per index of the first dimension or per group, so they can express neither windows nor crops of a frame;
               here a Reader of a few lines, as its documentation describes, reads boxes with tensorstore, like its TensorStoreZarrReader.
               A cache as large as the frames that are read together serves crops of the same frame.
  insitubatch  InSituDataset over an obstore store, with its planner, its shuffle and its pinned buffers. It takes no order from outside,
               so it delivers the same samples in its own. Windows are views shifted by a frame, which it keeps apart: they are stacked
               here. It has no boxes: a batch transform cuts the crops out of four whole frames. Its pool lasts for one epoch here; for
               shuffled windows it holds the whole array, decoded.

All open what they read anew for every epoch, as headrace does, except DALI, whose processes stay.
"""

from __future__ import annotations

import atexit
import functools
import os
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from loader_parts import AHEAD, Batches, Box, Boxes, opened, shape_of, workers

FRAME_BYTES = 721 * 1440 * 4


def on_gpu(device: str) -> bool:
    return device != "host"


@functools.lru_cache(maxsize=2)
def order_of_epoch(file: str) -> np.ndarray[Any, Any]:
    return np.load(file)


class DaliSource:
    """Makes batch `iteration` of epoch `epoch_idx` in one of DALI's processes. The order of epoch N is in the file N.npy: the beginning
    and the end along each dimension, [batch, sample, dimension, 2]."""

    def __init__(self, path: pathlib.Path, orders: str) -> None:
        self.path, self.orders = str(path), orders

    def __call__(self, batch: Any) -> list[np.ndarray[Any, Any]]:
        order = order_of_epoch(f"{self.orders}/{batch.epoch_idx}.npy")
        if batch.iteration >= len(order):
            raise StopIteration
        boxes = order[batch.iteration]
        array = opened(self.path)
        frames: dict[int, Any] = {}
        out = []
        for (first, end), (top, bottom), (left, right) in boxes.tolist():
            for number in range(first, end):
                if number not in frames:
                    frames[number] = array[number]
            parts = [frames[number][top:bottom, left:right] for number in range(first, end)]
            out.append(parts[0][None] if len(parts) == 1 else np.stack(parts))  # DALI copies them to shared memory
        return out


class DaliEpochs:
    """A pipeline for batches of one shape."""

    def __init__(self, path: pathlib.Path, device: str, batch: Boxes) -> None:
        from nvidia.dali import Pipeline, fn, types

        self.folder = tempfile.TemporaryDirectory()
        self.device, self.epochs = device, 0
        self.pipeline = Pipeline(
            batch_size=len(batch), num_threads=workers(), device_id=0 if on_gpu(device) else None,
            prefetch_queue_depth=AHEAD, py_num_workers=workers(), py_start_method="spawn")
        with self.pipeline:
            # A batch's slot also holds a description of its arrays.
            read = fn.external_source(
                source=DaliSource(path, self.folder.name), parallel=True, batch=True, batch_info=True, dtype=types.FLOAT, ndim=3,
                prefetch_queue_depth=workers() * AHEAD, bytes_per_sample_hint=4 * int(np.prod(shape_of(batch[0]))) + 4096)
            self.pipeline.set_outputs(read.gpu() if on_gpu(device) else read)

    def run(self, epoch: list[Boxes]) -> Iterator[Any]:
        np.save(f"{self.folder.name}/{self.epochs}.npy", np.array([[edges_of(box) for box in boxes] for boxes in epoch]))
        if self.epochs > 0:
            self.pipeline.reset()
        self.epochs += 1
        stream = None
        if on_gpu(self.device):
            import torch

            stream = torch.cuda.current_stream()
        while True:
            try:
                (batch,) = self.pipeline.run(stream)
            except StopIteration:
                return
            yield torch.from_dlpack(batch.as_tensor()) if on_gpu(self.device) else np.asarray(batch.as_tensor())

    def close(self) -> None:
        del self.pipeline
        self.folder.cleanup()


def edges_of(box: Box) -> list[tuple[int, int]]:
    shape = shape_of(box)
    return [(box[axis].start, box[axis].stop) if axis < len(box) else (0, shape[axis]) for axis in range(3)]


def with_dali(path: pathlib.Path, device: str) -> Batches:
    import nvidia.dali  # noqa: F401 - fails here if it is missing

    pipelines: dict[tuple[int, ...], DaliEpochs] = {}

    def batches(epoch: list[Boxes]) -> Iterator[Any]:
        shape = (len(epoch[0]), *shape_of(epoch[0][0]))
        if shape not in pipelines:
            pipelines[shape] = DaliEpochs(path, device, epoch[0])
            atexit.register(pipelines[shape].close)
        return pipelines[shape].run(epoch)

    return batches


def with_physicsnemo(path: pathlib.Path, device: str) -> Batches:
    import warp

    # The package builds kernels for meshes at import, for which it starts warp and loads its library. Reading arrays needs neither.
    warp.init = lambda: None
    import tensorstore as ts
    import torch
    from physicsnemo.datapipes import DataLoader, Dataset, Reader

    class BoxReader(Reader):  # type: ignore[misc, valid-type]
        """Sample i is box i of an epoch."""

        def __init__(self, boxes: Boxes) -> None:
            super().__init__(pin_memory=on_gpu(device), include_index_in_metadata=False)
            self.boxes = boxes
            spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": str(path)}}
            self.array = ts.open(spec, context=ts.Context({"cache_pool": {"total_bytes_limit": 16 * FRAME_BYTES}}), read=True).result()

        def __len__(self) -> int:
            return len(self.boxes)

        def _load_sample(self, index: int) -> dict[str, Any]:
            return {"field": torch.from_numpy(self.array[self.boxes[index]].read().result())}

    def batches(epoch: list[Boxes]) -> Iterator[Any]:
        boxes = [box for batch in epoch for box in batch]
        dataset = Dataset(BoxReader(boxes), device=device if on_gpu(device) else None, num_workers=2 * workers())
        try:
            for batch in DataLoader(dataset, batch_size=len(epoch[0]), sampler=range(len(boxes)), prefetch_factor=AHEAD, num_streams=4):
                yield batch["field"]
        finally:
            dataset.close()

    return batches


class InsituEpochs:
    """insitubatch's loader. `frames` has the first frame of each sample that the last epoch delivered, in its order."""

    def __init__(self, path: pathlib.Path, device: str) -> None:
        import insitubatch

        self.insitubatch, self.path, self.device = insitubatch, path, device
        self.frames: list[int] = []
        self.epochs = 0

    def __call__(self, epoch: list[Boxes]) -> Iterator[Any]:
        crops: dict[int, Boxes] = {}
        for boxes in epoch:
            for box in boxes:
                crops.setdefault(box[0].start, []).append(box)
        cut = len(epoch[0][0]) > 1
        per_frame = len(crops[epoch[0][0][0].start]) if cut else 1
        array = opened(str(self.path))
        geometry = self.insitubatch.ArrayGeometry(self.path.name, array.shape, array.chunks, array.dtype)
        names = [f"frame{number}" for number in range(shape_of(epoch[0][0])[0])]

        def cut_crops(batch: Any) -> Any:
            frames = batch.arrays[names[0]]
            batch.arrays[names[0]] = np.stack([
                frames[place][box[1:]] for place, frame in enumerate(batch.sample_indices.tolist()) for box in crops[frame]])
            return batch

        dataset = self.insitubatch.InSituDataset(
            self.insitubatch.obstore_store(f"file://{os.path.abspath(self.path.parent)}"),
            self.insitubatch.split_by_chunk(geometry, fractions=(1.0, 0.0, 0.0)),
            {name: geometry.shift(number) for number, name in enumerate(names)},
            batch_size=len(epoch[0]) // per_frame, block_chunks=max(16, 2 * workers()), max_inflight=max(32, 2 * workers()),
            seed=self.epochs, prefetch_depth=AHEAD, batch_transforms=[cut_crops] if cut else [])
        self.epochs += 1
        self.frames = []
        try:
            yield from self.delivered(dataset, names, cut)
        finally:
            dataset.close()

    def delivered(self, dataset: Any, names: list[str], cut: bool) -> Iterator[Any]:
        if on_gpu(self.device):
            import torch

            # As as_torch() does; here a batch's numbers are needed, too.
            self.insitubatch.frameworks.pin_host_buffers(dataset.train)
        for batch in dataset.train:
            if len(batch) < dataset.batch_size:
                continue
            self.frames += batch.sample_indices.tolist()
            if on_gpu(self.device):
                tensors = self.insitubatch.to_torch(batch, device=self.device)
                yield tensors[names[0]][:, None] if len(names) == 1 else torch.stack([tensors[name] for name in names], 1)
            else:
                yield batch.arrays[names[0]][:, None] if len(names) == 1 else batch.stack(names)


PEERS = {"dali": with_dali, "physicsnemo": with_physicsnemo, "insitubatch": InsituEpochs}
PACKAGES = {"dali": ["nvidia-dali-cuda130"], "physicsnemo": ["nvidia-physicsnemo", "tensordict"], "insitubatch": ["insitubatch", "obstore"]}
