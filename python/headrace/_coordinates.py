"""Coordinates along a dimension: stored next to an array, decoded by the CF conventions if they are times, in a comparable form."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._errors import InvalidArgumentError

_EPOCH = "microseconds since 1970-01-01"
_GREGORIAN_FROM_US = int(np.datetime64("1582-10-15", "us").astype(np.int64))  # the standard calendar is Julian before this date
_UNIT_US = {unit: factor for units, factor in [
    (("microseconds", "microsecond", "microsec", "microsecs", "us"), 1), (("milliseconds", "millisecond", "millisec", "millisecs", "msec", "msecs", "ms"), 10**3),
    (("seconds", "second", "sec", "secs", "s"), 10**6), (("minutes", "minute", "min", "mins"), 60 * 10**6),
    (("hours", "hour", "hr", "hrs", "h"), 3600 * 10**6), (("days", "day", "d"), 86400 * 10**6)] for unit in units}
_CALENDARS = {"gregorian": "standard", "365_day": "noleap", "366_day": "all_leap"}
_DATE = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2})(?:[T ]+(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?)?\s*(?:Z|UTC|GMT|([+-])(\d{1,2})(?::?(\d{2}))?)?")


@dataclass(frozen=True)
class Coordinate:
    """The coordinate value of each index along one dimension of one array."""

    values: np.ndarray[Any, Any]  #: for display: numbers, text, datetime64, or cftime objects
    keys: np.ndarray[Any, Any]  #: for comparison: numbers, text, or microseconds in the calendar
    calendar: str  #: of times, "gregorian" if datetime64 can hold them; "" for all else
    where: str  #: for error messages: "'time' of 't2m' (/data/era5.zarr)"

    @property
    def is_time(self) -> bool:
        return bool(self.calendar)

    def __len__(self) -> int:
        return len(self.keys)


def coordinate_of(values: Any, where: str, attributes: dict[str, Any] | None = None) -> Coordinate:
    """Makes a Coordinate of stored or given values. Raises InvalidArgumentError for missing values and times of unknown units."""
    values = np.asarray(values)
    if values.ndim != 1:
        raise InvalidArgumentError(f"coordinate {where} has {values.ndim} dimensions; one for each index along its own is needed")
    attributes = attributes or {}
    units = attributes.get("units")
    if values.dtype.kind in "iuf":
        values = _unpacked(values, attributes, where)
        if isinstance(units, str) and re.search(r"\bsince\b", units):
            return _times(values, units, str(attributes.get("calendar", "standard")).lower(), where)
        return Coordinate(values, values, "", where)
    if values.dtype.kind == "M":
        _refuse_absent(np.isnat(values), where)
        values = values.astype("datetime64[us]")
        return Coordinate(values, values.astype(np.int64), "gregorian", where)
    if values.dtype.kind == "O" and len(values) and hasattr(values[0], "calendar"):
        return _of_cftime(values, where)
    if values.dtype.kind in "OUST":
        if not all(isinstance(value, str | bytes) for value in values.tolist()):
            raise InvalidArgumentError(f"coordinate {where} contains values other than numbers, times and text")
        values = values.astype(str)
        return Coordinate(values, values, "", where)
    raise InvalidArgumentError(f"coordinate {where} is of type {values.dtype}; numbers, times and text can be compared")


def _refuse_absent(absent: np.ndarray[Any, Any], where: str) -> None:
    if absent.any():
        raise InvalidArgumentError(f"coordinate {where} has no value at index {int(np.argmax(absent))}: give coordinates= without missing values")


def _unpacked(values: np.ndarray[Any, Any], attributes: dict[str, Any], where: str) -> np.ndarray[Any, Any]:
    absent = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
    for name in ("_FillValue", "missing_value"):
        if isinstance(attributes.get(name), int | float):
            absent = absent | (values == attributes[name])
    _refuse_absent(absent, where)
    scale, offset = attributes.get("scale_factor", 1), attributes.get("add_offset", 0)
    if (scale, offset) != (1, 0):
        values = values * np.float64(scale) + np.float64(offset)
    return values


def _cftime(where: str, calendar: str) -> Any:
    try:
        import cftime
    except ImportError:
        raise ImportError(f"coordinate {where} has times of the {calendar} calendar, which need cftime: pip install cftime") from None
    return cftime


def _times(numbers: np.ndarray[Any, Any], units: str, calendar: str, where: str) -> Coordinate:
    calendar = _CALENDARS.get(calendar, calendar)
    unit, _, since = (part.strip() for part in re.split(r"\b(since)\b", units, maxsplit=1))
    date = _DATE.fullmatch(since)
    nanoseconds = unit in ("nanoseconds", "nanosecond", "ns")
    if (unit not in _UNIT_US and not nanoseconds) or date is None:
        raise InvalidArgumentError(f"coordinate {where} has the units {units!r}; times are 'days since 1970-01-01' and the like, from "
                                   "days to nanoseconds")
    year, month, day, hour, minute, second = (int(part or 0) for part in date.groups()[:6])
    shift = 60 * int(date[9] or 0) + int(date[10] or 0)  # time zone offset in minutes
    begin_us = -shift * 60 * 10**6 * (-1 if date[8] == "-" else 1) + int((date[7] or "0").ljust(6, "0")[:6])
    try:
        if calendar == "proleptic_gregorian" or (calendar == "standard" and (year, month, day) >= (1582, 10, 15)):
            begin = np.datetime64(f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}", "us")
            begin_us += int(begin.astype(np.int64))
        else:
            cftime = _cftime(where, calendar)
            begin_us += int(cftime.date2num(cftime.datetime(year, month, day, hour, minute, second, calendar=calendar), _EPOCH, calendar))
    except ValueError as error:
        raise InvalidArgumentError(f"coordinate {where}: units {units!r}, calendar {calendar!r}: {error}") from None
    keys = _microseconds(numbers, _UNIT_US.get(unit, 1), 1000 if nanoseconds else 1, begin_us, where)
    return _of_keys(keys, calendar, where)


def _microseconds(numbers: np.ndarray[Any, Any], factor: int, divisor: int, begin_us: int, where: str) -> np.ndarray[Any, Any]:
    """numbers * factor / divisor + begin_us, exactly for integers."""
    largest = max((abs(float(number)) for number in (numbers.min(), numbers.max())), default=0.0) if len(numbers) else 0.0
    if largest >= 2.0**63 or largest * factor / divisor + abs(begin_us) >= 2.0**62:
        raise InvalidArgumentError(f"coordinate {where} has times beyond what microseconds in 64 bits hold")
    if numbers.dtype.kind == "f":
        return np.rint(numbers.astype(np.float64) * (factor / divisor)).astype(np.int64) + begin_us
    return numbers.astype(np.int64) * factor // divisor + begin_us


def _of_keys(keys: np.ndarray[Any, Any], calendar: str, where: str) -> Coordinate:
    if calendar == "proleptic_gregorian" or (calendar == "standard" and (not len(keys) or keys.min() >= _GREGORIAN_FROM_US)):
        return Coordinate(keys.astype("datetime64[us]"), keys, "gregorian", where)
    cftime = _cftime(where, calendar)
    return Coordinate(np.asarray(cftime.num2date(keys, _EPOCH, calendar, only_use_cftime_datetimes=True)), keys, calendar, where)


def _of_cftime(values: np.ndarray[Any, Any], where: str) -> Coordinate:
    calendar = _CALENDARS.get(values[0].calendar, values[0].calendar)
    cftime = _cftime(where, calendar)
    try:
        keys = np.asarray(cftime.date2num(values, _EPOCH, calendar)).astype(np.int64)
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidArgumentError(f"coordinate {where}: {error}") from None
    return _of_keys(keys, calendar, where)
