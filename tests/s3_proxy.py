"""A proxy before the tests' S3 server: it counts requests, and does to some of them what stores do.

Signatures hold, since the client's Host header is passed on. One connection a request.
"""

import http.client
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOP = {"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "content-length"}
SLOW_DOWN = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Reduce your request rate."
    b"</Message></Error>"
)
DENIED = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>No.</Message></Error>"
EXPIRED = (
    b"<?xml version='1.0'?><Error><Code>ExpiredToken</Code><Message>The provided token has expired."
    b"</Message></Error>"
)
CONFLICT = (
    b"<?xml version='1.0'?><Error><Code>ConditionalRequestConflict</Code><Message>Try again."
    b"</Message></Error>"
)


@dataclass
class Request:
    """One request on its way: the how-many-th it is, and what it asks for."""

    number: int  # from 1
    method: str
    path: str  # with the query
    headers: dict  # by lower-case name


@dataclass
class Proxy:
    """What it saw, and `fault`, which says what to do to a request before it is passed on.

    `fault` returns None (pass it on) or one of the names in `Handler.handle_any`.
    """

    target: tuple[str, int]
    fault: object = None
    seen: list = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    endpoint: str = ""

    def note(self, method, path, headers):
        with self.lock:
            named = {name.lower(): value for name, value in headers.items()}
            request = Request(len(self.seen) + 1, method, path, named)
            self.seen.append(request)
            return request, self.fault(request) if self.fault is not None else None


class Handler(BaseHTTPRequestHandler):
    """Passes a request on, or spoils it."""

    protocol_version = "HTTP/1.1"
    proxy: Proxy
    STALL_S = 3_600

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        _, fault = self.proxy.note(self.command, self.path, self.headers)
        if fault == "reset":
            self.reset()
        elif fault == "slow down":
            self.answer(503, SLOW_DOWN)
        elif fault == "error":
            self.answer(500, b"")
        elif fault == "denied":
            self.answer(403, DENIED)
        elif fault == "expired":
            self.answer(400, EXPIRED)
        elif fault == "conflict":
            self.answer(409, CONFLICT)
        elif fault == "stall":
            self.stall()
        else:
            self.pass_on(body, fault)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any

    def pass_on(self, body, fault):
        """`truncated`: half of the answer's body. `lost`: the server did it, and never answers."""
        connection = http.client.HTTPConnection(*self.proxy.target, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        data = response.read()
        connection.close()
        if fault == "lost":
            self.reset()
            return
        self.send_response(response.status)
        for name, value in response.getheaders():
            if name.lower() not in HOP | {"date", "server"}:
                self.send_header(name, value)
        length = response.getheader("Content-Length") if self.command == "HEAD" else len(data)
        self.send_header("Content-Length", str(length or 0))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if fault == "truncated" else data)
        self.close_connection = True

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)
        self.close_connection = True

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.rfile.close()  # which holds the socket open
        self.connection.close()
        self.close_connection = True

    def stall(self):
        """Until the client has had enough."""
        self.connection.settimeout(0.2)
        end = time.monotonic() + self.STALL_S
        while time.monotonic() < end:
            try:
                if self.connection.recv(1, socket.MSG_PEEK) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        self.close_connection = True

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        """A client that was killed, or a connection that was reset, is what is tested."""


@contextmanager
def running(endpoint):
    """Stand before a server at `endpoint`."""
    host, _, port = endpoint.removeprefix("http://").partition(":")
    proxy = Proxy((host, int(port)))
    handler = type("Bound", (Handler,), {"proxy": proxy})
    with Server(("127.0.0.1", 0), handler) as server:
        proxy.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
