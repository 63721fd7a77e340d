"""The axes of a suite and its cases: one point of the axes, with a readable and stable id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Scalar = str | int | float | bool


@dataclass(frozen=True)
class Axis:
    """A named axis with scalar values.

    Args:
        name: the field's standard term (`seq_len`).
        short: how a value is written in a case id; `{}` stands for the value (`s{}`).
            For booleans, the two words as `causal|full` (true first).
        type: the Python type of a value.
        choices: allowed values, or empty for any.
        minimum: the least allowed value of a number.
        unit: shown on charts (`tokens`).
        scale: how a chart draws it.
    """

    name: str
    short: str
    type: type[str] | type[int] | type[float] | type[bool] = int
    choices: tuple[Scalar, ...] = ()
    minimum: int | float | None = None
    unit: str = ""
    scale: Literal["log", "linear", "category"] = "category"

    def parse(self, text: str) -> Scalar:
        """The value that a command line or sweep file wrote as text; ValueError where it is not allowed."""
        if self.type is bool:
            words = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
            if text.lower() not in words:
                raise ValueError(f"{self.name}={text!r}: allowed are true, false")
            return words[text.lower()]
        try:
            return self.check(self.type(text))
        except ValueError as error:
            if str(error).startswith(self.name):
                raise
            raise ValueError(f"{self.name}={text!r}: not {_article(self.type)}") from None

    def check(self, value: object) -> Scalar:
        """`value` itself where this axis allows it; ValueError otherwise."""
        right = isinstance(value, self.type) and (self.type is bool or not isinstance(value, bool))
        if self.type is float and isinstance(value, int) and not isinstance(value, bool):
            value, right = float(value), True
        if not right or not isinstance(value, (str, int, float, bool)):
            raise ValueError(f"{self.name}={value!r}: not {_article(self.type)}")
        if self.choices and value not in self.choices:
            raise ValueError(f"{self.name}={value!r}: allowed are {', '.join(map(str, self.choices))}")
        if self.minimum is not None and isinstance(value, (int, float)) and value < self.minimum:
            raise ValueError(f"{self.name}={value!r}: must be at least {self.minimum}")
        return value

    def write(self, value: Scalar) -> str:
        """The value as it stands in a case id."""
        if self.type is bool:
            true, false = self.short.split("|")
            return true if value else false
        return self.short.format(value)


def _article(kind: type) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}[kind]


@dataclass(frozen=True)
class Case:
    """One point of a suite's axes, with a readable and stable id such as `b1-h8-s4096-d64-causal-fp32`."""

    suite: str
    axes: tuple[tuple[str, Scalar], ...]
    id: str

    def __getitem__(self, name: str) -> Scalar:
        for axis, value in self.axes:
            if axis == name:
                return value
        raise KeyError(name)

    def number(self, name: str) -> int:
        """The value of a whole-number axis."""
        value = self[name]
        if not isinstance(value, int):
            raise TypeError(f"{name}={value!r} is not a whole number")
        return value

    def word(self, name: str) -> str:
        """The value of an axis of words."""
        return str(self[name])

    def flag(self, name: str) -> bool:
        """The value of a true-or-false axis."""
        return bool(self[name])
