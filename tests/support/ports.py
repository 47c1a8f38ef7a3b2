"""Free ports of this machine."""

import socket
from contextlib import ExitStack


def free(count):
    """Different ports of the loopback interface that nothing uses."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
