"""Shared by the tests of MNIST: a small set, a clean surrounding, a mirror on this machine."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import threading
import time
from collections import Counter
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from minidp.data import download, locate
from minidp.data.archives import FASHION, FILES, MNIST
from minidp.data.idx import format_idx

module = importlib.import_module("minidp.data.mnist")  # the package has a function of that name
NAMES = [f"{name}.gz" for name in FILES]
BUNDLED = "bundled digits (4,000 of 60,000)"


def small_set(count: int = 20) -> dict[str, bytes]:
    """The four files (gzipped) of a set of `count` training and 10 test pictures."""
    arrays = []
    for rows in (count, 10):
        arrays += [np.random.default_rng(rows).integers(0, 256, (rows, 28, 28)).astype(np.uint8),
                   (np.arange(rows) % 10).astype(np.uint8)]  # fmt: skip
    return {name: gzip.compress(format_idx(array)) for name, array in zip(NAMES, arrays)}


def put(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


class Mirror(BaseHTTPRequestHandler):
    """Serves `server.files`; `server.log` counts what was asked for."""

    def do_HEAD(self) -> None:
        self.reply(with_body=False)

    def do_GET(self) -> None:
        self.reply(with_body=True)

    def reply(self, with_body: bool) -> None:
        name = self.path.rsplit("/", 1)[-1]
        self.server.log[self.command, name] += 1
        data = self.server.files.get(name)
        self.send_response(404 if data is None else 200)
        self.send_header("Content-Length", str(len(data or b"")))
        self.end_headers()
        if with_body and data:
            time.sleep(self.server.delay)
            self.wfile.write(data[: len(data) // 2 if self.server.hangs_up else None])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def mirror():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    server.files, server.log, server.delay, server.hangs_up = small_set(), Counter(), 0, False
    server.url = f"http://127.0.0.1:{server.server_port}/mnist/"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    """No environment, no cache, no memory of failures, and no mirror but a closed port."""
    for name in ("MINIDP_DATA", "MINIDP_OFFLINE", "http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(download, "FAILED", {})
    use(monkeypatch, MNIST, "http://127.0.0.1:1/")
    fashion = replace(FASHION, mirrors=("http://127.0.0.1:1/",), system=tmp_path / "system")
    monkeypatch.setattr(module, "FASHION", fashion)


def use(monkeypatch, archive, *mirrors: str, files: dict[str, bytes] | None = None):
    """Let `mnist` know `mirrors`, and the checksums of `files`."""
    if files:
        archive = replace(archive, md5={name[:-3]: hashlib.md5(gzip.decompress(data)).hexdigest()
                                        for name, data in files.items()})  # fmt: skip
    archive = replace(archive, mirrors=mirrors)
    monkeypatch.setattr(module, "MNIST", archive)
    monkeypatch.setattr(locate, "MNIST", archive)
    return archive


@pytest.fixture
def online(monkeypatch, mirror):
    """`mnist` knows the small set at the local mirror; the value is its Archive."""
    return use(monkeypatch, MNIST, mirror.url, files=mirror.files)


@pytest.fixture
def cache(tmp_path) -> Path:
    return tmp_path / "cache" / "minidp" / "mnist"
