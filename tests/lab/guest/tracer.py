"""Traces commands one after the other inside the guest, in one Python process: one per line of standard input.

A line is `{"target": file for the recording, "probes", "options", "command", "one_by_one": without kprobe_multi}`. Each
is answered with `{"status", "stdout", "stderr"}` or `{"error", "what", "why", "fix", "code"}`.
"""

import json
import subprocess
import sys
from pathlib import Path
from unittest import mock

from accel_magic.api.trace_options import Options
from accel_magic.engine import session
from accel_magic.engine.helper_processes import warm_up
from accel_magic.errors import AccelMagicError
from accel_magic.kernel import features
from accel_magic.recording import handover


def trace(request):
    attached = session.attach(Options(**request["options"]).plan(tuple(request["probes"])))
    try:
        attached.go()
        done = subprocess.run(request["command"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except BaseException:
        attached.abort()
        raise
    recording = attached.stop("error" if done.returncode else "ok")
    handover.write(recording, Path(request["target"]))
    return {"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


def main():
    warm_up()
    for line in sys.stdin:
        request = json.loads(line)
        refuse = mock.patch.object(features, "has_kprobe_multi", return_value=False)
        if request["one_by_one"]:
            refuse.start()
        try:
            answer = trace(request)
        except AccelMagicError as error:
            parts = {name: getattr(error, name) for name in ("what", "why", "fix", "code")}
            answer = {"error": type(error).__name__, **parts}
        finally:
            if request["one_by_one"]:
                refuse.stop()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
