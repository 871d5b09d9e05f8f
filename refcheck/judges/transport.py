"""What sends a request to an OpenAI-compatible endpoint: the `openai` package, its pauses and retries, within bounds.

It knows no prompt and no budget. Needs the extra `judge`.
"""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from refcheck.command import UserError
from refcheck.judges.endpoint import CallError, Settings

try:
    import httpx2
    import openai
except ImportError as missing:
    raise UserError(
        f"judge=vlm needs the extra `judge` ({missing.name} is missing): pip install 'quincunx[judge]'"
    ) from missing

MAXIMUM_REPLY = 1 << 20
"""Bytes of a response: a reply of 2,048 tokens with its envelope takes a hundredth of it."""


class Client:
    """Posts chat completions. `turn` returns when a request, the first or a retry, may go out."""

    def __init__(self, settings: Settings, key: str, turn: Callable[[], None]) -> None:
        self._settings = settings
        self._client = openai.OpenAI(
            api_key=key,
            base_url=settings.base_url,
            timeout=settings.timeout,
            max_retries=settings.retries,
            http_client=openai.DefaultHttpxClient(transport=_Bounded(settings, turn), follow_redirects=False),
        )

    def post(self, body: Mapping[str, Any]) -> str:
        """Return the body of a response. Raises `CallError`, which may hold what the endpoint said of the key."""
        try:
            return self._client.post("/chat/completions", cast_to=httpx2.Response, body=body).text
        except openai.APITimeoutError as error:
            raise CallError("timeout", f"no whole response within {self._settings.timeout:g} s") from error
        except openai.APIStatusError as error:
            raise CallError(f"status_{error.status_code}", error.message) from None
        except openai.APIConnectionError as error:
            raise CallError("connection", str(error.__cause__ or error)) from error

    def close(self) -> None:
        """Give the connections up."""
        self._client.close()


class _Bounded(httpx2.HTTPTransport):
    """Sends each request in its turn, and bounds what comes back in bytes and in seconds, however it trickles."""

    def __init__(self, settings: Settings, turn: Callable[[], None]) -> None:
        self._timeout, self._turn = settings.timeout, turn
        parts = urlsplit(settings.base_url)
        proxied = not urllib.request.proxy_bypass(parts.hostname or "")
        super().__init__(proxy=urllib.request.getproxies().get(parts.scheme) if proxied else None)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request, retries among them."""
        self._turn()
        deadline = time.monotonic() + self._timeout
        response = super().handle_request(request)
        response.stream = _Stream(response.stream, deadline)  # type: ignore[arg-type]
        return response


@dataclass
class _Stream(httpx2.SyncByteStream):
    """A body that ends in an error once it is late or too large; a single read waits for at most the timeout."""

    stream: httpx2.SyncByteStream
    deadline: float

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for part in self.stream:
            size += len(part)
            if size > MAXIMUM_REPLY:
                raise httpx2.ReadError(f"the response is larger than {MAXIMUM_REPLY} bytes")
            if time.monotonic() > self.deadline:
                raise httpx2.ReadTimeout("the response came too slowly")
            yield part

    def close(self) -> None:
        """Give the connection up."""
        self.stream.close()
