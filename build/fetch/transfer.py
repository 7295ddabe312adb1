"""One try of an HTTP download into a part: what is asked, and what each answer means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urljoin, urlsplit

import requests
from requests import exceptions
from urllib3.exceptions import HTTPError, InvalidHeader
from urllib3.util import Retry

from jfinteb.build.fetch.part import Part, Wanted
from jfinteb.loaders.errors import DataError, UnavailableError

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["Transfer", "TransientError", "shown"]

_TIMEOUT = (10, 60)  # seconds to connect, and between two reads
_REDIRECTS = 5
_BLOCK = 1 << 16
_NO_ADDRESS = (exceptions.InvalidURL, exceptions.InvalidSchema, exceptions.InvalidProxyURL)
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
_HINTS = {401: "it needs a login", 403: "access is refused", 404: "no such file", 410: "it is gone"}


class TransientError(Exception):
    """A try failed in a way that another try may mend."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class _Session(requests.Session):
    """Follows few redirects, to http and https only, and never from https back to http."""

    def __init__(self) -> None:
        super().__init__()
        self.max_redirects = _REDIRECTS

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        target: str | None = super().get_redirect_target(resp)
        if target is not None:
            try:
                scheme = urlsplit(urljoin(resp.url, target)).scheme
            except ValueError:
                raise UnavailableError(
                    f"cannot get {shown(resp.url)}: it leads to what is no address"
                ) from None
            allowed = ("https",) if resp.url.startswith("https:") else ("http", "https")
            if scheme not in allowed:
                raise UnavailableError(
                    f"cannot get {shown(resp.url)}: it leads to a {scheme or 'nameless'} address, "
                    f"expected {' or '.join(allowed)}"
                )
        return target


class Transfer:
    """The download of one URL; each `run` is one try."""

    def __init__(self, url: str, wanted: Wanted, name: str, progress: Progress | None) -> None:
        self.url = url
        self.wanted = wanted
        self._session = _Session()
        self._progress = progress
        self._bar = None if progress is None else progress.add_task(name, total=wanted.size)

    def say(self, message: str) -> None:
        """Show a line above the bar."""
        if self._progress is not None:
            self._progress.console.print(message, markup=False, highlight=False, soft_wrap=True)

    def run(self, part: Part) -> None:
        """Fetch what the part lacks.

        Raises:
            TransientError: worth another try.
            UnavailableError, DataError: not worth another try.
        """
        if not self.usable(part):
            part.discard()
        if part.size and part.size == part.origin.total:
            return  # all was there when the process was stopped
        headers = {"Accept-Encoding": "identity", "User-Agent": "jfinteb"}
        if part.size:
            headers["Range"] = f"bytes={part.size}-"
            if part.origin.validator is not None:
                headers["If-Range"] = part.origin.validator
        try:
            with self._session.get(
                self.url, headers=headers, stream=True, timeout=_TIMEOUT
            ) as response:
                self._begin(response, part)
                self._receive(response, part)
        except (exceptions.RequestException, HTTPError) as error:
            self._fail(error)

    def usable(self, part: Part) -> bool:
        """Whether more bytes may be put behind those of the part."""
        total = part.origin.total if self.wanted.size is None else self.wanted.size
        if total is not None and part.size > total:
            return False
        return part.origin.validator is not None or self.wanted.sha256 is not None

    def _begin(self, response: requests.Response, part: Part) -> None:
        """Make the part ready for the bytes of this answer, or say why there are none."""
        status, validator = response.status_code, _validator(response)
        if status == 200:
            total = _length(response)
            self._check_length(response, total)
            part.restart(validator, total)
        elif status == 206 and part.size:
            start, total = _range(response)
            known = total if part.origin.total is None else part.origin.total
            same = validator in (None, part.origin.validator) and total in (None, known)
            if start != part.size or not same:
                part.discard()
                raise TransientError("the server's file has changed")
        elif status == 416 and part.size:
            part.discard()
            raise TransientError("the server's file has changed")
        elif status in _TRANSIENT:
            raise TransientError(f"HTTP {status}", _asked_wait(response))
        else:
            hint = _HINTS.get(status, "expected 200")
            raise UnavailableError(f"cannot get {shown(self.url)}: HTTP {status}, {hint}")

    def _check_length(self, response: requests.Response, total: int | None) -> None:
        if total is not None and self.wanted.size not in (None, total):
            raise DataError(
                f"{shown(self.url)}: the server's file has {total:,} bytes, expected "
                f"{self.wanted.size:,}; get the revision that the card names"
            )
        if self.wanted.sha256 is not None:
            return
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise DataError(f"{shown(self.url)}: came compressed, though asked for as it is")
        chunked = response.headers.get("Transfer-Encoding", "").lower() == "chunked"
        if total is None and not chunked and self.wanted.size is None:
            raise DataError(
                f"{shown(self.url)}: the server does not say how long the file is, so a broken "
                "download would go unseen; give its size or sha256"
            )

    def _receive(self, response: requests.Response, part: Part) -> None:
        total = part.origin.total if self.wanted.size is None else self.wanted.size
        part.append(self._blocks(response, part.size, total))
        if total is not None and part.size < total:
            raise TransientError("the connection ended early")

    def _blocks(self, response: requests.Response, done: int, total: int | None) -> Iterator[bytes]:
        for block in response.raw.stream(_BLOCK, decode_content=False):
            done += len(block)
            if total is not None and done > total:
                raise DataError(f"{shown(self.url)}: more than the expected {total:,} bytes came")
            if self._progress is not None and self._bar is not None:
                self._progress.update(self._bar, completed=done, total=total)
            yield block

    def _fail(self, error: Exception) -> NoReturn:
        """Tell what a library's error means; its own text holds the URL, so it is not shown."""
        where = f"cannot get {shown(self.url)}"
        if isinstance(error, exceptions.TooManyRedirects):
            raise UnavailableError(f"{where}: more than {_REDIRECTS} redirects") from None
        if isinstance(error, _NO_ADDRESS):
            raise UnavailableError(f"{where}: not an address ({type(error).__name__})") from None
        if isinstance(error, exceptions.SSLError):
            raise UnavailableError(f"{where}: its certificate does not hold") from None
        if isinstance(error, exceptions.Timeout):
            raise TransientError("no answer in time") from None
        if isinstance(error, exceptions.ConnectionError):
            raise TransientError("no connection") from None
        raise TransientError("the connection broke") from None


def shown(url: str) -> str:
    """A URL for messages: without user, password, query and fragment.

    >>> shown("https://me:secret@example.org:8443/a/b.zip?token=x#y")
    'https://example.org:8443/a/b.zip'
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # such as http://[::1
        return "an address that cannot be read"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _validator(response: requests.Response) -> str | None:
    """What `If-Range` may send back: a strong ETag, else the date of the last change."""
    etag: str = response.headers.get("ETag", "")
    return etag if etag.startswith('"') else response.headers.get("Last-Modified")


def _length(response: requests.Response) -> int | None:
    length = response.headers.get("Content-Length", "")
    return int(length) if length.isdecimal() else None


def _range(response: requests.Response) -> tuple[int | None, int | None]:
    """First byte and whole length that an answer 206 declares."""
    declared = response.headers.get("Content-Range", "")
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", declared.strip())
    if found is None:
        return None, None
    return int(found[1]), None if found[2] == "*" else int(found[2])


def _asked_wait(response: requests.Response) -> float | None:
    """Seconds that `Retry-After` asks for, as a number or a date."""
    header = response.headers.get("Retry-After")
    try:
        return None if header is None else Retry().parse_retry_after(header)
    except InvalidHeader:
        return None
