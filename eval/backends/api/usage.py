"""Tokens and what they cost, before and after."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Estimate", "Usage"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is to be paid for some texts.

    Attributes:
        texts: to send; blank, repeated and kept ones are not.
        tokens: as they will be sent, cut ones cut.
        exact: whether the tokens are the server's, or a guess from characters.
        price: of a million tokens; 0: not known.
    """

    texts: int
    tokens: int
    exact: bool
    price: float

    @property
    def cost(self) -> float | None:
        """In the currency of the price; None where that is not known."""
        return self.tokens * self.price / 1e6 if self.price else None

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(
            self.texts + other.texts,
            self.tokens + other.tokens,
            self.exact and other.exact,
            self.price,
        )

    def __str__(self) -> str:
        about = "" if self.exact else "about "
        cost = "" if self.cost is None else f", {_money(self.cost)} at {self.price:g} a million"
        return f"{about}{self.tokens:,} tokens in {self.texts:,} texts to send{cost}"


@dataclass(slots=True)
class Usage:
    """What has been asked and answered so far.

    Attributes:
        requests: that were answered.
        texts: in them.
        counted: their tokens by our count.
        reported: their tokens by the server's.
        silent: requests for which the server reported no tokens.
        price: of a million tokens; 0: not known.
        exact: whether our count is more than a guess.
    """

    requests: int = 0
    texts: int = 0
    counted: int = 0
    reported: int = 0
    silent: int = 0
    price: float = 0.0
    exact: bool = True

    @property
    def cost(self) -> float | None:
        """By the server's count where there is one, else by ours."""
        tokens = self.counted if self.silent else self.reported
        return tokens * self.price / 1e6 if self.price else None

    def add(self, texts: int, counted: int, reported: int | None) -> None:
        """Enter an answered request."""
        self.requests += 1
        self.texts += texts
        self.counted += counted
        self.reported += reported or 0
        self.silent += reported is None

    def __str__(self) -> str:
        ours = f"{self.counted:,} tokens by our count" + ("" if self.exact else " (a guess)")
        theirs = f"{self.reported:,} by the server's" if not self.silent else "none reported"
        cost = "" if self.cost is None else f"; {_money(self.cost)} at {self.price:g} a million"
        return f"{self.texts:,} texts in {self.requests:,} requests: {ours}, {theirs}{cost}"


def _money(amount: float) -> str:
    return f"{amount:,.2f}" if amount >= 1 else f"{amount:.4f}"
