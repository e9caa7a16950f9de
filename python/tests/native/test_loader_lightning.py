"""LoaderDataModule under Lightning's Trainer: each batch arrives once, and training resumes from a mid-epoch checkpoint."""

import native_stores as stores
import numpy as np
import pytest

import headrace

torch = pytest.importorskip("torch")

DATA = np.arange(24 * 3 * 4, dtype="<f4").reshape(24, 3, 4)


@pytest.fixture(params=["lightning.pytorch", "pytorch_lightning"])
def lightning(request):
    return pytest.importorskip(request.param)


@pytest.fixture
def path(tmp_path):
    return stores.write(tmp_path / "t", DATA, (4, 3, 4), attributes={"_ARRAY_DIMENSIONS": ["time", "y", "x"]})


@pytest.fixture
def module_of(lightning, monkeypatch):
    """headrace.lightning in a program that uses this one of the two packages."""
    import importlib
    import sys

    for name in [name for name in sys.modules if name.partition(".")[0] in ("lightning", "pytorch_lightning") and not name.startswith(lightning.__name__)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "headrace.lightning", raising=False)
    return importlib.import_module("headrace.lightning")


def model_of(lightning):
    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))
            self.seen, self.checked = [], []

        def training_step(self, batch, number):
            self.seen.append((self.current_epoch, batch["t"][:, 0, 0, 0].int().tolist()))
            return (self.weight * batch["t"].float().mean()).sum()

        def validation_step(self, batch, number):
            self.checked.append(batch["t"].shape)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-6)

    return Model()


def test_training_goes_on_behind_a_checkpoint(lightning, module_of, path, tmp_path):
    def loader(**options):
        return headrace.Loader(path, input_dims={"time": 1}, batch_size=4, shuffle=True, seed=3, device="host", **options)

    def trainer(checkpoints=False, **options):
        return lightning.Trainer(accelerator="cpu", devices=1, logger=False, enable_progress_bar=False, enable_model_summary=False,
                                 enable_checkpointing=checkpoints, default_root_dir=tmp_path, num_sanity_val_steps=0, **options)

    def numbers(batches):
        return [[number * 12 for number in batch.samples] for batch in batches]

    whole = loader()  # two epochs, each in its own order
    expected = [(epoch, of) for epoch in range(2) for of in numbers(whole)]
    model = model_of(lightning)
    trainer(max_epochs=2).fit(model, datamodule=module_of.LoaderDataModule(train=loader, val=loader(samples=[1, 2, 3, 4])))
    assert model.seen == expected and model.checked == [(4, 1, 3, 4)] * 2

    # As if interrupted after step 4: resumes from what a callback saved there.
    model, folder = model_of(lightning), tmp_path / "checkpoints"
    saving = lightning.callbacks.ModelCheckpoint(folder, filename="{step}", every_n_train_steps=4, save_top_k=-1)
    trainer(max_epochs=2, callbacks=[saving], checkpoints=True).fit(model, datamodule=module_of.LoaderDataModule(train=loader()))
    assert model.seen == expected
    for step in (4, 8):
        model = model_of(lightning)
        trainer(max_epochs=2).fit(model, datamodule=module_of.LoaderDataModule(train=loader), ckpt_path=folder / f"step={step}.ckpt")
        assert model.seen == expected[step:]


def test_misuse_names_what_is_wrong(module_of, path):
    with pytest.raises(headrace.InvalidArgumentError, match="train is a str"):
        module_of.LoaderDataModule(train="t.zarr")
    with pytest.raises(headrace.InvalidArgumentError, match="val: there is no headrace.Loader, but a int"):
        module_of.LoaderDataModule(val=lambda: 3).loader("val")
    with pytest.raises(headrace.InvalidArgumentError, match="test: there is no headrace.Loader"):
        module_of.LoaderDataModule().loader("test")
    with pytest.raises(headrace.InvalidArgumentError, match="'weights'"):
        module_of.LoaderDataModule().load_state_dict({"weights": 1})
    assert module_of.LoaderDataModule().predict_dataloader() == []
