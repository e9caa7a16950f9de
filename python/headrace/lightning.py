"""LoaderDataModule: Loaders as a Lightning data module, for either package (``lightning`` or ``pytorch_lightning``)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ._errors import InvalidArgumentError
from ._loader import Loader


def _data_module() -> Any:
    """The LightningDataModule of the package that is already imported, since the two are incompatible; else of the one installed."""
    names = ["lightning.pytorch", "pytorch_lightning"]
    for name in sorted(names, key=lambda name: name not in sys.modules):
        try:
            return importlib.import_module(name).LightningDataModule
        except ImportError:
            continue
    raise ImportError("headrace.lightning needs Lightning, which is not installed: pip install lightning") from None


_Made = Loader | Callable[[], Loader] | None


class LoaderDataModule(_data_module()):  # type: ignore[misc]
    """``trainer.fit(model, datamodule=LoaderDataModule(train=make_train, val=make_val))``

    train, val, test, predict: a Loader, or a function that returns one. A function is called in each training process after Lightning has
    set up its ranks, so that the Loader gets its rank from torch.distributed. Training on several GPUs needs functions.

    Batches are dicts of torch tensors. Checkpoints contain the Loaders' positions: training resumes after the last batch it received.
    """

    def __init__(self, train: _Made = None, val: _Made = None, test: _Made = None, predict: _Made = None) -> None:
        super().__init__()
        self._makers = {"train": train, "val": val, "test": test, "predict": predict}
        for name, maker in self._makers.items():
            if maker is not None and not isinstance(maker, Loader) and not callable(maker):
                raise InvalidArgumentError(f"{name} is a {type(maker).__name__}; give a headrace.Loader or a function that makes one")
        self._loaders: dict[str, Loader] = {}
        self._states: dict[str, Any] = {}  # states of loaders that are not created yet

    def loader(self, name: str) -> Loader:
        """The Loader for "train", "val", "test" or "predict", created by the first call."""
        if name not in self._loaders:
            maker = self._makers.get(name)
            made = maker() if callable(maker) and not isinstance(maker, Loader) else maker
            if not isinstance(made, Loader):
                raise InvalidArgumentError(f"{name}: there is no headrace.Loader" + ("" if maker is None else f", but a {type(made).__name__}"))
            if name in self._states:
                made.load_state_dict(self._states.pop(name))
            self._loaders[name] = made
        return self._loaders[name]

    def _batches(self, name: str) -> Any:
        if self._makers[name] is None:
            return []
        from torch.utils.data import DataLoader

        # A plain DataLoader keeps no state, so Lightning saves only this module's.
        return DataLoader(self.loader(name).torch_dataset(), batch_size=None)

    def train_dataloader(self) -> Any:
        return self._batches("train")

    def val_dataloader(self) -> Any:
        return self._batches("val")

    def test_dataloader(self) -> Any:
        return self._batches("test")

    def predict_dataloader(self) -> Any:
        return self._batches("predict")

    def state_dict(self) -> dict[str, Any]:
        return {**self._states, **{name: loader.state_dict() for name, loader in self._loaders.items()}}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        for name, state in state_dict.items():
            if name not in self._makers:
                raise InvalidArgumentError(f"this is not a state_dict() of a LoaderDataModule: it has {name!r}")
            if name in self._loaders:
                self._loaders[name].load_state_dict(state)
            else:
                self._states[name] = state
