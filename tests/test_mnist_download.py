"""Finding MNIST without a network, with a good one, and with a bad one."""

# ruff: noqa: F811  (fixtures are imported by name)
from __future__ import annotations

import gzip
import hashlib
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from mnist_files import (  # noqa: F401
    BUNDLED,
    NAMES,
    Mirror,
    cache,
    clean,
    mirror,
    online,
    put,
    small_set,
    use,
)

from minidp.data import download, fashion_mnist, mnist
from minidp.data.archives import MNIST
from minidp.errors import DataError


def left_over(folder: Path) -> list[str]:
    """Files in `folder` that are neither data nor the note of a failure."""
    return [path.name for path in folder.glob("*") if path.name not in (*NAMES, download.MARKER)]


# --- offline


def test_offline_is_quick_quiet_and_asked_once(monkeypatch, capfd, cache):
    asked = []
    monkeypatch.setattr(download, "ask", lambda *a, ask=download.ask: asked.append(a[0]) or ask(*a))
    start = time.monotonic()
    assert mnist("train").origin == BUNDLED
    assert time.monotonic() - start < 2 and asked == ["http://127.0.0.1:1/"]
    marker = (cache / download.MARKER).read_bytes()
    (cache / download.MARKER).unlink()  # this process knows without it
    assert mnist("test").origin.startswith("bundled") and len(asked) == 1
    (cache / download.MARKER).write_bytes(marker)
    download.FAILED.clear()  # as in another process, later that day
    assert mnist().origin == BUNDLED and len(asked) == 1
    assert capfd.readouterr() == ("", "")
    download.FAILED.clear()
    os.utime(cache / download.MARKER, (0, time.time() - 2 * download.DAY))
    assert mnist().origin == BUNDLED and len(asked) == 2
    with pytest.raises(DataError, match=r"127.0.0.1:1/: Connection refused"):
        mnist(source="download")
    assert len(asked) == 3 and left_over(cache) == []


def test_a_mirror_that_never_answers_is_not_waited_for(monkeypatch):
    assert download.PATIENCE <= 3
    monkeypatch.setattr(download, "PATIENCE", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        use(monkeypatch, MNIST, f"http://127.0.0.1:{silent.getsockname()[1]}/")
        start = time.monotonic()
        assert mnist().origin == BUNDLED
        assert time.monotonic() - start < 1.5
        with pytest.raises(DataError, match=r"no answer within|timed out"):
            mnist(source="download")


def test_a_name_server_that_hangs_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(download, "PATIENCE", 0.2)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: time.sleep(2))
    start = time.monotonic()
    assert mnist().origin == BUNDLED
    assert time.monotonic() - start < 1.5


def test_the_environment_can_forbid_asking(monkeypatch, online, mirror):
    monkeypatch.setenv("MINIDP_OFFLINE", "1")
    assert mnist().origin == BUNDLED and not mirror.log
    with pytest.raises(DataError, match="MINIDP_OFFLINE"):
        mnist(source="download")
    monkeypatch.setenv("MINIDP_OFFLINE", "0")
    assert len(mnist()) == 20


def test_fashion_says_what_to_do(tmp_path):
    with pytest.raises(DataError) as caught:
        fashion_mnist()
    text = str(caught.value)
    assert "Connection refused" in text and NAMES[0] in text and "fashion-mnist" in text
    with pytest.raises(DataError, match="only MNIST"):
        mnist(dataset="fashion", source="bundled")
    put(tmp_path / "system", small_set())
    assert len(fashion_mnist()) == 20 and fashion_mnist().classes[9] == "Ankle boot"


# --- downloading


def test_download_fills_the_cache_once(online, mirror, cache, capfd):
    data = mnist("train")
    assert len(data) == 20 and data.origin == f"MNIST (20 of 60,000) from {cache}"
    assert len(mnist("test")) == 10 and len(mnist("test", "download")) == 10
    assert all(mirror.log["GET", name] == 1 for name in NAMES)
    assert sorted(path.name for path in cache.iterdir()) == sorted(NAMES)
    assert capfd.readouterr().err.count("\n") == 1  # one line says that it is fetching


def web_page(mirror):
    mirror.files[NAMES[2]] = b"<html>log in</html>"


def truncated(mirror):
    mirror.files[NAMES[2]] = mirror.files[NAMES[2]][:-100]


def hung_up(mirror):
    mirror.hangs_up = True


def wrong(mirror):
    mirror.files[NAMES[2]] = small_set(21)[NAMES[0]]


def absent(mirror):
    del mirror.files[NAMES[2]]


def junk(mirror):
    mirror.files[NAMES[2]] = b"\x1f\x8b junk"


SPOILT = [(web_page, "web page"), (truncated, "ends early"), (hung_up, "IncompleteRead|ends early"),
          (wrong, "md5"), (absent, "Not Found"), (junk, "damaged|ends early")]  # fmt: skip


@pytest.mark.parametrize("spoil, text", SPOILT)
def test_bad_download_falls_back_and_leaves_no_half_file(online, mirror, cache, spoil, text):
    spoil(mirror)
    assert mnist("train").origin == BUNDLED
    assert mnist("test").origin.startswith("bundled")  # not mixed with what did arrive
    assert not (cache / NAMES[2]).exists() and left_over(cache) == []
    with pytest.raises(DataError, match=text) as caught:
        mnist(source="download")
    assert mirror.url in str(caught.value)
    mirror.files, mirror.hangs_up = small_set(), False  # the mirror is well again
    assert len(mnist(source="download")) == 20 and len(mnist()) == 20
    assert not (cache / download.MARKER).exists()


def test_a_second_mirror_helps_out(monkeypatch, mirror):
    good = small_set()
    bad = ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    bad.files, bad.log, bad.delay, bad.hangs_up = dict(good), Counter(), 0, False
    bad.files[NAMES[3]] = b"<html>"
    threading.Thread(target=bad.serve_forever, args=(0.02,), daemon=True).start()
    use(monkeypatch, MNIST, f"http://127.0.0.1:{bad.server_port}/", mirror.url, files=good)
    assert len(mnist()) == 20
    bad.shutdown()
    bad.server_close()


def test_only_what_is_missing_is_fetched(online, mirror, cache):
    put(cache, {name: mirror.files[name] for name in NAMES[:2]})
    (cache / "old.part").write_bytes(b"half")
    os.utime(cache / "old.part", (0, time.time() - 2 * download.DAY))
    assert len(mnist()) == 20
    assert [name for name in NAMES if mirror.log["GET", name]] == NAMES[2:]
    assert left_over(cache) == []


def test_damage_in_the_cache_is_fetched_anew_or_reported(monkeypatch, online, mirror, cache):
    mnist()
    (cache / NAMES[0]).write_bytes(mirror.files[NAMES[0]][:500])
    assert len(mnist()) == 20 and mirror.log["GET", NAMES[0]] == 2
    (cache / NAMES[2]).write_bytes(b"<html>")
    mirror.files = {}
    assert len(mnist("train")) == 20
    with pytest.raises(
        DataError, match=r"web page.*not fetched again.*Not Found.*Delete"
    ) as caught:
        mnist("test")  # the bundled test digits are among the training digits just read
    assert NAMES[2] in str(caught.value) and caught.value.__suppress_context__


def test_cache_that_cannot_be_written(online, mirror, tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert mnist().origin == BUNDLED and not mirror.log
    with pytest.raises(DataError, match="cannot be written"):
        mnist(source="download")


def test_full_disk(online, mirror, cache, monkeypatch):
    def write_bytes(path, data, write=Path.write_bytes):
        write(path, data[:10])
        if "t10k-images" in path.name:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    assert mnist().origin == BUNDLED
    assert not (cache / NAMES[2]).exists() and left_over(cache) == []


def test_files_appear_whole(online, mirror, cache, monkeypatch):
    written = []
    write_bytes = Path.write_bytes
    monkeypatch.setattr(Path, "write_bytes", lambda p, d: written.append(p) or write_bytes(p, d))
    assert len(mnist()) == 20
    assert len(written) == 5 and all(path.suffix == ".part" for path in written)


def test_processes_may_fetch_at_once(mirror, tmp_path, cache):
    mirror.delay = 0.05
    program = textwrap.dedent("""
        import sys
        from dataclasses import replace
        from pathlib import Path
        from minidp.data.archives import MNIST
        from minidp.data.download import ensure
        md5 = dict(zip(MNIST.md5, sys.argv[3:]))
        ensure(replace(MNIST, mirrors=(sys.argv[1],), md5=md5), Path(sys.argv[2]))
    """)
    sums = [hashlib.md5(gzip.decompress(mirror.files[name])).hexdigest() for name in NAMES]
    command = [sys.executable, "-c", program, mirror.url, str(cache), *sums]
    children = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    endings = [(child.communicate(timeout=20)[1], child.returncode) for child in children]
    assert [code for _, code in endings] == [0, 0, 0], endings
    assert {path.name: path.read_bytes() for path in cache.iterdir()} == mirror.files
