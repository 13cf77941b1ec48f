"""A calculator as a tool: an own grammar with hard limits, and nothing that could run text as code."""

from __future__ import annotations

import re

from ada_lightning.core.protocols.environment import End, Environment, Say
from ada_lightning.core.records import Completion

MAX_CHARS = 64
MAX_OPERANDS = 16
MAX_DIGITS = 12
MAX_DEPTH = 8
_CALL = re.compile(r"calc:([^\n]*)")
_TOKEN = re.compile(r"\s*(?:([0-9]+)|([-+*()]))")


class UnreadableError(ValueError):
    """No expression that the calculator takes."""


class Calculator(Environment):
    """Answers ``calc: 412 + 87`` by ``result: 499``; a turn without a call ends the episode, for the reward to grade.

    Of several calls in a turn the first counts. What it cannot read it answers by ``error: cannot read``.
    """

    def turn(self, said: Completion) -> Say | End:
        """Carry out a call, or end."""
        call = _CALL.search(said.text)
        if call is None:
            return End()
        try:
            return Say(f"result: {calculate(call[1])}", num_calls=1)
        except UnreadableError:
            return Say("error: cannot read", num_calls=1, num_call_errors=1)


def calculate(text: str) -> int:
    """Compute ``+ - * ( )`` over whole numbers, by recursive descent.

    Args:
        text: at most 64 characters, 16 numbers of at most 12 digits, and 8 brackets within each other.

    Raises:
        UnreadableError: it is anything else.

    Example:
        >>> calculate("412 + 87 + 935"), calculate("-2 * (3 - 5)")
        (1434, 4)
    """
    return _Parser(text).value()


class _Parser:
    def __init__(self, text: str) -> None:
        if len(text) > MAX_CHARS:
            raise UnreadableError(f"longer than {MAX_CHARS} characters")
        self._tokens: list[str] = []
        text = text.strip()
        place = 0
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None:
                raise UnreadableError(f"cannot read {text[place:]!r}")
            self._tokens.append(found[1] or found[2])
            place = found.end()
        numbers = [token for token in self._tokens if token.isdecimal()]
        if len(numbers) > MAX_OPERANDS or any(len(number) > MAX_DIGITS for number in numbers):
            raise UnreadableError("too many or too long numbers")
        self._place = self._depth = 0

    def value(self) -> int:
        result = self._sum()
        if self._place < len(self._tokens):
            raise UnreadableError("something is left over")
        return result

    def _sum(self) -> int:
        result = self._product()
        while (operator := self._take("+", "-")) is not None:
            other = self._product()
            result = result + other if operator == "+" else result - other
        return result

    def _product(self) -> int:
        result = self._factor()
        while self._take("*") is not None:
            result *= self._factor()
        return result

    def _factor(self) -> int:
        self._depth += 1
        try:
            if self._depth > MAX_DEPTH:
                raise UnreadableError("too deep")
            if self._take("-") is not None:
                return -self._factor()
            if self._take("(") is not None:
                result = self._sum()
                if self._take(")") is None:
                    raise UnreadableError("a bracket is not closed")
                return result
            return self._number()
        finally:
            self._depth -= 1

    def _number(self) -> int:
        token = self._tokens[self._place] if self._place < len(self._tokens) else ""
        if not token.isdecimal():
            raise UnreadableError("a number is missing")
        self._place += 1
        return int(token)

    def _take(self, *wanted: str) -> str | None:
        if self._place < len(self._tokens) and self._tokens[self._place] in wanted:
            self._place += 1
            return self._tokens[self._place - 1]
        return None
