"""A JupyterHub for real local users, who exist only for it and for what it starts."""

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from contextlib import contextmanager
from pathlib import Path

import psutil
import websocket

from tests.support import ports, users

MEMBERS, OUTSIDER = ("am-ann", "am-ben"), "am-cat"
"""Users in the group of those who may trace, and one who is not in it."""
GROUP = "am-tracers"
IDS = {name: 61011 + number for number, name in enumerate((*MEMBERS, OUTSIDER))}
_GROUP_ID = 61020
_PROXY = Path(sys.executable).with_name("configurable-http-proxy")
_TOKEN = secrets.token_hex()
_WITHIN_S = 120
_CONFIG = """
c = get_config()
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{hub_port}"
c.JupyterHub.db_url = "sqlite:///{folder}/hub.sqlite"
c.JupyterHub.cookie_secret_file = "{folder}/cookie_secret"
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = "localprocess"
c.Spawner.cmd = [{python!r}, "-m", "jupyterhub.singleuser"]
c.Spawner.environment = {environment!r}
c.Spawner.http_timeout = c.Spawner.start_timeout = {within_s}
c.JupyterHub.tornado_settings = {{"slow_spawn_timeout": 0}}  # servers start side by side
c.ConfigurableHTTPProxy.command = [{proxy!r}]
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy_port}"
c.ConfigurableHTTPProxy.pid_file = "{folder}/proxy.pid"
c.JupyterHub.services = [{{"name": "test", "api_token": "{token}"}}]
c.JupyterHub.load_roles = [
    {{"name": "test", "services": ["test"], "scopes": ["admin:users", "admin:servers", "access:servers"]}}
]
"""


def missing():
    """What a hub needs and is not installed; '' if nothing is missing."""
    try:
        import jupyterhub  # noqa: F401
    except ImportError:
        return "jupyterhub"
    return "" if _PROXY.exists() else "configurable-http-proxy"


@contextmanager
def accounts():
    """A folder that every user may enter, and the files of `namespace` with which our users have names and homes."""
    folder = Path(tempfile.mkdtemp(prefix="accel_magic-hub-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        passwd, group = Path("/etc/passwd").read_text(), Path("/etc/group").read_text()
        for name, number in IDS.items():
            home = folder / name
            home.mkdir(mode=0o700)
            os.chown(home, number, number)
            passwd += f"{name}:x:{number}:{number}::{home}:/bin/sh\n"
            group += f"{name}:x:{number}:\n"
        group += f"{GROUP}:x:{_GROUP_ID}:{','.join(MEMBERS)}\n"
        (folder / "passwd").write_text(passwd)
        (folder / "group").write_text(group)
        yield folder, {"/etc/passwd": folder / "passwd", "/etc/group": folder / "group"}
    finally:
        shutil.rmtree(folder)


class Hub:
    """A running hub, which starts its users' servers as local processes.

    Args:
        folder: Where its files are.
        files: The files of `accounts`.
        environment: Variables of its users' servers.

    """

    def __init__(self, folder, files, environment):
        state = folder / "hub"
        state.mkdir(mode=0o700)
        port, hub_port, proxy_port = ports.free(3)
        self._url = f"http://127.0.0.1:{port}"
        (state / "config.py").write_text(
            _CONFIG.format(
                port=port,
                hub_port=hub_port,
                proxy_port=proxy_port,
                folder=state,
                python=sys.executable,
                proxy=str(_PROXY),
                environment=environment,
                within_s=_WITHIN_S,
                token=_TOKEN,
            )
        )
        command = [sys.executable, "-m", "jupyterhub", "--config", state / "config.py"]
        self._log = state / "log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                users.namespace(*command, files=files), cwd=state, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        self._kernels = []
        self._wait_for(lambda: self.ask("GET", "/hub/api/"))

    def _wait_for(self, attempt):
        end = time.monotonic() + _WITHIN_S
        while True:
            try:
                if found := attempt():
                    return found
            except OSError as error:
                last = error
            else:
                last = "not ready"
            assert self.process.poll() is None, self._log.read_text()
            assert time.monotonic() < end, f"{last}\n{self._log.read_text()}"
            time.sleep(0.1)

    def ask(self, method, path, **values):
        """The answer to a request of the REST API, of the hub or of a user's server."""
        request = urllib.request.Request(f"{self._url}{path}", method=method, data=json.dumps(values).encode())
        request.add_header("Authorization", f"token {_TOKEN}")
        with urllib.request.urlopen(request, timeout=_WITHIN_S) as answer:
            text = answer.read()
        return json.loads(text) if text else {}

    def start(self, name):
        """Start a user's server; `kernel` waits for it."""
        self.ask("POST", f"/hub/api/users/{name}")
        self.ask("POST", f"/hub/api/users/{name}/server")

    def kernel(self, name):
        """A new kernel on a user's server."""
        self._wait_for(lambda: self.ask("GET", f"/hub/api/users/{name}")["servers"].get("", {}).get("ready"))
        number = self.ask("POST", f"/user/{name}/api/kernels", name="python3")["id"]
        address = f"{self._url.replace('http', 'ws')}/user/{name}/api/kernels/{number}/channels"
        self._kernels.append(
            Kernel(websocket.create_connection(address, timeout=_WITHIN_S, header=[f"Authorization: token {_TOKEN}"]))
        )
        return self._kernels[-1]

    def server_of(self, name):
        """Process id of a user's server."""
        children = psutil.Process(self.process.pid).children()
        (found,) = [child.pid for child in children if child.uids().real == IDS[name]]
        return found

    def stop(self):
        """End it with everything that it started."""
        for kernel in self._kernels:
            kernel.close()
        started = psutil.Process(self.process.pid).children(recursive=True)
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        _, left = psutil.wait_procs(started, timeout=10)
        for process in left:
            process.kill()


class Kernel:
    """A Jupyter kernel at the other end of a websocket.

    Args:
        connection: The websocket of its channels.

    """

    def __init__(self, connection):
        self._connection = connection
        self._asked = ""

    def start(self, code):
        """Execute code; `printed` waits for its end."""
        self._asked = uuid.uuid4().hex
        header = {"msg_id": self._asked, "msg_type": "execute_request", "username": "", "session": "", "version": "5.3"}
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": True}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        self._connection.send(json.dumps({**message, "buffers": []}))

    def printed(self):
        """What the code printed. Raises AssertionError with the traceback of an error."""
        text = ""
        while True:
            message = json.loads(self._connection.recv())
            if message["parent_header"].get("msg_id") != self._asked:
                continue
            content = message["content"]
            match message["msg_type"]:
                case "stream":
                    text += content["text"]
                case "error":
                    raise AssertionError("\n".join(content["traceback"]))
                case "status" if content["execution_state"] == "idle":
                    return text

    def run(self, code):
        """Execute code, and return what it printed."""
        self.start(code)
        return self.printed()

    def close(self):
        """Close the connection."""
        self._connection.close()
