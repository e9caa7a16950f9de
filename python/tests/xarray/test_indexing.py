"""Selections through xarray equal NumPy's selections of the whole array."""

from __future__ import annotations

import asyncio
import concurrent.futures
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.xarray._indexing import Plan, plan_orthogonal, plan_vectorized

SIZES = {"a": 6, "b": 5, "c": 7}
BOUNDED = settings(
    max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def whole() -> np.ndarray[Any, Any]:
    return np.arange(6 * 5 * 7, dtype="i4").reshape(6, 5, 7)


@pytest.fixture(scope="module")
def lazy(tmp_path_factory: pytest.TempPathFactory, engine: Any) -> xr.Dataset:
    path = tmp_path_factory.mktemp("indexing") / "a.zarr"
    variables = {"v": (tuple(SIZES), whole()), "line": ("c", np.arange(7.0)), "point": ((), 3)}
    dataset = xr.Dataset(variables, coords={"c": np.arange(7) * 10})
    dataset.to_zarr(path, zarr_format=2, encoding={"v": {"chunks": (4, 2, 3)}})
    return xr.open_dataset(path, engine=engine, cache=False, mask_and_scale=False)


def numbers(size: int) -> st.SearchStrategy[int]:
    return st.integers(-size, size - 1)


def slices(size: int) -> st.SearchStrategy[slice]:
    # No start before the first element: xarray's lazy arrays treat it as the last one if the step is negative.
    bounds = st.none() | st.integers(-size, size + 2)
    return st.builds(slice, bounds, bounds, st.none() | st.sampled_from([1, 2, 3, -1, -2, -3]))


def lists(size: int) -> st.SearchStrategy[Any]:
    return st.lists(numbers(size), min_size=0, max_size=5).map(lambda found: np.array(found, dtype=np.int64))


def masks(size: int) -> st.SearchStrategy[Any]:
    return st.lists(st.booleans(), min_size=size, max_size=size).map(lambda found: np.array(found, dtype=bool))


def any_indexer(size: int) -> st.SearchStrategy[Any]:
    return numbers(size) | slices(size) | lists(size) | masks(size)


@st.composite
def selections(draw: st.DrawFn) -> dict[str, Any]:
    """Orthogonal indexers of some of the dimensions."""
    names = draw(st.sets(st.sampled_from(sorted(SIZES))))
    return {name: draw(any_indexer(SIZES[name])) for name in names}


@st.composite
def pointwise(draw: st.DrawFn) -> dict[str, Any]:
    """Vectorized indexers, which share dimensions of the result."""
    shape = draw(st.sampled_from([(3,), (2, 2), (1,), (0,), (2, 1)]))
    dims = ("p", "q")[: len(shape)]
    names = draw(st.sets(st.sampled_from(sorted(SIZES)), min_size=1))
    found: dict[str, Any] = {}
    for name in names:
        own = draw(st.sampled_from([dims, dims[:1], dims[-1:], ("other_" + name,)]))
        own_shape = tuple(3 if dim.startswith("other") else shape[dims.index(dim)] for dim in own)
        count = int(np.prod(own_shape))
        values = draw(st.lists(numbers(SIZES[name]), min_size=count, max_size=count))
        found[name] = xr.Variable(own, np.array(values, dtype=np.int64).reshape(own_shape))
    rest = sorted(set(SIZES) - names)
    for name in rest:
        if draw(st.booleans()):
            found[name] = draw(slices(SIZES[name]))
    return found


def assert_selects(lazy: xr.Dataset, steps: list[dict[str, Any]]) -> None:
    expected = xr.Variable(tuple(SIZES), whole())
    found = lazy["v"].variable
    for step in steps:
        step = {name: key for name, key in step.items() if name in expected.dims}
        expected, found = expected.isel(step), found.isel(step)
    assert found.dims == expected.dims
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.values, expected.values)
    assert found.values.dtype == np.int32


@given(step=selections())
@BOUNDED
def test_basic_and_outer(lazy: xr.Dataset, step: dict[str, Any]) -> None:
    assert_selects(lazy, [step])


@given(step=pointwise())
@BOUNDED
def test_vectorized(lazy: xr.Dataset, step: dict[str, Any]) -> None:
    assert_selects(lazy, [step])


@given(first=st.fixed_dictionaries({}, optional={name: slices(size) for name, size in SIZES.items()}), second=pointwise())
@BOUNDED
def test_vectorized_of_a_part(lazy: xr.Dataset, first: dict[str, Any], second: dict[str, Any]) -> None:
    expected = xr.Variable(tuple(SIZES), whole()).isel(first)
    second = {
        name: key % max(expected.sizes[name], 1) if isinstance(key, xr.Variable) else key for name, key in second.items()
    }
    if any(expected.sizes[name] == 0 and isinstance(key, xr.Variable) and key.size for name, key in second.items()):
        return
    assert_selects(lazy, [first, second])


@given(data=st.data())
@BOUNDED
def test_slices_of_slices(lazy: xr.Dataset, data: st.DataObject) -> None:
    steps: list[dict[str, Any]] = []
    left = xr.Variable(tuple(SIZES), whole())
    for _ in range(3):
        optional = {name: slices(size) for name, size in left.sizes.items() if size}
        steps.append(data.draw(st.fixed_dictionaries({}, optional=optional)))
        left = left.isel(steps[-1])
    assert_selects(lazy, steps)


def test_transposed_before_it_is_read(lazy: xr.Dataset) -> None:
    found = lazy["v"].variable.isel(a=[3, 1]).transpose("c", "a", "b")
    np.testing.assert_array_equal(found.values, whole()[[3, 1]].transpose(2, 0, 1))


def test_by_label(lazy: xr.Dataset) -> None:
    np.testing.assert_array_equal(lazy["v"].sel(c=[60, 0]).values, whole()[:, :, [6, 0]])
    np.testing.assert_array_equal(lazy["v"].sel(c=slice(10, 30), a=2).values, whole()[2][:, 1:4])
    assert lazy["point"].item() == 3


@pytest.mark.parametrize("index", [{"a": 6}, {"b": [0, 5]}, {"c": xr.Variable("p", [0, 9])}])
def test_out_of_range(lazy: xr.Dataset, index: dict[str, Any]) -> None:
    with pytest.raises(IndexError):
        lazy["v"].isel(index).load()


# ---- plans, executed by NumPy instead of headrace ----


def read(data: np.ndarray[Any, Any], plan: Plan) -> np.ndarray[Any, Any]:
    """Executes a plan as headrace would."""
    if plan.indexing == "points":
        result = data[tuple(np.asarray(key) for key in plan.selection)]
    else:
        result = data
        for axis in reversed(range(data.ndim)):
            key = plan.selection[axis]
            if isinstance(key, slice):
                assert 0 <= key.start <= key.stop <= data.shape[axis] and key.step >= 1
            elif isinstance(key, np.ndarray):
                assert key.ndim == 1 and (key >= 0).all()
            result = result[(slice(None),) * axis + (key,)]
    assert result.shape == plan.shape
    return np.asarray(plan.finish(result))


def test_arrays_along_axes_of_their_own_are_read_as_a_box() -> None:
    data = whole()
    rows, columns = np.array([[4], [1]]), np.array([[0, 3, 6]])
    plan = plan_vectorized((rows, slice(None, None, -1), columns), data.shape)
    assert plan.indexing == "orthogonal"
    np.testing.assert_array_equal(read(data, plan), data[rows, :, columns][..., ::-1])
    swapped = plan_vectorized((rows.T, columns.T % 5, slice(1, 2)), data.shape)
    assert swapped.indexing == "orthogonal"
    np.testing.assert_array_equal(read(data, swapped), data[rows.T, columns.T % 5][..., 1:2])


def test_arrays_that_share_an_axis_are_read_as_points() -> None:
    data = whole()
    key = (np.array([[0, 1], [5, 2]]), np.array([1, 4]), slice(6, None, -3))
    plan = plan_vectorized(key, data.shape)
    assert plan.indexing == "points"
    np.testing.assert_array_equal(read(data, plan), data[key[0], key[1]][..., ::-3])


def test_evenly_spaced_lists_are_slices() -> None:
    plan = plan_orthogonal((np.array([1, 3, 5]), np.array([4]), np.array([-7, -6])), (6, 5, 7))
    assert plan.selection == (slice(1, 6, 2), slice(4, 5, 1), slice(0, 2, 1))
    uneven = plan_orthogonal((np.array([1, 3, 4]), np.array([2, 2]), np.array([3, 2])), (6, 5, 7)).selection
    assert all(isinstance(key, np.ndarray) for key in uneven)


@pytest.mark.parametrize("key", [(0, 0), (0, 0, 0, 0)])
def test_wrong_number_of_indexers(key: tuple[Any, ...]) -> None:
    with pytest.raises(IndexError, match="indexers"):
        plan_orthogonal(key, (6, 5, 7))


def test_indices_that_are_no_integers() -> None:
    with pytest.raises(IndexError, match="integers"):
        plan_orthogonal((np.array([0.5]),), (6,))


# ---- threads and tasks ----


def test_many_threads_read_one_variable(lazy: xr.Dataset) -> None:
    data = whole()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda n: lazy["v"].isel(a=n % 6).values, range(60)))
    for n, row in enumerate(rows):
        np.testing.assert_array_equal(row, data[n % 6])


def test_load_async(tmp_path: Path, engine: Any) -> None:
    if not hasattr(xr.Dataset, "load_async"):
        pytest.skip("this xarray has no load_async")
    path = tmp_path / "a.zarr"
    xr.Dataset({"v": (tuple(SIZES), whole()), "w": ("c", np.arange(7.0))}).to_zarr(path, zarr_format=2)
    dataset = xr.open_dataset(path, engine=engine)

    async def load() -> list[Any]:
        parts = [
            dataset["v"].isel(a=slice(None, None, -2)).load_async(),
            dataset["v"].isel(a=[0, 3], c=[1, 6]).load_async(),
            dataset["v"].isel(a=xr.Variable("p", [0, 3]), c=xr.Variable("p", [1, 6])).load_async(),
            dataset.load_async(),
        ]
        return list(await asyncio.gather(*parts))

    backwards, outer, points, everything = asyncio.run(load())
    np.testing.assert_array_equal(backwards.values, whole()[::-2])
    np.testing.assert_array_equal(outer.values, whole()[[0, 3]][:, :, [1, 6]])
    np.testing.assert_array_equal(points.transpose("p", "b").values, whole()[[0, 3], :, [1, 6]])
    np.testing.assert_array_equal(everything["w"].values, np.arange(7.0))
    assert everything["v"].variable._in_memory
