"""A headless Chromium, driven over the pipe of its DevTools protocol: no package is needed."""

import contextlib
import fcntl
import functools
import http.server
import json
import os
import select
import shutil
import subprocess
import tempfile
import threading

# The software adapter of WebGPU, which every machine has. Root may not use the sandbox.
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-extensions",
    "--hide-scrollbars",
]

# Seconds without a word from the browser after which it counts as hung.
SILENCE = 600


def find():
    """Returns the path of Chromium or Chrome; None where there is none."""
    names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
    return next(filter(None, map(shutil.which, names)), None)


class Failed(Exception):
    """The page, or the browser, failed."""


class Browser:
    """A browser with one page."""

    def __init__(self, program, width=1180, height=900):
        self._number = 0
        self.console = []
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        flags = FLAGS + [f"--user-data-dir={self._folder.name}", f"--window-size={width},{height}"]
        # The browser reads commands from its file 3 and writes to its file 4.
        to_browser, from_browser = os.pipe(), os.pipe()
        high = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_browser[0], from_browser[1])]

        def connect():
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self._process = subprocess.Popen(
            [program, *flags, "about:blank"],
            preexec_fn=connect,
            pass_fds=(3, 4),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (*high, to_browser[0], from_browser[1]):
            os.close(end)
        self._to, self._from = os.fdopen(to_browser[1], "wb"), os.fdopen(from_browser[0], "rb")
        self._rest = b""
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Runtime.enable")

    def call(self, method, **parameters):
        """Sends a command and returns its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._to.write(json.dumps(message).encode() + b"\0")
        self._to.flush()
        while True:
            answer = self._receive()
            self._note(answer)
            if answer.get("id") != self._number:
                continue
            if "error" in answer:
                raise Failed(f"{method}: {answer['error']['message']}")
            return answer["result"]

    def open(self, address):
        """Goes to a page; it may still load afterwards."""
        self.call("Page.navigate", url=address)

    def run(self, expression):
        """Evaluates an expression of JavaScript, awaits it, and returns its value."""
        done = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            details = done["exceptionDetails"]
            text = details.get("exception", {}).get("description") or details.get("text")
            raise Failed(f"{text}\nthe console: {self.console}")
        return done["result"].get("value")

    def screenshot(self, **options):
        """Returns the bytes of a picture of the page."""
        import base64

        return base64.b64decode(self.call("Page.captureScreenshot", **options)["data"])

    def close(self):
        """Ends the browser."""
        self._session = None
        with contextlib.suppress(Exception):
            self.call("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._to.close()
        self._from.close()
        self._folder.cleanup()

    def _receive(self):
        while b"\0" not in self._rest:
            if not select.select([self._from], [], [], SILENCE)[0]:
                raise Failed(f"the browser has not answered for {SILENCE} s")
            more = os.read(self._from.fileno(), 1 << 16)
            if not more:
                raise Failed("the browser has ended")
            self._rest += more
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def _note(self, message):
        """Keeps what the page has written to its console, and errors that nothing caught."""
        parameters = message.get("params", {})
        if message.get("method") == "Runtime.consoleAPICalled":
            values = (str(each.get("value", each.get("description"))) for each in parameters["args"])
            self.console.append(" ".join(values))
        elif message.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.console.append(details.get("exception", {}).get("description", details["text"]))


class _Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".wasm": "application/wasm"}

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def served(folder):
    """Serves a folder on this machine alone; gives its address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
