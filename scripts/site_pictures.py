"""Photograph each page of ``site/`` on a desk and on a phone, light and dark, and name what one must scroll sideways.

``make docs`` first, then ``python scripts/site_pictures.py FOLDER [PAGE ...]``; PAGE is a folder of the site, such as
``start``. Needs Chromium (``chromium`` on the path, or its path in ``CHROMIUM``) and the package ``websockets``.
Ends with an error if a page, or anything on it except code, is wider than the screen.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import http.server
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

SITE = Path(__file__).resolve().parent.parent / "site"
WIDTHS = (1280, 390)
MAX_HEIGHT = 12_000
"""A longer page is cut off in its picture."""
_TOO_WIDE = """
(() => {
  const wide = document.documentElement.scrollWidth > innerWidth ? ["the page"] : [];
  for (const e of document.querySelectorAll("article *")) {
    const scrolls = ["auto", "scroll"].includes(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth + 1;
    if (scrolls && !e.closest("pre") && !e.querySelector("pre")) {
      wide.push(e.tagName.toLowerCase() + ": " + e.innerText.slice(0, 60).replace(/\\s+/g, " "));
    }
  }
  return wide;
})()
"""


class Browser:
    """One tab of a headless Chromium, driven by its DevTools protocol."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)

    async def call(self, method: str, **parameters: Any) -> Any:
        """Return the result of one command."""
        number = next(self._numbers)
        await self._connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while (answer := json.loads(await self._connection.recv())).get("id") != number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    async def open(self, address: str) -> None:
        """Go to a page and return when its scripts have run."""
        await self.call("Page.navigate", url=address)
        while await self.value("document.readyState + location.href") != f"complete{address}":
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.2)  # the theme moves tables into boxes after the page has loaded

    async def value(self, expression: str) -> Any:
        """Return what an expression is in the page."""
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")


async def photograph(folder: Path, pages: list[str], site: str, debugger: str) -> list[str]:
    """Write ``PAGE-WIDTH-light.png`` and ``-dark.png`` for each page; return what is too wide."""
    found = []
    async with connect(debugger, max_size=None) as connection:
        browser = Browser(connection)
        await browser.call("Page.enable")
        await browser.call("Page.addScriptToEvaluateOnNewDocument", source="localStorage.clear()")  # the last palette
        for width, scheme in itertools.product(WIDTHS, ("light", "dark")):
            media = [{"name": "prefers-color-scheme", "value": scheme}]
            await browser.call("Emulation.setEmulatedMedia", features=media)
            screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
            await browser.call("Emulation.setDeviceMetricsOverride", **screen)
            for page in pages:
                await browser.open(f"{site}/{page}/" if page else f"{site}/")
                if scheme == "light":
                    found += [f"{page or 'home'} at {width} pixels: {wide}" for wide in await browser.value(_TOO_WIDE)]
                height = min(MAX_HEIGHT, await browser.value("document.documentElement.scrollHeight"))
                clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
                picture = await browser.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
                name = f"{page.replace('/', '_') or 'home'}-{width}-{scheme}.png"
                (folder / name).write_bytes(base64.b64decode(picture["data"]))
    return found


@contextlib.contextmanager
def served() -> Iterator[str]:
    """Serve the site on this machine and yield its address."""

    class Silent(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Silent, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@contextlib.contextmanager
def started() -> Iterator[str]:
    """Start Chromium and yield the address of a tab's debugger."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = ["--headless", "--no-sandbox", "--hide-scrollbars", "--remote-debugging-port=0", "about:blank"]
        command = [os.environ.get("CHROMIUM", "chromium"), f"--user-data-dir={profile}", *flags]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            port_file = Path(profile) / "DevToolsActivePort"
            while not port_file.exists() or "\n" not in port_file.read_text():
                if process.poll() is not None:
                    raise SystemExit(f"{command[0]} ended with {process.returncode} before it could be used")
                time.sleep(0.1)
            yield _tab(port_file.read_text().splitlines()[0])
        finally:
            process.terminate()
            process.wait()


def _tab(port: str) -> str:
    import urllib.request

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
        return str(next(tab for tab in json.load(answer) if tab["type"] == "page")["webSocketDebuggerUrl"])


def main() -> None:
    """Photograph the pages that are named, or all."""
    if len(sys.argv) < 2 or not SITE.exists():
        raise SystemExit(f"python scripts/site_pictures.py FOLDER [PAGE ...], after `make docs` ({SITE})")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    every = sorted({str(page.parent.relative_to(SITE)) for page in SITE.rglob("index.html")})
    pages = ["" if page == "." else page for page in sys.argv[2:] or every]
    with served() as site, started() as debugger:
        found = asyncio.run(photograph(folder, pages, site, debugger))
    print("\n".join(found) or f"{len(pages)} pages: nothing is wider than the screen")
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
