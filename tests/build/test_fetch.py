"""Downloads against a server of our own on 127.0.0.1 that fails in every way we could think of."""

from __future__ import annotations

import email.utils
import hashlib
import http.server
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import jfinteb.build.fetch
from jfinteb.build.fetch import (
    TRIES,
    cache_folder,
    download_progress,
    fetch,
    fetch_hub,
    fetch_source,
)
from jfinteb.build.sources.files import SourceFolder
from jfinteb.loaders.errors import DataError, JfintebError, UnavailableError, UsageError
from jfinteb.loaders.task import SourceFile, get_task

CONTENT = random.Random(0).randbytes(1_000_000)
OTHER = random.Random(1).randbytes(1_000_000)
SHA = hashlib.sha256(CONTENT).hexdigest()
Act = Callable[["Handler"], None]


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers the next request by the next act of `acts`, and properly when none is left."""

    acts: list[Act]
    seen: list[dict[str, str]]
    content = CONTENT
    etag: str | None = '"one"'
    ranges = True

    def log_message(self, *args: Any) -> None:
        """Keep the test's output clean."""

    def do_GET(self) -> None:
        self.seen.append({"path": self.path, **{k.lower(): v for k, v in self.headers.items()}})
        act = self.acts.pop(0) if self.acts else proper
        with suppress(BrokenPipeError, ConnectionResetError):
            act(self)

    def start(self) -> int:
        """First byte asked for; 0 where the whole file is due."""
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        condition = self.headers.get("If-Range", self.etag)
        return int(asked[1]) if asked and self.ranges and condition == self.etag else 0

    def head(self, status: int, **headers: str | None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def body(self, start: int, declared: int | None = None) -> bytes:
        """Send the head of the answer from a byte on; return what is to follow."""
        rest = self.content[start:]
        length = str(len(rest) if declared is None else declared)
        if start:
            span = f"bytes {start}-{len(self.content) - 1}/{len(self.content)}"
            self.head(206, Content_Length=length, Content_Range=span, ETag=self.etag)
        else:
            self.head(200, Content_Length=length, ETag=self.etag)
        return rest


def proper(handler: Handler) -> None:
    handler.wfile.write(handler.body(handler.start()))


def drop(after: int) -> Act:
    """Break the connection after some bytes of the body."""

    def act(handler: Handler) -> None:
        handler.wfile.write(handler.body(handler.start())[:after])

    return act


def answer(status: int, content: bytes = b"busy", **headers: str) -> Act:
    def act(handler: Handler) -> None:
        handler.head(status, Content_Length=str(len(content)), **headers)
        handler.wfile.write(content)

    return act


def changed(handler: Handler) -> None:
    """Put another file in its place, then answer properly."""
    type(handler).content, type(handler).etag = OTHER, '"two"'
    proper(handler)


class Server:
    def __init__(self) -> None:
        self.handler = type("Scripted", (Handler,), {"acts": [], "seen": []})
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler)
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_port}/dump.bz2"

    def will(self, *acts: Act) -> None:
        self.handler.acts[:] = acts

    @property
    def seen(self) -> list[dict[str, str]]:
        return self.handler.seen

    @property
    def ranges(self) -> list[str | None]:
        return [request.get("range") for request in self.seen]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.http.shutdown()
    found.http.server_close()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that a fetch would have slept."""
    slept: list[float] = []
    monkeypatch.setattr(jfinteb.build.fetch, "sleep", slept.append)
    return slept


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "raw" / "dump.bz2"


def refused(kind: type[JfintebError], url: str, target: Path, **options: Any) -> str:
    with pytest.raises(JfintebError) as caught:
        fetch(url, target, **options)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    assert not target.exists()
    return str(caught.value)


def left(target: Path) -> list[str]:
    return sorted(p.name for p in target.parent.iterdir() if not p.name.endswith(".lock"))


def test_whole(server: Server, target: Path) -> None:
    assert fetch(server.url, target, size=len(CONTENT), sha256=SHA.upper()) == target
    assert target.read_bytes() == CONTENT
    assert left(target) == ["dump.bz2"]
    [request] = server.seen
    assert request["accept-encoding"] == "identity"


def test_a_file_that_is_there_is_not_fetched(server: Server, target: Path) -> None:
    for _ in range(2):
        fetch(server.url, target, sha256=SHA)
    fetch(server.url, target)
    assert len(server.seen) == 1


@pytest.mark.parametrize("known", [{"sha256": SHA}, {"size": len(CONTENT)}])
def test_a_file_that_is_there_but_wrong_is_replaced(
    server: Server, target: Path, known: dict[str, Any]
) -> None:
    target.parent.mkdir()
    target.write_bytes(CONTENT[:-1])
    fetch(server.url, target, **known)
    assert target.read_bytes() == CONTENT


def test_a_dropped_connection_resumes(server: Server, target: Path, waits: list[float]) -> None:
    server.will(drop(300_000), drop(300_000))
    fetch(server.url, target)
    assert target.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=300000-", "bytes=600000-"]
    assert [r.get("if-range") for r in server.seen] == [None, '"one"', '"one"']
    assert all(0.5 <= wait <= 0.75 for wait in waits)  # both were first failures after progress


def test_without_ranges_it_starts_again(server: Server, target: Path, waits: list[float]) -> None:
    server.handler.ranges = False
    server.will(drop(300_000), drop(400_000))
    fetch(server.url, target)
    assert target.read_bytes() == CONTENT
    assert len(waits) == 2


def test_another_etag_starts_again(server: Server, target: Path, waits: list[float]) -> None:
    server.will(drop(300_000), changed)
    fetch(server.url, target)
    assert target.read_bytes() == OTHER
    assert server.ranges == [None, "bytes=300000-"]


def test_a_server_that_ignores_if_range(server: Server, target: Path, waits: list[float]) -> None:
    def ignorant(handler: Handler) -> None:
        type(handler).content, type(handler).etag = OTHER, '"two"'
        handler.wfile.write(handler.body(300_000))

    server.will(drop(300_000), ignorant)
    fetch(server.url, target)
    assert target.read_bytes() == OTHER
    assert server.ranges == [None, "bytes=300000-", None]


@pytest.mark.parametrize("span", ["bytes 0-999999/1000000", "bytes 300000-999999/7", "nonsense"])
def test_a_wrong_content_range(server: Server, target: Path, waits: list[float], span: str) -> None:
    def wrong(handler: Handler) -> None:
        handler.head(206, Content_Length="700000", Content_Range=span, ETag='"one"')
        handler.wfile.write(CONTENT[:700_000])

    server.will(drop(300_000), wrong)
    fetch(server.url, target)
    assert target.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=300000-", None]


def test_a_weak_etag_is_no_validator(server: Server, target: Path, waits: list[float]) -> None:
    server.handler.etag = 'W/"one"'
    server.will(drop(300_000))
    fetch(server.url, target)
    assert target.read_bytes() == CONTENT
    assert server.ranges == [None, None]


def test_without_validator_the_checksum_decides(
    server: Server, target: Path, waits: list[float]
) -> None:
    server.handler.etag = None

    def silently_changed(handler: Handler) -> None:
        spoiled = CONTENT[:300_000] + OTHER[300_000:]
        handler.content = spoiled
        proper(handler)

    server.will(drop(300_000), silently_changed)
    fetch(server.url, target, sha256=SHA)
    assert target.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=300000-", None]  # spoiled, so once more from byte 0


def test_busy_servers_are_asked_again(server: Server, target: Path, waits: list[float]) -> None:
    date = email.utils.formatdate(time.time() + 40, usegmt=True)
    server.will(
        answer(429, Retry_After="7"),
        answer(503, Retry_After=date),
        answer(500),
        answer(502, Retry_After="soon"),
    )
    fetch(server.url, target)
    assert target.read_bytes() == CONTENT
    seven, until, third, fourth = waits
    assert seven == 7
    assert 38 <= until <= 40
    assert 2 <= third <= 3  # 0.5 s, doubled twice, and up to half of that again
    assert 4 <= fourth <= 6


def test_retry_after_is_slept(server: Server, target: Path) -> None:
    server.will(answer(429, Retry_After="1"))
    start = time.monotonic()
    fetch(server.url, target)
    assert time.monotonic() - start >= 1


def test_it_gives_up(server: Server, target: Path, waits: list[float]) -> None:
    server.will(*[answer(500)] * 99)
    message = refused(UnavailableError, server.url, target)
    assert message.startswith(f"cannot get {server.url}: HTTP 500, {TRIES} tries; ")
    assert len(server.seen) == TRIES == len(waits) + 1


def test_it_says_what_the_next_run_does(server: Server, target: Path, waits: list[float]) -> None:
    """Half a file of which nothing tells whether it is still the same is not resumed."""
    for etag, then in (('"one"', "it resumes"), (None, "it begins anew")):
        server.handler.etag = etag
        server.will(drop(300_000), *[answer(500)] * 99)
        assert f"; {then} when run again; " in refused(UnavailableError, server.url, target)
        server.handler.acts.clear()
        target.with_name("dump.bz2.part").unlink(missing_ok=True)


def test_an_address_that_is_none(target: Path) -> None:
    message = refused(UnavailableError, "http://[::1", target)
    assert message.startswith("cannot get an address that cannot be read: ")


def test_it_gives_up_where_restarts_bring_nothing_new(
    server: Server, target: Path, waits: list[float]
) -> None:
    server.handler.ranges = False
    server.will(*[drop(size) for size in (300_000, 500_000) * 99])
    refused(UnavailableError, server.url, target)
    assert len(server.seen) == TRIES + 1  # only the second try brought a new byte


def test_it_gives_up_at_an_hour(server: Server, target: Path, waits: list[float]) -> None:
    server.will(answer(429, Retry_After="3600"))
    assert "HTTP 429, the server asks to wait 3,600 s" in refused(
        UnavailableError, server.url, target
    )
    assert waits == []


@pytest.mark.parametrize(
    ("status", "told"), [(401, "it needs a login"), (403, "refused"), (404, "no such file")]
)
def test_refusals_are_final(
    server: Server, target: Path, waits: list[float], status: int, told: str
) -> None:
    server.will(answer(status))
    message = refused(UnavailableError, server.url, target)
    assert f"HTTP {status}, " in message
    assert told in message
    assert len(server.seen) == 1


def test_wrong_checksum(server: Server, target: Path) -> None:
    message = refused(DataError, server.url, target, sha256=hashlib.sha256(OTHER).hexdigest())
    assert (
        f"found sha256 {SHA[:12]}…, expected {hashlib.sha256(OTHER).hexdigest()[:12]}…" in message
    )
    assert left(target) == []


def test_wrong_length(server: Server, target: Path) -> None:
    message = refused(DataError, server.url, target, size=999_999)
    assert "has 1,000,000 bytes, expected 999,999" in message
    assert left(target) == []


def test_less_comes_than_is_declared(server: Server, target: Path, waits: list[float]) -> None:
    def short(handler: Handler) -> None:
        handler.wfile.write(handler.body(handler.start(), declared=len(CONTENT) + 5))

    server.handler.ranges = False
    server.will(*[short] * 99)
    assert "the connection " in refused(UnavailableError, server.url, target)
    assert target.with_name("dump.bz2.part").stat().st_size == len(CONTENT)


def chunked(handler: Handler, *, whole: bool) -> None:
    handler.protocol_version = "HTTP/1.1"
    handler.close_connection = True
    handler.head(200, Transfer_Encoding="chunked", ETag='"one"', Connection="close")
    for start in range(0, len(CONTENT) if whole else 500_000, 100_000):
        handler.wfile.write(b"186a0\r\n" + CONTENT[start : start + 100_000] + b"\r\n")
    if whole:
        handler.wfile.write(b"0\r\n\r\n")


def test_chunked(server: Server, target: Path, waits: list[float]) -> None:
    server.will(lambda h: chunked(h, whole=False), lambda h: chunked(h, whole=True))
    server.handler.ranges = False
    fetch(server.url, target)
    assert target.read_bytes() == CONTENT
    assert len(waits) == 1


def test_more_comes_than_expected(server: Server, target: Path) -> None:
    server.will(lambda h: chunked(h, whole=True))
    assert "more than the expected 900,000 bytes" in refused(
        DataError, server.url, target, size=900_000
    )


def endless(handler: Handler) -> None:
    """HTTP/1.0 as it once was: the end of the connection is the end of the file."""
    handler.head(200)
    handler.wfile.write(CONTENT)


def test_a_length_nobody_declares(server: Server, target: Path) -> None:
    server.will(endless)
    assert "does not say how long the file is" in refused(DataError, server.url, target)
    server.will(endless)
    fetch(server.url, target, sha256=SHA)
    assert target.read_bytes() == CONTENT


def test_an_early_end_nobody_declares(server: Server, target: Path, waits: list[float]) -> None:
    def early(handler: Handler) -> None:
        handler.head(200)
        handler.wfile.write(CONTENT[:600_000])

    server.will(early)
    fetch(server.url, target, size=len(CONTENT))
    assert target.read_bytes() == CONTENT
    assert len(waits) == 1


def test_compressed_on_its_way(server: Server, target: Path) -> None:
    squeezed = answer(200, CONTENT, Content_Encoding="gzip")
    server.will(squeezed)
    assert "came compressed" in refused(DataError, server.url, target)
    server.will(squeezed)  # as some servers mislabel .gz files: the bytes are the file's
    fetch(server.url, target, sha256=SHA)
    assert target.read_bytes() == CONTENT


def test_redirects(server: Server, target: Path) -> None:
    server.will(answer(302, Location="/mirror"), answer(301, Location=server.url))
    fetch(server.url, target)
    assert target.read_bytes() == CONTENT
    target.unlink()
    server.will(*[answer(302, Location="/again")] * 99)
    assert "more than 5 redirects" in refused(UnavailableError, server.url, target)


@pytest.mark.parametrize("place", ["file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_redirects_to_elsewhere(server: Server, target: Path, place: str) -> None:
    server.will(answer(302, Location=place))
    message = refused(UnavailableError, server.url, target)
    assert f"leads to a {place.partition(':')[0]} address, expected http or https" in message


def test_a_redirect_to_no_address(server: Server, target: Path) -> None:
    server.will(answer(302, Location="http://[::1"))
    message = refused(UnavailableError, server.url, target)
    assert message == f"cannot get {server.url}: it leads to what is no address"


def test_never_from_https_to_http() -> None:
    import requests

    from jfinteb.build.fetch.transfer import _Session

    response = requests.Response()
    response.status_code, response.url = 302, "https://example.org/a?token=hush"
    response.headers["Location"] = "http://example.org/b"
    with pytest.raises(UnavailableError) as caught:
        _Session().get_redirect_target(response)
    assert str(caught.value) == (
        "cannot get https://example.org/a: it leads to a http address, expected https"
    )
    response.headers["Location"] = "//example.org/b"
    assert _Session().get_redirect_target(response) == "//example.org/b"


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/y", "dump.bz2", "http://", ""])
def test_only_http(url: str, target: Path) -> None:
    assert "expected one" in refused(UsageError, url, target)


def test_offline(target: Path, waits: list[float]) -> None:
    message = refused(UnavailableError, "http://me:hush@127.0.0.1:9/a?token=hush#hush", target)
    assert message.startswith("cannot get http://127.0.0.1:9/a: no connection, 6 tries; ")
    assert "--source" in message
    assert "hush" not in message


def test_secrets_stand_nowhere(server: Server, target: Path, waits: list[float]) -> None:
    url = server.url.replace("//", "//me:hush@") + "?token=hush"
    screen = io.StringIO()
    server.will(drop(300_000), answer(500), answer(404))
    with download_progress(Console(file=screen)) as progress:
        message = refused(UnavailableError, url, target, progress=progress)
    note = target.with_name("dump.bz2.part.json").read_text(encoding="utf-8")
    assert "trying again in" in screen.getvalue()
    assert "hush" not in message + screen.getvalue() + note
    assert server.seen[0]["authorization"].startswith("Basic ")


def test_progress(server: Server, target: Path, waits: list[float]) -> None:
    server.will(drop(300_000))
    with download_progress(Console(file=io.StringIO())) as progress:
        fetch(server.url, target, progress=progress)
        [bar] = progress.tasks
        assert (bar.description, bar.completed, bar.total) == ("dump.bz2", 1_000_000, 1_000_000)


def test_a_disk_that_is_full(server: Server, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    message = refused(UsageError, server.url, target)
    assert message == f"cannot write {target}: No space left on device"


def test_a_part_of_another_url_is_not_used(server: Server, target: Path) -> None:
    target.parent.mkdir()
    target.with_name("dump.bz2.part").write_bytes(OTHER[:300_000])
    target.with_name("dump.bz2.part.json").write_text(
        json.dumps({"url": "0" * 64, "validator": '"one"', "total": 1_000_000})
    )
    fetch(server.url, target)
    assert target.read_bytes() == CONTENT
    assert server.ranges == [None]


@pytest.mark.parametrize("note", ["", "[]", '{"uri": 1}', "\x00"])
def test_a_spoiled_note(server: Server, target: Path, note: str) -> None:
    target.parent.mkdir()
    target.with_name("dump.bz2.part").write_bytes(OTHER[:300_000])
    target.with_name("dump.bz2.part.json").write_text(note)
    fetch(server.url, target)
    assert target.read_bytes() == CONTENT


CLIENT = """
import sys
from pathlib import Path
from jfinteb.build.fetch import fetch
fetch(sys.argv[1], Path(sys.argv[2]))
"""


def client(url: str, target: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", CLIENT, url, str(target)])


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def stall(after: int, release: threading.Event) -> Act:
    """Send some bytes, then nothing until released; then the rest."""

    def act(handler: Handler) -> None:
        rest = handler.body(handler.start())
        handler.wfile.write(rest[:after])
        handler.wfile.flush()
        release.wait(60)
        handler.wfile.write(rest[after:])

    return act


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_killed_in_the_middle_then_resumed(server: Server, target: Path) -> None:
    release = threading.Event()
    server.will(stall(655_360, release))
    part = target.with_name("dump.bz2.part")
    process = client(server.url, target)
    until(lambda: part.exists() and part.stat().st_size >= 500_000)
    process.send_signal(signal.SIGKILL)
    process.wait()
    release.set()
    assert left(target) == ["dump.bz2.part", "dump.bz2.part.json"]
    arrived = part.stat().st_size
    assert CONTENT.startswith(part.read_bytes())
    fetch(server.url, target)  # the dead process's lock is free
    assert target.read_bytes() == CONTENT
    assert server.ranges == [None, f"bytes={arrived}-"]
    assert server.seen[1]["if-range"] == '"one"'


def test_killed_before_it_got_its_name(server: Server, target: Path) -> None:
    server.will(drop(300_000), answer(404))
    refused(UnavailableError, server.url, target)
    target.with_name("dump.bz2.part").write_bytes(CONTENT)
    fetch(server.url, target)
    assert target.read_bytes() == CONTENT
    assert len(server.seen) == 2  # all had come: nothing more is asked


def test_a_whole_part_that_is_spoiled(server: Server, target: Path) -> None:
    server.will(drop(300_000), answer(404))
    refused(UnavailableError, server.url, target)
    target.with_name("dump.bz2.part").write_bytes(OTHER)
    fetch(server.url, target, sha256=SHA)
    assert target.read_bytes() == CONTENT


def test_two_processes_fetch_once(server: Server, target: Path) -> None:
    release = threading.Event()
    server.will(stall(300_000, release))
    first = client(server.url, target)
    until(lambda: len(server.seen) == 1)
    second = client(server.url, target)
    time.sleep(1)
    release.set()
    assert (first.wait(60), second.wait(60)) == (0, 0)
    assert target.read_bytes() == CONTENT
    assert len(server.seen) == 1


def test_a_source_folder_fetches_only_what_it_lacks(tmp_path: Path) -> None:
    asked = []

    def record(url: str, target: Path, sha256: str | None) -> None:
        asked.append((url, target.relative_to(tmp_path).as_posix(), sha256))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"{}\n")

    task = get_task("ews_reason")
    assert SourceFolder(tmp_path).choose(task) is None
    (tmp_path / "ews" / "current").mkdir(parents=True)
    (tmp_path / "ews" / "current" / "train.jsonl").write_bytes(b"{}\n")
    folder = SourceFolder(tmp_path, record)
    chosen = folder.choose(task)
    assert chosen is not None
    for key in chosen.source.files:
        assert folder.file(chosen, key).is_file()
    base = "hf://datasets/retarfi/economy-watchers-survey@2025.05.0/current"
    assert asked == [
        (f"{base}/validation.jsonl", "ews/current/validation.jsonl", None),
        (f"{base}/test.jsonl", "ews/current/test.jsonl", None),
    ]


def test_a_damaged_file_is_fetched_again_and_kept_aside(tmp_path: Path) -> None:
    content = {key: key.encode() for key in ("train", "validation", "test")}
    files = {
        key: SourceFile(
            path=f"published/{key}.jsonl",
            url=f"https://example.org/{key}",
            sha256=hashlib.sha256(data).hexdigest(),
        )
        for key, data in content.items()
    }
    task = get_task("wikinews")
    task = replace(task, source=replace(task.source, files=files))
    asked = []

    def get(url: str, target: Path, sha256: str | None) -> None:
        asked.append(url)
        if len(asked) == 1:
            raise UnavailableError("no connection")
        target.write_bytes(content[url.rpartition("/")[2]])

    (tmp_path / "published").mkdir()
    for key, data in content.items():
        path = tmp_path / "published" / f"{key}.jsonl"
        path.write_bytes(data if key != "train" else b"spoiled")
    damaged = tmp_path / "published" / "train.jsonl"
    with pytest.raises(DataError, match=r"published/train.jsonl has sha256 [0-9a-f]{12}…, the"):
        SourceFolder(tmp_path).file(task, "train")
    with pytest.raises(UnavailableError, match="no connection"):
        SourceFolder(tmp_path, get).file(task, "train")
    assert damaged.read_bytes() == b"spoiled"  # nothing better could be had
    for key, data in content.items():
        assert SourceFolder(tmp_path, get).file(task, key).read_bytes() == data
    assert asked == ["https://example.org/train"] * 2
    assert damaged.with_name("train.jsonl.old").read_bytes() == b"spoiled"


def test_a_page_in_place_of_a_zip_is_not_kept(tmp_path: Path) -> None:
    def get(url: str, target: Path, sha256: str | None) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(answers.pop(0))

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a", "b")
    answers = [b"<!doctype html>", packed.getvalue()]
    task = get_task("chabsa")
    folder = SourceFolder(tmp_path, get)
    with pytest.raises(DataError, match=r"chABSA-dataset.zip gave what is no zip; try again"):
        folder.file(task, "annotations")
    path = tmp_path / "chabsa" / "chABSA-dataset.zip"
    assert not path.exists()
    assert folder.file(task, "annotations").read_bytes() == packed.getvalue()


def test_fetch_source_over_http(server: Server, target: Path) -> None:
    with download_progress(Console(quiet=True)) as progress:
        fetch_source(server.url, target, SHA, progress)
    assert target.read_bytes() == CONTENT


def test_fetched_sources_stand_in_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "jfinteb" / "sources"


def test_hub_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "train.jsonl"
    file.write_bytes(CONTENT)
    asked: list[tuple[Any, ...]] = []

    def download(*args: Any, **options: Any) -> str:
        asked.append((*args, options))
        return str(file)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    assert fetch_hub("me/set", "train.jsonl", revision="v1", sha256=SHA) == file
    assert asked == [("me/set", "train.jsonl", {"repo_type": "dataset", "revision": "v1"})]
    with pytest.raises(DataError, match=r"^train.jsonl of me/set at v1: found 1,000,000 bytes"):
        fetch_hub("me/set", "train.jsonl", revision="v1", size=1)


def test_hub_offline(tmp_path: Path, python: Any) -> None:
    program = """
from jfinteb.build.fetch import fetch_hub
from jfinteb.loaders.errors import UnavailableError
try:
    fetch_hub("me/set", "train.jsonl", revision="v1")
except UnavailableError as error:
    print(error)
"""
    done = python(program, cwd=tmp_path)
    assert done.stdout.startswith("cannot get train.jsonl of me/set at v1 ("), done.stderr
    assert done.stdout.count("\n") == 1
