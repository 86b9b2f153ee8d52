"""What a worker of the embedded engine does: hear a task, run it, say how it ended.

Messages are JSON, a line each. Whatever an experiment prints goes to standard error.
"""

import json
import os
import queue
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from .engine import Task
from .work import Worker


def main() -> None:
    """Work until the driver closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver
    answers = os.fdopen(os.dup(1), "wb", buffering=0)  # not inherited by programs started here
    os.dup2(2, 1)
    heard: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(heard,), daemon=True).start()
    begin = heard.get()
    with Worker(Path(begin["root"]), begin["figures"]) as worker:
        answers.write(b'{"ready": true}\n')
        while True:
            ended = worker.run(Task(*heard.get()["run"]))
            answers.write(json.dumps({"ended": list(ended)}).encode() + b"\n")


def end_with_driver() -> None:
    """End this process when the driver closes its pipe, or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def listen() -> None:
        while sys.stdin.buffer.read(1):
            pass
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()


def _listen(heard: "queue.Queue[dict[str, Any]]") -> None:
    """Pass on what the driver says; without a driver, end at once: the store is whole."""
    for line in sys.stdin.buffer:
        heard.put(json.loads(line))
    os._exit(0)
