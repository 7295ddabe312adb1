"""Key, user and password appear nowhere: not on the screen, in logs, results, caches, traces."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jfinteb.eval.backends.api.access import access_of
from jfinteb.eval.backends.api.settings import ApiSettings
from jfinteb.loaders.errors import UsageError

from .proxy import Body, Fault, Handler, Server, no_keys  # noqa: F401

KEY = "sk-Geheim/9+x=\\7"  # with what JSON, addresses and base64 spell otherwise
USER, PASSWORD = "nutzer", "p@ss:wort"
BASIC = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
SECRETS = {  # as they may be spelled
    "key": (KEY, json.dumps(KEY)[1:-1], "sk-Geheim%2F9%2Bx%3D%5C7"),
    "address": (BASIC, PASSWORD, "p%40ss%3Awort"),
}

PROGRAM = """
import json, logging, sys, traceback
from pathlib import Path
logging.basicConfig(level=logging.DEBUG)
from jfinteb.eval.backends import EncoderOptions, open_encoder
from jfinteb.eval.cache import DiskStore
from jfinteb.eval.runner import Runner
from jfinteb.loaders.data import open_origin
from jfinteb.loaders.task import get_task

for url, folder in json.loads(sys.argv[1]):
    settings = {"base_url": url, "retries": 1, "timeout": 0.5}
    encoder = open_encoder(EncoderOptions(model="hash-8", backend="api", settings=settings))
    try:
        encoder.load()
        encoder.store = DiskStore(Path(folder) / "cache", encoder.spec, encoder.environment)
        runner = Runner(encoder, open_origin("sample"), Path(folder) / "results")
        plans, _ = runner.plan([get_task("pfmt")])
        for plan, result in runner.run(plans, debug=True):
            print(result)
    except Exception as error:
        traceback.print_exc()
        while error is not None:
            print(type(error), error, vars(error))
            error = error.__cause__ or error.__context__
    print(encoder.spec, encoder.notes, encoder.usage, encoder._access)
"""


def echo(code: int) -> Fault:
    """What a careless gateway answers: the request, with all its headers."""

    def fault(handler: Handler, answer: Body) -> None:
        sent = " ".join(handler.headers.values())
        handler.send(code, {"error": {"message": f"bad request {sent} {secrets_in(sent)}"}})

    return fault


def secrets_in(sent: str) -> str:
    """What came in, in all its spellings."""
    return " ".join(SECRETS["key" if KEY in sent else "address"])


def plain(handler: Handler, answer: Body) -> None:
    handler.send(400, f"failed for {secrets_in(' '.join(handler.headers.values()))}")


def as_name(handler: Handler, answer: Body) -> None:
    sent = secrets_in(" ".join(handler.headers.values()))
    handler.send(200, {**answer, "model": f"model of {sent}"})


def in_data(handler: Handler, answer: Body) -> None:
    handler.send(200, {"error": secrets_in(" ".join(handler.headers.values()))})


FAULTS: dict[str, list[Fault]] = {
    "none": [],
    **{str(code): [echo(code)] * 2 for code in (400, 401, 403, 404, 413, 422, 429, 500)},
    "plain": [plain],
    "name": [as_name],
    "data": [in_data],
}


@pytest.mark.parametrize("kind", SECRETS)
def test_nothing_is_shown(tmp_path: Path, kind: str) -> None:
    servers = {name: Server(faults=list(faults)) for name, faults in FAULTS.items()}
    program, out = tmp_path / "program.py", tmp_path / "out"
    program.write_text(PROGRAM, encoding="utf-8")
    user = f"{USER}:p%40ss%3Awort@" if kind == "address" else ""
    with contextlib.ExitStack() as stack:
        for server in servers.values():
            stack.enter_context(server)
        runs = [
            (server.url.replace("//", f"//{user}"), str(out / name))
            for name, server in servers.items()
        ]
        done = subprocess.run(
            [sys.executable, str(program), json.dumps(runs)],
            env={**os.environ, "JFINTEB_API_KEY": KEY, "OPENAI_LOG": "debug"},
            capture_output=True,
            timeout=200,
            check=False,
        )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert b"HTTP Request" in done.stderr  # the client's own logs were on
    assert done.stdout.count(b"[hidden]") >= 6
    files = [path for path in out.rglob("*") if path.is_file()]
    kept = {path.relative_to(out).parts[0] for path in files}
    assert kept == {"none", "name"}
    seen = {"stdout": done.stdout, "stderr": done.stderr}
    seen |= {str(path): str(path).encode() + path.read_bytes() for path in files}
    for where, data in seen.items():
        for secret in SECRETS[kind]:
            assert secret.encode() not in data, f"{secret} in {where}"
    for server in servers.values():
        assert SECRETS[kind][0] in " ".join(server.requests[0].headers.values())


def test_an_address_that_cannot_be_read_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for address in (
        "htp://u:geheim@host",
        "u:geheim@host/v1",
        "http://u:geheim@",
        "http://[x:geheim@",
    ):
        with pytest.raises(UsageError) as caught:
            access_of(ApiSettings(base_url=address))
        assert "geheim" not in str(caught.value)
    with pytest.raises(UsageError) as caught:
        access_of(ApiSettings(base_url="http://u:geheim@host/v1?api_key=geheim"))
    assert "geheim" not in str(caught.value)
    monkeypatch.setenv("JFINTEB_API_KEY", "geheim\u3042")
    with pytest.raises(
        UsageError, match="JFINTEB_API_KEY has characters that no key has"
    ) as caught:
        access_of(ApiSettings(base_url="http://host/v1"))
    assert "geheim" not in str(caught.value)
