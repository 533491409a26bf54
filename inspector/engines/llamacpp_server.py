"""The far side of llamacpp_engine.py: one process that serves one template with llama.cpp's own server on loopback.

`main` prints one JSON line, `{"address": …}` or `{"error": …}`, and ends when its standard input does: it never
outlives the process that started it.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from typing import Any


def main(config: dict[str, Any]) -> None:
    """Serve `config`: model, key, cpu_seconds; the template's text is the first line of standard input, as JSON.

    The port is the system's choice; every request must carry the key.
    """
    resource.setrlimit(resource.RLIMIT_CPU, (config["cpu_seconds"], config["cpu_seconds"] + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = config["model"]
    parameters.chat_template = json.loads(sys.stdin.readline())
    parameters.use_jinja = True
    parameters.hostnames, parameters.port, parameters.api_keys = ["127.0.0.1"], 0, [config["key"]]
    # Nothing is generated here: the smallest context, no warm-up, no page.
    parameters.n_ctx, parameters.n_parallel, parameters.cpuparams.n_threads = 64, 1, 1
    parameters.warmup, parameters.ui = False, False
    try:
        server = xllamacpp.Server(parameters)
    except Exception as error:
        print(json.dumps({"error": str(error)}), flush=True)
        os._exit(1)
    print(json.dumps({"address": server.listening_address}), flush=True)
    sys.stdin.read()
    os._exit(0)  # the server's own threads would wait for requests
