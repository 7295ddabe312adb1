"""A hub on 127.0.0.1, for tests only: run it as a program, it prints its address.

It knows what creating, validating, committing, tagging, listing and resolving need, keeps all in
memory, wants the token `STUB_TOKEN` for what writes, and tells at `/-/log` what it was asked.
`POST /-/fail` with {"path": part of a path, "status": 500} makes the next such request fail.
"""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import os
import re
import threading
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

TOKEN = os.environ.get("STUB_TOKEN", "")
Files = dict[str, bytes]


@dataclass
class Repo:
    private: bool
    commits: dict[str, Files] = field(default_factory=dict)  # in order
    tags: dict[str, str] = field(default_factory=dict)

    def commit(self, files: Files) -> str:
        digest = hashlib.sha1(str(len(self.commits)).encode(), usedforsecurity=False)
        for name in sorted(files):
            digest.update(name.encode() + files[name])
        self.commits[digest.hexdigest()] = files
        return digest.hexdigest()

    def resolve(self, revision: str) -> str | None:
        if revision == "main":
            return list(self.commits)[-1]
        revision = self.tags.get(revision, revision)
        return revision if revision in self.commits else None


REPOS: dict[str, Repo] = {}
LOG: list[list[str]] = []
FAILURES: list[dict[str, Any]] = []


class Refused(Exception):
    def __init__(self, status: int, code: str = "", body: Any = None) -> None:
        super().__init__(code)
        self.status, self.code, self.body = status, code, body


def entry(path: str, content: bytes) -> dict[str, Any]:
    oid = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    return {"type": "file", "path": path, "size": len(content), "oid": oid}


class Hub(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        """Keep the test's output clean."""

    def do_GET(self) -> None:
        self.handle_request()

    do_HEAD = do_POST = do_GET

    def handle_request(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        path = unquote(urlsplit(self.path).path)
        try:
            if path.startswith("/-/"):
                self.control(path, raw)
                return
            LOG.append([self.command, path])
            for failure in FAILURES:
                if failure["path"] in path:
                    FAILURES.remove(failure)
                    raise Refused(failure["status"])
            if self.command == "POST" and self.headers.get("Authorization") != f"Bearer {TOKEN}":
                raise Refused(401)
            if match := re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
                self.file(*match.groups())
            elif match := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)(?:/([^/]+))?(/.*)?", path):
                self.say(self.dataset(match[1], match[2] or "", (match[3] or "")[1:], raw))
            elif path == "/api/repos/create":
                self.say(self.create(json.loads(raw)))
            elif path == "/api/validate-yaml":
                self.say(self.validate(json.loads(raw)))
            else:
                raise Refused(404, "RepoNotFound")
        except Refused as refused:
            self.say(refused.body or {"error": refused.code}, refused.status, refused.code)

    def control(self, path: str, raw: bytes) -> None:
        if path == "/-/fail":
            FAILURES.append(json.loads(raw))
        elif path == "/-/create":
            asked = json.loads(raw)
            repo = REPOS.setdefault(asked["name"], Repo(asked["private"]))
            commit = repo.commit({n: c.encode() for n, c in asked["files"].items()})
            if "tag" in asked:
                repo.tags[asked["tag"]] = commit
        self.say(LOG)

    def create(self, asked: dict[str, Any]) -> Any:
        name = f"{asked['organization']}/{asked['name']}"
        url = f"http://{self.headers['Host']}/datasets/{name}"
        if name in REPOS:
            raise Refused(409, body={"error": "exists", "url": url})
        private = asked.get("visibility") == "private" or asked.get("private") is True
        REPOS[name] = Repo(private)
        REPOS[name].commit({".gitattributes": b"*.parquet filter=lfs\n"})
        return {"url": url, "name": name, "id": name}

    def validate(self, asked: dict[str, Any]) -> Any:
        front = yaml.safe_load(asked["content"].split("---\n")[1])
        if "license" not in front:
            raise Refused(400, body={"errors": [{"message": '"license" is missing'}]})
        return {"errors": [], "warnings": []}

    def dataset(self, name: str, verb: str, rest: str, raw: bytes) -> Any:
        repo = REPOS.get(name)
        if repo is None:
            raise Refused(404, "RepoNotFound")
        if verb == "refs":
            branch = {
                "name": "main",
                "ref": "refs/heads/main",
                "targetCommit": list(repo.commits)[-1],
            }
            tags = [
                {"name": tag, "ref": f"refs/tags/{tag}", "targetCommit": commit}
                for tag, commit in repo.tags.items()
            ]
            return {"branches": [branch], "converts": [], "tags": tags}
        revision, _, folder = rest.partition("/")
        commit = repo.resolve(revision or "main")
        if commit is None:
            raise Refused(404, "RevisionNotFound")
        files = repo.commits[commit]
        if verb in ("", "revision"):
            siblings = [{"rfilename": path} for path in files]
            return {"id": name, "sha": commit, "private": repo.private, "siblings": siblings}
        if verb == "preupload":
            return {
                "files": [
                    {
                        "path": file["path"],
                        "uploadMode": "regular",
                        "shouldIgnore": False,
                        "oid": (
                            entry(file["path"], files[file["path"]])["oid"]
                            if file["path"] in files
                            else None
                        ),
                    }
                    for file in json.loads(raw)["files"]
                ]
            }
        if verb == "commit":
            oid = repo.commit(self.changed(dict(files), raw))
            return {"commitUrl": f"{name}/commit/{oid}", "commitOid": oid, "success": True}
        if verb == "tag":
            tag = json.loads(raw)["tag"]
            if tag in repo.tags:
                raise Refused(409)
            repo.tags[tag] = commit
            return {}
        if verb == "tree":
            return self.tree(files, folder)
        if verb == "paths-info":
            form = raw.decode()
            paths = json.loads(form)["paths"] if form[:1] == "{" else parse_qs(form)["paths"]
            found = self.tree(files, "")
            return [one for path in paths for one in found if one["path"] == path.rstrip("/")]
        raise Refused(404, "EntryNotFound")

    def changed(self, files: Files, raw: bytes) -> Files:
        for line in map(json.loads, raw.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        return files

    def tree(self, files: Files, folder: str) -> list[dict[str, Any]]:
        """All entries below a folder; only its own where the request is not recursive."""
        prefix = f"{folder}/" if folder else ""
        below = [path for path in files if path.startswith(prefix)]
        folders = {
            path[: match.start()]
            for path in below
            for match in re.finditer("/", path)
            if match.start() > len(prefix)
        }
        found: list[dict[str, Any]] = [
            {"type": "directory", "path": path, "oid": "0" * 40, "size": 0}
            for path in sorted(folders)
        ]
        found += [entry(path, files[path]) for path in below]
        asked = parse_qs(urlsplit(self.path).query).get("recursive", ["true"])
        if asked[0].lower() not in ("true", "1"):
            found = [one for one in found if "/" not in one["path"][len(prefix) :]]
        if folder and not below:
            raise Refused(404, "EntryNotFound")
        return found

    def file(self, name: str, revision: str, path: str) -> None:
        repo = REPOS.get(name)
        if repo is None:
            raise Refused(404, "RepoNotFound")
        commit = repo.resolve(revision)
        if commit is None:
            raise Refused(404, "RevisionNotFound")
        if path not in repo.commits[commit]:
            raise Refused(404, "EntryNotFound")
        content = repo.commits[commit][path]
        start, stop, status = 0, len(content), 200
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            start, status = int(match[1]), 206
            stop = min(stop, int(match[2]) + 1) if match[2] else stop
        self.send_response(status)
        self.send_header("ETag", f'"{entry(path, content)["oid"]}"')
        self.send_header("X-Repo-Commit", commit)
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(content)}")
        self.send_header("Content-Length", str(stop - start))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content[start:stop])

    def say(self, answer: Any, status: int = 200, code: str = "") -> None:
        content = json.dumps(answer).encode()
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    input()  # lives as long as the one who started it
