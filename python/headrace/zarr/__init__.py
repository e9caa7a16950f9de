"""headrace inside zarr-python: a codec pipeline, and a store of local files.

    import zarr, headrace.zarr
    headrace.zarr.enable()             # or: zarr.config.set({"codec_pipeline.path": "headrace.zarr.HeadracePipeline"})
    zarr.open_array("data.zarr")[...]  # all chunks in one native read

Arrays that headrace cannot read are read by zarr's own pipeline, which also does all writing.
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

# zarr refers to classes by their full names; these are the public ones.
HeadracePipeline.__module__ = __name__
Store.__module__ = __name__
TorchNDBuffer.__module__ = __name__
_register_pipeline(HeadracePipeline)
_register_ndbuffer(TorchNDBuffer)

_PATH = f"{__name__}.HeadracePipeline"
_before: str | None = None


def enable(*, strict: bool = False, fallback: str | None = None) -> None:
    """Makes headrace read the arrays that zarr opens from now on.

    strict: raise headrace.UnsupportedError for arrays that headrace cannot read, instead of using zarr's own pipeline.
    fallback: full class name of zarr's own pipeline; default: the one that zarr.config names at this time.

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
    """Restores, for arrays that zarr opens from now on, the pipeline that was selected before enable()."""
    from headrace.zarr._pipeline import DEFAULT_FALLBACK

    if _zarr.config.get("codec_pipeline.path") == _PATH:
        _zarr.config.set({"codec_pipeline.path": _before or DEFAULT_FALLBACK})
