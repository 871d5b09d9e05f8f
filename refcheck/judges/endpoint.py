"""An OpenAI-compatible endpoint: one completion at a time, paced, bounded, within a budget, its key in nothing it says.

It knows no scene and no label. Only what makes the calls, `judges.transport`, needs the extra `judge`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, ValidationError

from refcheck.command import UserError
from refcheck.untrusted import Strict, parse_json

FATAL = ("status_401", "status_402", "status_403", "status_404")
"""No key, no money, no right, no such model: every other call would meet the same."""
BACKOFF = 0.5  # s, before a second call where the first came back as no completion; doubles

Message = Mapping[str, Any]


class CallError(OSError):
    """No reply was had: the machine's failure with a `code`, never an answer. The message holds no key."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


@dataclass(frozen=True)
class Settings:
    """Where and how calls are made. `per_minute` 0 is no limit; prices in dollars a million tokens; no secret is in here."""

    model: str
    base_url: str
    api_key_env: str = "OPENAI_API_KEY"
    timeout: float = 120.0
    max_tokens: int = 2048
    retries: int = 4
    per_minute: float = 0.0
    price_in: float = 0.0
    price_out: float = 0.0
    budget: float | None = None

    def problems(self) -> list[str]:
        """Return what is wrong with them."""
        parts = urlsplit(self.base_url)
        found = []
        if parts.scheme not in ("http", "https") or not parts.hostname:
            found.append(f"base_url={self.base_url!r}: must be an http or https address, such as https://api.openai.com/v1")
        elif parts.username or parts.password or parts.query:
            found.append(
                "base_url=: a name, a password or a query in it would be written into results; keys go into api_key_env="
            )
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.api_key_env):
            found.append("api_key_env=: must be the name of an environment variable, not a key")
        if self.budget is not None and not self.price_in and not self.price_out:
            found.append(f"budget={self.budget:g} needs price_in= and price_out=, dollars a million tokens")
        return found

    def key(self) -> str:
        """Return the key from the environment. Raises `UserError` naming the variable where it holds none that can be sent."""
        key = os.environ.get(self.api_key_env, "")
        if not key.strip():
            raise UserError(f"the environment variable {self.api_key_env} holds no key: set it (any word for a server without)")
        if not key.strip().isascii():
            raise UserError(
                f"the environment variable {self.api_key_env} holds letters that no key has: ASCII alone can be sent"
            )
        return key.strip()

    def cost(self, input_tokens: float, output_tokens: float) -> float:
        """Return dollars."""
        return (input_tokens * self.price_in + output_tokens * self.price_out) / 1e6


@dataclass(frozen=True)
class Completion:
    """What came back: the text, whether it is all of it, how many seconds it took, waiting and retries included, and `cost`.

    `cost` is in dollars, NaN where no price was given or the endpoint counted no tokens.
    """

    text: str
    complete: bool
    latency: float
    cost: float = nan


class _Message(Strict):
    content: str | None = None


class _Choice(Strict):
    message: _Message
    finish_reason: str | None = None


class _Usage(Strict):
    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)


class _Envelope(Strict):
    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None


class Endpoint:
    """Makes calls; several threads may. Counts `requests`, `input_tokens`, `output_tokens` and `spent` [$]."""

    def __init__(self, settings: Settings) -> None:
        from refcheck.judges.transport import Client  # the extra: only where calls are made

        self.settings, self._key = settings, settings.key()
        self.requests = self.input_tokens = self.output_tokens = 0
        self.unpriced = 0  # completions that came without their count of tokens
        self._lock, self._next, self._stopped = Lock(), 0.0, ""
        self._client = Client(settings, self._key, self.wait_for_turn)

    @property
    def spent(self) -> float:
        """Dollars so far, by the tokens that the endpoint counted."""
        return self.settings.cost(self.input_tokens, self.output_tokens)

    def redact(self, text: str) -> str:
        """Return `text` without the key."""
        return text.replace(self._key, "[key]")

    def complete(self, messages: Sequence[Message]) -> Completion:
        """Return a completion in JSON mode at temperature 0. Raises `CallError`.

        Transport errors, timeouts, 408, 409, 429 and 5xx are tried again by the client with growing pauses, `Retry-After` up to
        two minutes honoured; so is a response that is no completion.
        """
        begun = time.monotonic()
        for attempt in range(self.settings.retries + 1):
            if attempt:
                time.sleep(BACKOFF * 2.0 ** (attempt - 1))
            text = self._post(messages)
            try:
                told = _Envelope.model_validate(parse_json(text, halves=True))
            except (ValueError, ValidationError):
                continue
            cost, choice = self._count(told.usage), told.choices[0]
            whole = choice.finish_reason in ("stop", None)
            said = (
                (choice.message.content or "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            )  # halves of pairs
            return Completion(self.redact(said), whole, time.monotonic() - begun, cost)
        raise CallError("malformed_response", f"no completion, but {self.redact(text)[:200]!a}")

    def _post(self, messages: Sequence[Message]) -> str:
        self._may_go_on()
        try:
            body = {
                "model": self.settings.model,
                "messages": list(messages),
                "temperature": 0,
                "max_tokens": self.settings.max_tokens,
                "response_format": {"type": "json_object"},
            }
            return self._client.post(body)
        except CallError as error:
            said = CallError(error.code, self.redact(error.message)[:300])
            if error.code in FATAL:
                self._stopped = str(said)
            raise said from None

    def close(self) -> None:
        """Give the connections up."""
        self._client.close()

    def _may_go_on(self) -> None:
        if self._stopped:
            raise CallError("stopped", f"not asked, since an earlier call met {self._stopped}")
        budget = self.settings.budget
        if budget is not None and self.spent >= budget:
            raise CallError("budget", f"${self.spent:.2f} of budget={budget:g} are spent")

    def _count(self, usage: _Usage | None) -> float:
        """Add tokens up, and return what they cost [$]; NaN where that is not known."""
        with self._lock:
            if usage is None:
                self.unpriced += 1
                return nan
            self.input_tokens += usage.prompt_tokens
            self.output_tokens += usage.completion_tokens
        priced = self.settings.price_in or self.settings.price_out
        return self.settings.cost(usage.prompt_tokens, usage.completion_tokens) if priced else nan

    def wait_for_turn(self) -> None:
        """Return when the next request may go out; requests are `per_minute` apart, whichever thread makes them."""
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next)
            if self.settings.per_minute:
                self._next = turn + 60.0 / self.settings.per_minute
            self.requests += 1
        time.sleep(turn - now)
