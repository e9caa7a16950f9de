"""headrace inside zarr-python: a codec pipeline, and a store of local files.

    import zarr, headrace.zarr
    headrace.zarr.enable()             # or: zarr.config.set({"codec_pipeline.path": "headrace.zarr.HeadracePipeline"})
    zarr.open_array("data.zarr")[...]  # all chunks in one native read

What headrace cannot read is read by zarr's own pipeline; writing is zarr's own.
"""

from __future__ import annotations

try:
    import zarr as _zarr
except ImportError as _error:
    raise ImportError("headrace.zarr needs zarr-python 3.1 or later: pip install 'zarr>=3.1'") from _error

if int(_zarr.__version__.partition(".")[0]) < 3:
    raise ImportError(f"headrace.zarr needs zarr-python 3.1 or later, not {_zarr.__version__}: pip install 'zarr>=3.1'")

from zarr.registry import register_ndbuffer as _register_ndbuffer
from zarr.registry import register_pipeline as _register_pipeline

from headrace.zarr._pipeline import HeadracePipeline
from headrace.zarr._store import Store
from headrace.zarr._torch import TorchNDBuffer, torch_prototype

__all__ = ["HeadracePipeline", "Store", "TorchNDBuffer", "disable", "enable", "torch_prototype"]

# zarr knows classes by their full names; these are the ones that users write.
HeadracePipeline.__module__ = __name__
Store.__module__ = __name__
TorchNDBuffer.__module__ = __name__
_register_pipeline(HeadracePipeline)
_register_ndbuffer(TorchNDBuffer)

_PATH = f"{__name__}.HeadracePipeline"
_before: str | None = None


def enable(*, strict: bool = False, fallback: str | None = None) -> None:
    """Reads of arrays that zarr opens from now on go through headrace.

    strict: headrace.UnsupportedError for what headrace cannot read, where else zarr's own pipeline reads it.
    fallback: full name of the class that is zarr's own pipeline: the one that zarr.config names now if left out.

    The same settings by name, for zarr.config.set() or the environment: "codec_pipeline.path" (the class's full name),
    "headrace.strict", "headrace.fallback".
    """
    global _before
    current = _zarr.config.get("codec_pipeline.path")
    if current != _PATH:
        _before = current
    settings = {"codec_pipeline.path": _PATH, "headrace.strict": strict}
    if fallback or _before:
        settings["headrace.fallback"] = fallback or _before
    _zarr.config.set(settings)


def disable() -> None:
    """Arrays that zarr opens from now on are read by the pipeline that was chosen before enable()."""
    from headrace.zarr._pipeline import DEFAULT_FALLBACK

    if _zarr.config.get("codec_pipeline.path") == _PATH:
        _zarr.config.set({"codec_pipeline.path": _before or DEFAULT_FALLBACK})
