"""Decoding moves into the read exactly where the results equal xarray's."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from xarray.backends import BackendArray
from xarray.coding.common import lazy_elemwise_func
from xarray.coding.variables import BoolTypeArray
from xarray.core import indexing

from headrace.xarray._convert import Cast, Conversion, Mask, Scale, read_options, steps_of

F4, F8, I2 = np.dtype("f4"), np.dtype("f8"), np.dtype("i2")


def mask(*values: Any, dtype: np.dtype[Any] = F8, becomes: Any = np.nan) -> Mask:
    return Mask(values, becomes, dtype)


@pytest.mark.parametrize(
    ("stored", "steps", "options"),
    [
        ("i2", [mask(-9, dtype=F4)], {"dtype": "float32", "fill": -9}),
        ("f4", [mask(np.float32(0.1), dtype=F4)], {"dtype": "float32", "fill": np.float32(0.1)}),
        ("i2", [Scale(0.1, None, F8)], {"dtype": "float64", "scale": 0.1}),
        ("i2", [Scale(None, 3, F8)], {"dtype": "float64", "offset": 3.0}),
        ("i2", [mask(-9), Scale(0.1, 2.0, F8)], {"dtype": "float64", "fill": -9, "scale": 0.1, "offset": 2.0}),
        (">i2", [Cast(I2)], {}),
        # Several values, none, or one that is no element.
        ("i2", [mask(-9, -8, dtype=F4)], None),
        ("i2", [mask(dtype=F4)], None),
        ("i2", [mask(99999, dtype=F4)], None),
        ("i2", [mask(0.5, dtype=F4)], None),
        ("f4", [mask(np.nan, dtype=F4)], None),
        # Equal as float32, but not as float64.
        ("f4", [mask(np.float64(0.1), dtype=F4)], None),
        # The conversion would round before the comparison.
        ("i4", [mask(-9, dtype=F4)], None),
        ("i8", [mask(-9)], None),
        # Missing times become the smallest integer.
        ("i2", [mask(-9, dtype=np.dtype("i8"), becomes=np.iinfo("i8").min)], None),
        # Arithmetic in another type than headrace uses.
        ("i2", [Scale(10, None, np.dtype("i8"))], None),
        ("i2", [Scale(np.float64(0.1), None, F4)], None),
        ("i2", [Scale(np.inf, None, F8)], None),
        ("i2", [Scale("0.1", None, F8)], None),
        ("i2", [Scale(True, None, F8)], None),
        ("i8", [Scale(0.1, None, F8)], None),
        ("i2", [mask(-9, dtype=F4), Scale(0.1, None, F8)], None),
        # The sign of zero.
        ("f4", [Scale(0.1, None, F8)], None),
        ("f4", [Scale(1.0, 0.0, F8)], None),
        ("f4", [Scale(0.1, 0.0, F8)], {"dtype": "float64", "scale": 0.1, "offset": 0.0}),
        ("i2", [Scale(-0.1, None, F8)], None),
        # Not numeric, or with additional steps.
        ("S3", [mask(b"")], None),
        ("?", [Scale(0.1, None, F8)], None),
        ("i1", [Cast(np.dtype("u1")), mask(255, dtype=F4)], None),
        ("i1", [Cast(np.dtype(bool))], None),
        ("i2", [], None),
    ],
)
def test_options_of_the_read(stored: str, steps: list[Any], options: Any) -> None:
    assert read_options(np.dtype(stored), steps) == options


def test_steps_are_what_xarray_computes() -> None:
    data = np.array([[1, -9, 3], [-8, 5, -128]], "i2")
    steps = (mask(-9, -8, dtype=F4), Scale(0.5, None, F4), Cast(np.dtype("f8")))
    found = Conversion(F8, {}, steps).finish(data)
    np.testing.assert_array_equal(found, [[0.5, np.nan, 1.5], [np.nan, 2.5, -64.0]])
    assert found.dtype == F8
    np.testing.assert_array_equal(Cast(np.dtype("u1"))(np.array([-1], "i1")), np.array([255], "u1"))
    assert data[0, 1] == -9


class Base(BackendArray):
    shape = (4,)
    dtype = I2

    def __getitem__(self, key: Any) -> Any:
        raise AssertionError("nothing is to be read")


def is_base(array: Any) -> bool:
    return isinstance(array, Base)


def test_layers_are_recognised_only_as_a_whole() -> None:
    base = Base()
    lazy = indexing.LazilyIndexedArray(base)
    assert steps_of(lazy, is_base) == (base, [])
    assert steps_of(BoolTypeArray(lazy), is_base) == (base, [Cast(np.dtype(bool))])
    assert steps_of(indexing.LazilyIndexedArray(BoolTypeArray(lazy)), is_base) == (base, [Cast(np.dtype(bool))])

    def double(data: Any) -> Any:
        return data * 2

    assert steps_of(lazy_elemwise_func(lazy, partial(double), I2), is_base) is None
    assert steps_of(lazy_elemwise_func(lazy, double, I2), is_base) is None
    part = lazy[indexing.BasicIndexer((slice(1, 3),))]
    assert steps_of(part, is_base) is None
    assert steps_of(indexing.LazilyIndexedArray(np.zeros(3)), is_base) is None
