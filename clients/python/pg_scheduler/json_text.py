"""JSON as the ledger has it: numbers keep all their digits in both directions, or it is an error."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any, Callable, Literal, Mapping, Optional, Union

#: How a payload's text becomes an object: "number", "decimal", or a function of yours that gets the text.
Json = Union[Literal["number", "decimal"], Callable[[str], Any]]


def reader_of(json_option: Json) -> Callable[[str], Any]:
    """Raises ValueError where there is no such reader."""
    if callable(json_option):
        return json_option
    if json_option == "number":
        return json.JSONDecoder(parse_float=_exact_float).decode  # json.loads would make one for each payload
    if json_option == "decimal":
        return json.JSONDecoder(parse_float=Decimal).decode
    raise ValueError(f'json is "number", "decimal" or a function, not {json_option!r}')


def _exact_float(text: str) -> float:
    """A float that is written as this text, by value: 1.50 and 1e3 are fine."""
    number = float(text)
    if Decimal(repr(number)) != Decimal(text):
        raise ValueError(f'the number {text[:50]} loses digits as a float: take json="decimal"')
    return number


def dumps(value: object) -> str:
    """JSON text; a Decimal becomes a number with all its digits. Raises TypeError or ValueError for what JSON cannot hold."""
    try:
        return json.dumps(value, allow_nan=False, default=_refuse)
    except _HasDecimal:
        return _written(value)


class _HasDecimal(Exception):
    pass


def _refuse(value: object) -> object:
    if isinstance(value, Decimal):
        raise _HasDecimal
    raise TypeError(f"JSON has no {type(value).__name__}: {value!r}")


def _written(value: object) -> str:
    """The module json writes no Decimal, so what holds one is written here."""
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"JSON has no such number: {value}")
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)}: {_written(part)}" for key, part in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_written, value)) + "]"
    return json.dumps(value, allow_nan=False, default=_refuse)


def _key(key: object) -> str:
    if isinstance(key, str):
        return json.dumps(key)
    if key is None or isinstance(key, (bool, int, float)):
        return json.dumps(json.dumps(key, allow_nan=False))
    raise TypeError(f"keys of JSON are texts, not {type(key).__name__}")


def json_object(payload: Optional[Mapping[str, Any]]) -> dict[str, Any]:
    """Raises TypeError where a payload is no JSON object."""
    if payload is None:
        return {}
    if not isinstance(payload, Mapping):
        raise TypeError(f"a payload is a JSON object (a dict), not {type(payload).__name__}: {payload!r:.100}")
    return dict(payload)


def maker_of(payload: Optional[Callable[..., Any]]) -> Optional[Callable[[Any], Any]]:
    """How a payload's JSON becomes what the handler gets: a dataclass is made from the keys that it knows, anything else is called with it."""
    if is_dataclass(payload):
        return lambda value: payload(**{part.name: value[part.name] for part in fields(payload) if part.name in value})
    return payload
