"""The soak: sessions and browsers against one server in public mode for a while, a quarter of them hostile.

`make soak MINUTES=10` runs it long and writes docs/load.md; tests/load/test_soak.py runs it short. Every answer to a benign call
is compared with the same call made in one process before (expected.py). What is counted must be nothing or within its
bound; `Report.failures()` says what is not.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.load import traffic
from tests.load.client import Client, End, send_only
from tests.load.expected import Reader, expected, single_process, view_of
from tests.load.server import MIB, ROOT, Server, running, seed, wait_until
from tests.load.traffic import Call

PAGE = ROOT / "docs" / "load.md"
GROWTH_BYTES = 50 * MIB
P95_S, P99_S = 2.0, 4.0
ZOMBIE_S = 2.0  # a child that ended is reaped within this
FLOOD = 20  # calls at once of a session that floods
BESIDE, BESIDE_S = 2.0, 0.25  # a visitor's p95 beside a flood: so many times that of one alone, or so long
TYPED = (
    "system_and_turns",
    "chinese_and_emoji",
    "crlf_and_spaces",
    "think_tags_in_content",
    "single_user",
)  # by browsers


@dataclass(frozen=True, slots=True)
class Settings:
    """How long and how much. `hostile`: the part of the sessions that means harm; `calls`: how many different benign
    calls; `enough`: benign calls, hostile calls and pages after which it ends before its time, all three reached."""

    seconds: float
    sessions: int = 16
    hostile: float = 0.25
    browsers: int = 1
    seed: int = 0
    warm_up_s: float = 5.0
    think_s: tuple[float, float] = (0.1, 0.6)
    calls: int = 10_000
    enough: tuple[int, int, int] | None = None
    beside: int = 0  # calls of one visitor alone, and as many beside a flood, after the rest


@dataclass(slots=True, eq=False)
class Tally:
    """What came of all calls. Thread-safe."""

    ends: Counter[tuple[str, str]] = field(default_factory=Counter)  # (who, how)
    kinds: Counter[str] = field(default_factory=Counter)
    seconds: list[tuple[float, float]] = field(default_factory=list)  # (when, how long) of benign calls
    wrong: list[str] = field(default_factory=list)
    over: list[str] = field(default_factory=list)  # benign calls that met a limit of time or memory
    lost: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    busy: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, who: str, call: Call, end: End, right: bool = True) -> None:
        """Count an end; `right`: the answer is the expected one."""
        what = f"{who} {call.name} {call.key}: {end.what} {end.kind} {end.why}"
        with self.lock:
            over = not right and (end.kind in ("TimeLimit", "MemoryLimit") or "than the limit of" in str(end.value))
            self.ends[who, "over" if over else end.what if right else "wrong"] += 1
            self.busy += end.busy + (end.what == "busy")
            if end.what == "error":
                self.kinds[end.kind] += 1
            if who == "benign":
                self.seconds.append((time.monotonic(), end.seconds))
            if end.what == "lost" or (end.what == "error" and end.kind == "untyped"):
                self.lost.append(f"{what} {str(end.value)[:200]}")
            if not right:
                (self.over if over else self.wrong).append(f"{what} {str(end.value)[:300]}")
            self.leaks += [f"{what} holds {place}" for place in end.leaks]

    def count(self, who: str) -> int:
        """How many calls of these sessions have ended."""
        with self.lock:
            return sum(count for (whose, _how), count in self.ends.items() if whose == who)


@dataclass(slots=True)
class Report:
    """What the soak found; `markdown` prints it."""

    settings: Settings
    tally: Tally
    pages: Counter[str]
    rss: tuple[int, int] = (0, 0)  # after the warm-up, at the end
    zombies: int = 0
    files: list[str] = field(default_factory=list)
    cache: tuple[int, int] = (0, 0)  # bytes, bound
    beside: tuple[float, float] = (0.0, 0.0)  # p95 of one visitor alone, and beside a flood; seconds
    children: tuple[int, int, int] = (0, 0, 0)  # before, most, after
    faults: list[str] = field(default_factory=list)

    def quantiles(self) -> tuple[float, float, float]:
        """p50, p95 and p99 of the benign calls after the warm-up, seconds."""
        p50, p95, p99 = (quantile([seconds for _when, seconds in self.tally.seconds], q) for q in (0.5, 0.95, 0.99))
        return p50, p95, p99

    def failures(self, *, times: bool) -> list[str]:
        """Say what is not as it must be; `times`: the bars of how long it takes too."""
        ends, (_p50, p95, p99) = self.tally.ends, self.quantiles()
        checks = [
            (not self.tally.wrong, f"{len(self.tally.wrong)} wrong: {self.tally.wrong[:5]}"),
            (not self.tally.lost, f"{len(self.tally.lost)} lost: {self.tally.lost[:5]}"),
            (not self.tally.leaks, f"{len(self.tally.leaks)} answers with a place of the machine: {self.tally.leaks[:5]}"),
            (ends["benign", "answer"] > 0 and ends["hostile", "error"] > 0, f"nothing was asked: {dict(ends)}"),
            (ends["benign", "busy"] == 0, f"{ends['benign', 'busy']} benign calls were refused to the end"),
            (self.rss[1] - self.rss[0] <= GROWTH_BYTES, f"the web process grew by {(self.rss[1] - self.rss[0]) / MIB:.0f} MiB"),
            (not self.zombies, f"{self.zombies} zombies"),
            (not self.files, f"files were left: {self.files[:5]}"),
            (self.cache[0] <= self.cache[1], f"the cache holds {self.cache[0]:,} bytes of {self.cache[1]:,}"),
            (self.children[2] <= self.children[0], f"{self.children[2]} children stay, {self.children[0]} were there before"),
            (not self.faults, f"the harness or a page failed: {self.faults[:3]}"),
            (self.settings.browsers == 0 or self.pages["right"] > 0, "no page was read"),
            (not self.pages["wrong"], f"{self.pages['wrong']} wrong pages"),
            (not times or not self.tally.over, f"{len(self.tally.over)} benign calls met a limit: {self.tally.over[:3]}"),
            (not times or p95 <= P95_S, f"p95 {p95:.2f} s"),
            (not times or p99 <= P99_S, f"p99 {p99:.2f} s"),
            (not times or self.beside[1] <= max(BESIDE * self.beside[0], BESIDE_S), f"p95 beside a flood {self.beside[1]:.2f} s"),
        ]  # fmt: skip
        return [said for holds, said in checks if not holds]

    def markdown(self) -> str:
        """Print the table."""
        s, ends, (p50, p95, p99) = self.settings, self.tally.ends, self.quantiles()
        benign, hostile = self.tally.count("benign"), self.tally.count("hostile")
        kinds = ", ".join(f"{kind} {count}" for kind, count in self.tally.kinds.most_common(8))
        rows = [
            ("sessions over HTTP, of them hostile", f"{s.sessions}, {round(s.sessions * s.hostile)}", ""),
            ("browsers; pages read, wrong", f"{s.browsers}; {self.pages['right'] + self.pages['wrong']}, {self.pages['wrong']}", "0 wrong"),
            ("time, seed, cores", f"{s.seconds / 60:.1f} min, {s.seed}, {os.cpu_count()}", ""),
            ("benign calls", f"{benign:,} ({benign / s.seconds:.1f} a second)", ""),
            ("wrong answers", f"{len(self.tally.wrong)}", "0"),
            ("benign calls that met a limit", f"{len(self.tally.over)}", "0"),
            ("hostile calls", f"{hostile:,}", ""),
            ("lost calls, of all", f"{len(self.tally.lost)}", "0"),
            ("refused as busy; benign calls refused to the end", f"{self.tally.busy:,}; {ends['benign', 'busy']}", "0 to the end"),
            ("benign p50 / p95 / p99", f"{p50:.2f} / {p95:.2f} / {p99:.2f} s", f"p95 {P95_S:g}, p99 {P99_S:g} s"),
            (f"one visitor's p95 of {s.beside} views: alone / beside a session that floods", f"{self.beside[0]:.2f} / {self.beside[1]:.2f} s", f"{BESIDE:g} × alone, or {BESIDE_S:g} s"),
            ("web process, after the warm-up and at the end", f"{self.rss[0] / MIB:.0f} and {self.rss[1] / MIB:.0f} MiB", f"+ {GROWTH_BYTES // MIB} MiB"),
            ("zombies", f"{self.zombies}", "0"),
            ("temporary files left", f"{len(self.files)}", "0"),
            ("cache", f"{self.cache[0] / 1e6:.0f} MB", f"{self.cache[1] / 1e6:.0f} MB"),
            ("children before, at most, after", " / ".join(map(str, self.children)), "as before"),
            ("answers with a place or a secret of the machine", f"{len(self.tally.leaks)}", "0"),
            ("errors by kind", kinds, "typed"),
        ]  # fmt: skip
        lines = ["| | measured | bound |", "| --- | --- | --- |"]
        return "\n".join([*lines, *(f"| {name} | {value} | {bound} |" for name, value, bound in rows)])


def quantile(values: Sequence[float], part: float) -> float:
    """Give the value that this part of all lies below; 0 where there is none."""
    found = sorted(values)
    return found[min(len(found) - 1, int(len(found) * part))] if found else 0.0


# ------------------------------------------------------------------------------------------------------------ sessions


@dataclass(slots=True, eq=False)
class Soak:
    """One run against a server. `wanted`: the digest of each benign call's right answer."""

    server: Server
    settings: Settings
    calls: list[Call]
    wanted: dict[str, str]
    typed: dict[str, tuple[list[int], str]]  # conversation -> the ids and the text that the page must show
    tally: Tally = field(default_factory=Tally)
    pages: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> Report:
        """Run it and report."""
        report = Report(self.settings, self.tally, self.pages)
        before = len(self.server.children())
        num_hostile = round(self.settings.sessions * self.settings.hostile)
        whos: list[Callable[[int], None]] = [
            *[self.attacker] * num_hostile,
            *[self.person] * (self.settings.sessions - num_hostile),
            *[self.browser] * self.settings.browsers,
        ]
        threads = [threading.Thread(target=self._guarded, args=(who, n), daemon=True) for n, who in enumerate(whos)]
        watcher = Watcher(self.server)
        for thread in (*threads, watcher):
            thread.start()
        self._wait(self.settings.warm_up_s)
        warm, began = self.server.rss(), time.monotonic()
        self._wait(self.settings.seconds - self.settings.warm_up_s, self.settings.enough)
        self.stop.set()
        for thread in threads:
            thread.join(120)
        if self.settings.beside:
            report.beside = self.visitor("127.0.4.1"), self.beside_a_flood()
        report.faults = [*self.faults, *(["a session did not end"] if any(t.is_alive() for t in threads) else [])]
        after = wait_until(lambda: (n := len(self.server.children())) <= before and f"{n}", IDLE_WAIT_S)
        report.children = (before, watcher.most, int(after) if after else len(self.server.children()))
        report.zombies = len(watcher.close())
        report.rss = (warm, self.server.rss())
        report.files = [str(path) for path in wait_until_none(self.server.files)]
        report.cache = (self.server.cache_bytes(), int(self.server.environment["INSPECTOR_CACHE_BYTES"]))
        self.tally.seconds = [(when, each) for when, each in self.tally.seconds if when >= began]
        return report

    def _wait(self, seconds: float, enough: tuple[int, int, int] | None = None) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self.faults:
            time.sleep(0.2)
            reached = (self.tally.count("benign"), self.tally.count("hostile"), self.pages.total())
            if enough and all(count >= needed for count, needed in zip(reached, enough)):
                return

    def _guarded(self, who: Callable[[int], None], number: int) -> None:
        try:
            who(number)
        except BaseException:
            self.faults.append(traceback.format_exc(limit=-4))

    def client(self, address: str) -> Client:
        """A new session of the visitor at an address."""
        return Client(self.server.url, self.server.component, self.server.places(), address=address)

    def person(self, number: int) -> None:
        """Ask, check, think, ask again; now and then leave and come back as somebody else."""
        chooser = random.Random(f"{self.settings.seed}-person-{number}")
        address = f"127.0.1.{number + 1}"
        client, reader = self.client(address), Reader()
        while not self.stop.is_set():
            call = traffic.for_session(traffic.draw(chooser, self.calls), client.session)
            if call.name == "view":
                call.value["base"] = reader.base()
            end = (client.page if call.way == "page" else client.endpoint)(call.name, call.value)
            right = end.what in ("lost", "busy") or (
                end.value is not None and reader.digest(call, end.value) == self.wanted[call.key]
            )
            self.tally.add("benign", call, end, right)
            if chooser.random() < 0.02:
                client.leave()
                client, reader = self.client(address), Reader()
            self.stop.wait(chooser.uniform(*self.settings.think_s))
        client.leave()

    def attacker(self, number: int) -> None:
        """Attack without a pause, in every way there is."""
        chooser = random.Random(f"{self.settings.seed}-attacker-{number}")
        address = f"127.0.2.{number + 1}"
        client = self.client(address)
        while not self.stop.is_set():
            way = chooser.random()
            if way < 0.75:
                for call in traffic.hostile(chooser, client.session):
                    self._attack(client, call)
            elif way < 0.9:
                self._attack(client, traffic.malformed(chooser, client.session))
            elif way < 0.95:
                self.flood(chooser, client)
            else:
                call = next(traffic.hostile(chooser, client.session))
                with send_only(client, call.name, call.value):
                    self.stop.wait(chooser.random())
            if chooser.random() < 0.1:
                client.leave()
                client = self.client(address)
        client.leave()

    def _attack(self, client: Client, call: Call) -> None:
        ask = client.page if call.way == "page" else client.endpoint
        self.tally.add("hostile", call, ask(call.name, call.value, again=False))

    def visitor(self, address: str) -> float:
        """Ask for views one after the other as a new visitor; give the p95 of how long they took."""
        chooser, client, reader = random.Random(self.settings.seed), self.client(address), Reader()
        views, seconds = [call for call in self.calls if call.name == "view"], []
        for _ in range(self.settings.beside):
            call = traffic.for_session(chooser.choice(views), client.session)
            call.value["base"] = reader.base()
            end = client.page(call.name, call.value)
            right = end.value is not None and reader.digest(call, end.value) == self.wanted[call.key]
            self.tally.add("visitor", call, end, right)
            seconds.append(end.seconds)
        client.leave()
        return quantile(seconds, 0.95)

    def beside_a_flood(self) -> float:
        """Give the same while one session floods without a pause."""
        flooder, done = self.client("127.0.4.2"), threading.Event()

        def flood() -> None:
            chooser = random.Random(self.settings.seed)
            while not done.is_set():
                self.flood(chooser, flooder)

        thread = threading.Thread(target=flood, daemon=True)
        thread.start()
        time.sleep(1)
        try:
            return self.visitor("127.0.4.3")
        finally:
            done.set()
            thread.join(90)

    def flood(self, chooser: random.Random, flooder: Client) -> None:
        """Ask many times at once in the name of one session."""
        calls = [traffic.for_session(traffic.draw(chooser, self.calls), flooder.session) for _ in range(FLOOD)]

        def one(call: Call) -> None:
            client = self.client(flooder.address)
            client.session = flooder.session
            self._attack(client, call)
            client.close()

        threads = [threading.Thread(target=one, args=(call,), daemon=True) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(90)

    def browser(self, number: int) -> None:
        """Type conversations into the page and read what it shows."""
        from playwright import sync_api

        from tests.page import CHROMIUM_NAMES, Inspector

        chooser = random.Random(f"{self.settings.seed}-browser-{number}")
        installed = next((path for name in CHROMIUM_NAMES if (path := shutil.which(name))), None)
        with sync_api.sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=installed, args=["--no-sandbox"])
            page = Inspector(chromium, self.server.url)
            while not self.stop.is_set():
                name = chooser.choice(TYPED)
                page.type_in("messages", traffic.fields(traffic.conversation(name))["messages"])
                shown = page.pane(0)
                right = (shown["ids"], shown["text"]) == self.typed[name]
                self.pages["right" if right else "wrong"] += 1
                if not right:
                    self.faults.append(f"the page shows other tokens for {name}: {shown['text'][:200]!r}")
                self.stop.wait(chooser.uniform(*self.settings.think_s))
            self.faults += [f"the page's script: {fault}" for fault in page.faults if not _refusal(fault)]
            chromium.close()


IDLE_WAIT_S = 40.0


def _refusal(fault: str) -> bool:
    """Chromium writes every answer that is no 200 to the console; the page deals with a refusal as busy itself."""
    return "status of 429" in fault or "status of 503" in fault


def wait_until_none(listed: Callable[[], list[Path]], seconds: float = 10.0) -> list[Path]:
    """Give what is still listed when the time is over."""
    wait_until(lambda: not listed(), seconds)
    return listed()


class Watcher(threading.Thread):
    """Looks at the processes twice a second: the most children, and zombies that are not reaped for a while."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self.server, self.most, self._done = server, 0, threading.Event()
        self._seen: dict[int, float] = {}
        self._old: set[int] = set()

    def run(self) -> None:
        """Look until closed."""
        while not self._done.wait(0.5):
            self.look()

    def look(self) -> None:
        """Look once."""
        now, zombies = time.monotonic(), self.server.zombies()
        self.most = max(self.most, len(self.server.children()))
        self._seen = {pid: self._seen.get(pid, now) for pid in zombies}
        self._old |= {pid for pid, since in self._seen.items() if now - since > ZOMBIE_S}

    def close(self) -> set[int]:
        """Stop; give the zombies that stayed."""
        self._done.set()
        self.join()
        time.sleep(ZOMBIE_S)
        return self._old | (self.server.zombies() & set(self._seen))


def prepared(server: Server, settings: Settings) -> Soak:
    """Work out in this process what all answers must be."""
    calls = traffic.catalogue()
    if len(calls) > settings.calls:
        calls = random.Random(settings.seed).sample(calls, settings.calls)
    with single_process():
        wanted = {call.key: expected(call) for call in calls}
        typed = {name: view_of(traffic.first_pane(name)) for name in TYPED}
    return Soak(server, settings, calls, wanted, typed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the soak from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.load.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--sessions", type=int, default=16)
    parser.add_argument("--browsers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="put the table into docs/load.md")
    given = parser.parse_args(arguments)
    seconds = given.minutes * 60
    settings = Settings(seconds, given.sessions, 0.25, given.browsers, given.seed, min(60.0, seconds / 5), beside=60)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        report = soak_in(Path(folder), settings)
    print(report.markdown())
    failures = report.failures(times=True)
    print("\n".join(f"FAILED: {failure}" for failure in failures) or "all within bounds")
    if given.write:
        _write(report)
    return 1 if failures else 0


def soak_in(folder: Path, settings: Settings) -> Report:
    """Start a server in an empty folder and soak it."""
    seed(folder / "cache-7c1f", traffic.PRESETS, traffic.TEMPLATES)
    with running(folder, environment=ENVIRONMENT) as server:
        return prepared(server, settings).run()


# A session's child goes soon after the last call, so that the end of the soak need not wait for it.
ENVIRONMENT: dict[str, Any] = {"INSPECTOR_CACHE_BYTES": str(400_000_000), "INSPECTOR_LIMIT_IDLE_S": "8"}
BEGIN, END = "<!-- the soak's table: make soak -->", "<!-- end of the soak's table -->"


def _write(report: Report) -> None:
    before, _begin, rest = PAGE.read_text("utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{report.markdown()}\n{END}{after}", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
