"""Where the server is and what opens it. Keys come from the environment and are never shown."""

from __future__ import annotations

import base64
import json
import os
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field

from jfinteb.eval.backends.api.settings import ApiSettings
from jfinteb.loaders.errors import UsageError

__all__ = ["OPENAI", "Access", "access_of"]

OPENAI = "api.openai.com"
_DEFAULT = f"https://{OPENAI}/v1"
_AZURE = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
_HIDDEN = "[hidden]"


@dataclass(frozen=True, slots=True)
class Access:
    """The address of a server without user and password, and what is sent to be let in.

    Attributes:
        url: root of the interface; no credentials, no query.
        azure: whether requests are formed in Azure's way.
        paid: whether it is OpenAI or Azure, which take no request without a key.
        api_version: of Azure's interface, else empty.
        key: empty if there is none.
        headers: that take the key's place: user and password of the address.
        key_names: environment variables that were looked at, for a message.
    """

    url: str
    azure: bool
    paid: bool
    api_version: str
    key: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    key_names: tuple[str, ...]
    _secrets: tuple[str, ...] = field(repr=False)

    @property
    def server(self) -> str:
        """Host, port and path: what a result tells."""
        parts = urllib.parse.urlsplit(self.url)
        return (parts.netloc + parts.path).rstrip("/")

    def redacted(self, text: str) -> str:
        """Text in which key, user and password are hidden, however a server spelled them."""
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        return text


def access_of(settings: ApiSettings) -> Access:
    """Settle address and key.

    A key goes only to the server that it is for: `OPENAI_API_KEY` to OpenAI (or to
    `OPENAI_BASE_URL`, which is set beside it), `AZURE_OPENAI_API_KEY` to Azure. `JFINTEB_API_KEY`
    goes to whatever server the settings name, and comes first.

    Raises:
        UsageError: an address or a key that cannot be used.
    """
    azure = bool(settings.azure_deployment or settings.api_version)
    asked = settings.base_url or (os.environ.get("AZURE_OPENAI_ENDPOINT", "") if azure else "")
    if azure and not asked:
        raise UsageError("Azure needs the address of the resource; give --base-url")
    version = (settings.api_version or os.environ.get("OPENAI_API_VERSION", "")) if azure else ""
    if azure and not version:
        raise UsageError("Azure needs a version of its interface; give --api-version")
    url, user, password = _split(asked or os.environ.get("OPENAI_BASE_URL", "") or _DEFAULT)
    host = urllib.parse.urlsplit(url).hostname or ""
    at_azure = azure or host.endswith(_AZURE)
    names = ["JFINTEB_API_KEY"]
    if at_azure:
        names.append("AZURE_OPENAI_API_KEY")
    elif host == OPENAI or not asked:
        names.append("OPENAI_API_KEY")
    key = next((k for k in (os.environ.get(n, "").strip() for n in names) if k), "")
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"the key in {' or '.join(names)} has characters that no key has")
    headers = {}
    if user or password:
        basic = base64.b64encode(f"{user}:{password}".encode()).decode()
        headers["Authorization"] = f"Basic {basic}"
        secrets = [basic, f"{user}:{password}", password or user]
    else:
        secrets = []
    return Access(
        url=url,
        azure=azure,
        paid=at_azure or host == OPENAI,
        api_version=version,
        key=key,
        headers=headers,
        key_names=tuple(names),
        _secrets=_spellings([*secrets, key]),
    )


def _split(address: str) -> tuple[str, str, str]:
    """The address without credentials, user and password."""
    try:
        parts = urllib.parse.urlsplit(address.strip())
        port = parts.port
    except ValueError:
        parts, port = urllib.parse.SplitResult("", "", "", "", ""), None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        # not shown: what is wrong with it may be where its password ends
        raise UsageError("base-url is not an address such as http://localhost:8000/v1")
    if parts.query or parts.fragment:
        raise UsageError(f"base-url for {parts.hostname} has a ? or #; leave what follows out")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    netloc = host if port is None else f"{host}:{port}"
    url = urllib.parse.urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", ""))
    unquote = urllib.parse.unquote
    return url, unquote(parts.username or ""), unquote(parts.password or "")


def _spellings(secrets: list[str]) -> tuple[str, ...]:
    """Secrets as JSON, addresses and headers may hold them, longest first.

    What is shorter than four characters keeps nobody out, and would be found in every word.
    """
    found: set[str] = set()
    for secret in (s for s in secrets if len(s) > 3):
        plain = base64.b64encode(secret.encode()).decode()
        quoted = urllib.parse.quote(secret, safe="")
        found |= {secret, plain, quoted, urllib.parse.quote(secret), json.dumps(secret)[1:-1]}
    return tuple(sorted(found, key=lambda s: (-len(s), s)))
