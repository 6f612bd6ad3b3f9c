"""The clouds' notices, from a metadata service on loopback: a stand-in that answers as they do."""

import json
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headrace.flows.notices import SHORTEST_NOTICE_S, Aws, Azure, Gcp, find_cloud

AWS = "/latest/meta-data/spot/instance-action"
GCP = "/computeMetadata/v1/instance/"
AZURE_NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
AZURE = "/metadata/scheduledevents?api-version=2020-07-01"


class Service(ThreadingHTTPServer):
    """Answers what `pages` says, to those who send the cloud's header."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages, self.tokens, self.asked = {}, [], []
        self.base = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    def do_PUT(self):
        known = self.server.tokens is not None and self.path == "/latest/api/token"
        if not known or self.headers["X-aws-ec2-metadata-token-ttl-seconds"] is None:
            return self._say(404)
        self.server.tokens.append(f"token {len(self.server.tokens)}")
        return self._say(200, self.server.tokens[-1])

    def do_GET(self):
        self.server.asked.append(self.path)
        found = self.server.pages.get(self.path)
        if (
            self.path == AWS
            and self.headers["X-aws-ec2-metadata-token"] not in self.server.tokens[-1:]
        ):
            return self._say(401)
        if self.path.startswith(GCP) and self.headers["Metadata-Flavor"] != "Google":
            return self._say(403)
        if self.path.startswith("/metadata/") and self.headers["Metadata"] != "true":
            return self._say(400)
        return self._say(404) if found is None else self._say(200, found)

    def _say(self, code, text=""):
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def service():
    with Service() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()


def in_seconds(seconds):
    return datetime.now(UTC) + timedelta(seconds=seconds)


def aws_action(seconds):
    time = in_seconds(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")
    return json.dumps({"action": "terminate", "time": time})


def azure_events(*events):
    return json.dumps({"DocumentIncarnation": 1, "Events": events})


def preempt(machine, seconds=30, kind="Preempt"):
    return {
        "EventId": "1",
        "EventType": kind,
        "ResourceType": "VirtualMachine",
        "Resources": [machine],
        "EventStatus": "Scheduled",
        "NotBefore": format_datetime(in_seconds(seconds), usegmt=True),
    }


def test_aws_says_when(service):
    cloud = Aws(service.base)
    assert cloud.seconds_left() is None
    service.pages[AWS] = aws_action(120)
    assert cloud.seconds_left() == pytest.approx(120, abs=3)


def test_a_token_that_has_run_out_is_renewed(service):
    cloud = Aws(service.base)
    assert cloud.here()
    service.pages[AWS] = aws_action(60)
    service.tokens.append("another")  # the first one is known no more
    assert cloud.seconds_left() == pytest.approx(60, abs=3)
    assert len(service.tokens) == 3


@pytest.mark.parametrize("text", ["", "[]", '{"action": "stop"}', '{"time": "soon"}'])
def test_a_notice_whose_time_can_not_be_read_is_one(service, text):
    cloud = Aws(service.base)
    service.pages[AWS] = text
    assert cloud.seconds_left() == SHORTEST_NOTICE_S


def test_gcp_says_that_it_will_be(service):
    cloud = Gcp(service.base)
    service.pages |= {f"{GCP}preempted": "FALSE", f"{GCP}maintenance-event": "NONE"}
    assert cloud.seconds_left() is None
    service.pages[f"{GCP}maintenance-event"] = "TERMINATE_ON_HOST_MAINTENANCE"
    assert cloud.seconds_left() == SHORTEST_NOTICE_S
    service.pages |= {f"{GCP}preempted": "TRUE", f"{GCP}maintenance-event": "NONE"}
    assert cloud.seconds_left() == SHORTEST_NOTICE_S


def test_azure_says_when_and_of_whom(service):
    cloud = Azure(service.base)
    service.pages |= {AZURE_NAME: "mine", AZURE: azure_events()}
    assert cloud.seconds_left() is None
    service.pages[AZURE] = azure_events(preempt("another"), preempt("mine", kind="Freeze"))
    assert cloud.seconds_left() is None
    service.pages[AZURE] = azure_events(preempt("another", 5), preempt("mine", 40))
    assert cloud.seconds_left() == pytest.approx(40, abs=3)


def test_a_service_that_breaks_is_an_error_of_the_network(service):
    service.tokens = None
    with pytest.raises(OSError, match="404"):
        Aws(service.base)._renew()
    with pytest.raises(OSError, match="refused"):
        Gcp("http://127.0.0.1:9").seconds_left()


@pytest.mark.parametrize(
    ("name", "pages"),
    [
        ("aws", {}),
        ("gcp", {f"{GCP}preempted": "FALSE"}),
        ("azure", {AZURE_NAME: "mine"}),
    ],
)
def test_the_cloud_is_the_one_that_answers(service, name, pages):
    service.pages |= pages
    if name != "aws":
        service.tokens = None
    assert find_cloud("auto", service.base).name == name


def test_elsewhere_there_is_none(service):
    service.tokens = None
    assert find_cloud("auto", service.base) is None
    assert find_cloud("none", service.base) is None
    assert find_cloud("azure", service.base).name == "azure"
