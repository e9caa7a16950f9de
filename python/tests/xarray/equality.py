"""Equality of datasets: bitwise values, types, dimensions, attributes, encodings."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr


def assert_same(theirs: xr.Dataset, ours: xr.Dataset, *, values: bool = True) -> None:
    """Fails if `ours` differs from `theirs`, naming the variable and the difference."""
    assert set(ours.variables) == set(theirs.variables)
    assert set(ours.coords) == set(theirs.coords)
    assert set(ours.indexes) == set(theirs.indexes)
    assert dict(ours.sizes) == dict(theirs.sizes)
    assert_same_mapping(theirs.attrs, ours.attrs, "attributes of the dataset")
    for name in theirs.variables:
        assert_same_variable(theirs.variables[name], ours.variables[name], name, values=values)


def assert_same_variable(theirs: xr.Variable, ours: xr.Variable, name: Any, *, values: bool = True) -> None:
    assert ours.dims == theirs.dims, name
    assert ours.shape == theirs.shape, name
    assert ours.dtype == theirs.dtype, name
    assert ours.chunks == theirs.chunks, name
    assert_same_mapping(theirs.attrs, ours.attrs, f"attributes of {name}")
    assert_same_mapping(theirs.encoding, ours.encoding, f"encoding of {name}")
    if values:
        assert_same_values(theirs.values, ours.values, name)


def assert_same_values(theirs: Any, ours: Any, name: Any = "values") -> None:
    assert type(ours) is type(theirs), name
    assert ours.dtype == theirs.dtype, name
    assert ours.shape == theirs.shape, name
    if theirs.dtype.kind in "OT":
        assert ours.tolist() == theirs.tolist(), name
        return
    np.testing.assert_array_equal(ours, theirs, err_msg=str(name))
    # Zeros and NaNs have several representations. Zeros must have equal signs; the bits of a NaN may differ.
    if theirs.dtype.kind in "fc":
        signs = [np.signbit(values.real) & ~np.isnan(values) for values in (ours, theirs)]
        np.testing.assert_array_equal(*signs, err_msg=str(name))


def assert_same_mapping(theirs: Any, ours: Any, what: str) -> None:
    assert set(ours) == set(theirs), what
    for key, value in theirs.items():
        other = ours[key]
        assert same(value, other), f"{what}: {key}: {value!r} ({type(value)}) and {other!r} ({type(other)})"


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float | np.floating | np.complexfloating | complex) and np.isnan(one):
        return type(one) is type(other) and bool(np.isnan(other))
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    # Numbers by value and type: writing them again depends on both.
    return bool(one == other) and type(one) is type(other)
