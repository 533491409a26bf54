"""The soak until a few dozen calls were made, then a server that is told to end in the middle of its work.

No time is asserted here: `make soak` does, on a machine that does nothing else.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator

import pytest

from tests.fake_hub import sha256
from tests.load import traffic
from tests.load.client import Client, End
from tests.load.expected import Reader
from tests.load.server import Server, below, processes, running, seed, wait_until
from tests.load.soak import ENVIRONMENT, Settings, Soak, prepared
from tests.load.traffic import asked, conversation, pane
from tests.page import unavailable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")

SHORT = Settings(seconds=90, sessions=8, browsers=1, warm_up_s=4, calls=30, enough=(60, 20, 2))
# Other tests run beside this one: a child waits for its turn longer than the wall clock of a quiet page allows.
UNHURRIED = {"INSPECTOR_LIMIT_WALL_S": "60", "INSPECTOR_LIMIT_LOAD_WALL_S": "60", "INSPECTOR_LIMIT_HEAVY_WALL_S": "60"}
ENDS_S = 8.0  # what Spaces give a server before they kill it is longer


@pytest.fixture(scope="module")
def soak(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Soak]:
    folder = tmp_path_factory.mktemp("soak")
    seed(folder / "cache-7c1f", traffic.PRESETS, traffic.TEMPLATES)
    with running(folder, environment=ENVIRONMENT | UNHURRIED) as server:
        yield prepared(server, SHORT)


def test_nothing_is_wrong_lost_leaked_or_left(soak: Soak, browser_installed: None) -> None:
    report = soak.run()
    print(report.markdown())
    assert report.failures(times=False) == []


@pytest.fixture
def browser_installed() -> None:
    try:
        from playwright import sync_api  # noqa: F401
    except ImportError:
        unavailable("no playwright: run make test, which installs it")


def test_the_server_ends_under_load_and_starts_again(soak: Soak) -> None:
    """What runs is given up, nothing of it stays, nothing half is written; what was kept is there afterwards."""
    server = soak.server
    client = Client(server.url, server.component, server.places())
    kept = client.page("share_keep", {"session": client.session, "state": '{"schema":"page-state/1","tide":1}'}).value
    assert kept["error"] is None
    ends: list[End] = []
    threads = [threading.Thread(target=_ask_on, args=(server, number, ends), daemon=True) for number in range(12)]
    for thread in threads:
        thread.start()
    threads[0].join(1.5)  # they are all at it
    family = {process.pid for process in below(server.process.pid)}
    assert len(family) > 1
    assert server.end(signal.SIGTERM) < ENDS_S
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert wait_until(lambda: not family & {pid for pid, each in processes().items() if each.state != "Z"}, ENDS_S)
    assert {end.what for end in ends} <= {"answer", "error", "busy", "lost"} and ends
    assert server.files() == []
    for path in server.cache.glob("files/*/*/*"):
        assert sha256(path.read_bytes()) == path.parent.name
    assert all(path.suffix == ".share" for path in (server.cache / "shares").iterdir())
    server.start()
    again = Client(server.url, server.component, server.places())
    opened = again.page("share_open", {"session": again.session, "id": kept["id"]})
    assert json.loads(opened.value["state"])["tide"] == 1
    call = traffic.for_session(soak.calls[0], again.session)
    end = (again.page if call.way == "page" else again.endpoint)(call.name, call.value)
    assert Reader().digest(call, end.value) == soak.wanted[call.key]


def _ask_on(server: Server, number: int, ends: list[End]) -> None:
    """Ask until the server is gone: renders that take long, uploads, shares."""
    client = Client(server.url, server.component, server.places(), address=f"127.0.3.{number + 1}")
    endless = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}"
    state = '{"schema":"page-state/1","pad":"' + "tide" * 100_000 + '"}'
    while not ends or ends[-1].what != "lost":
        if number % 2:
            ends.append(client.page("share_keep", {"session": client.session, "state": state}))
        else:
            shown = pane("bytes", template_text=endless)
            ends.append(client.page("view", asked(client.session, conversation("single_user"), shown)))
