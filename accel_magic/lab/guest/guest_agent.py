"""Runs the host's commands inside the guest: `python -I -S guest_agent.py PORT`, with the standard library only.

A single thread waits on the port, and on the output and exit of its processes. Every command runs in its own session,
so that a signal reaches its child processes too.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import struct
import sys
import termios
import time

if __name__ == "__main__":  # run as a script: importing the package would load too much
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    from guest_frames import Command, GuestFacts, GuestFrameKind, Resumption, Unpacker, pack  # type: ignore[import-not-found, unused-ignore]
else:
    from accel_magic.lab.guest.guest_frames import Command, GuestFacts, GuestFrameKind, Resumption, Unpacker, pack

_PIECE = 1 << 16
RESUME_FOLDER = "/run/accel_magic/resume"
"""Where init waits when a snapshot is made: it reads `configuration` after a line in `go`, and answers in `done`."""
_RNDADDENTROPY, _RNDRESEEDCRNG = 0x40085203, 0x5207


class CommandProcess:
    """One command: its process id, and the descriptors of its output streams with the kind of frame for each."""

    def __init__(self, number: int, command: Command) -> None:
        self.number = number
        self.terminal = command.terminal is not None
        self.outputs: dict[int, GuestFrameKind] = {}
        if command.terminal is not None:
            ours, theirs = os.openpty()
            resize(ours, command.terminal)
            self.input, child = ours, (theirs, theirs, theirs)
            self.outputs[ours] = GuestFrameKind.OUTPUT
        else:
            (in_, self.input), (out, out_), (err, err_) = os.pipe(), os.pipe(), os.pipe()
            child = (in_, out_, err_)
            self.outputs = {out: GuestFrameKind.OUTPUT, err: GuestFrameKind.ERROR}
        errors_in, errors_out = os.pipe()  # closed by a successful exec
        self.pid = os.fork()
        if self.pid == 0:
            _become(command, child, errors_out)
        for descriptor in {*child, errors_out}:
            os.close(descriptor)
        with os.fdopen(errors_in, "rb") as file:
            failure = file.read()
        for descriptor in (self.input, *self.outputs):
            os.set_blocking(descriptor, False)
        if failure:
            os.waitpid(self.pid, 0)
            self.close()
            raise OSError(failure.decode())
        self.pending = bytearray()
        self.ending = False

    def write(self) -> None:
        """Write as much pending input as the process accepts now."""
        try:
            while self.pending:
                del self.pending[: os.write(self.input, self.pending[:_PIECE])]
        except BlockingIOError:
            return
        except OSError:  # it has closed its input
            self.pending.clear()
        if self.ending and not self.terminal and self.input >= 0:
            os.close(self.input)
            self.input = -1

    def close(self) -> None:
        """Close its streams that are still open."""
        for descriptor in {self.input, *self.outputs} - {-1}:
            os.close(descriptor)


def resize(descriptor: int, size: tuple[int, int]) -> None:
    """Set the rows and columns of a terminal."""
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("<HHHH", *size, 0, 0))


def _become(command: Command, streams: tuple[int, int, int], errors_out: int) -> None:
    """In the child process: set up the streams and execute the command; never returns."""
    what = "its terminal"
    try:
        os.setsid()
        if command.terminal is not None:
            fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        for signal_ in (signal.SIGINT, signal.SIGPIPE):
            signal.signal(signal_, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        if command.user is not None:
            user, group = command.user
            os.setgroups([])
            os.setresgid(group, group, group)
            os.setresuid(user, user, user)
        what = command.cwd
        os.chdir(what)
        what = command.argv[0]
        os.execvpe(what, command.argv, command.env)  # noqa: S606 - the host is trusted
    except OSError as error:
        os.write(errors_out, f"{what}: {error.strerror}".encode())
    finally:
        os._exit(127)


class GuestAgent:
    """All processes of one guest, and the port to the host."""

    def __init__(self, port: str) -> None:
        self.port = os.open(port, os.O_RDWR)
        self.processes: dict[int, CommandProcess] = {}
        self.frames = Unpacker()
        self.woken, wake = os.pipe()
        for descriptor in (self.woken, wake):
            os.set_blocking(descriptor, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake)

    def send(self, kind: GuestFrameKind, process: int = 0, payload: bytes = b"") -> None:
        """Send one frame; blocks until it is written."""
        data = pack(kind, process, payload)
        while data:
            data = data[os.write(self.port, data) :]

    def run(self) -> None:
        """Serve until the host sends SHUTDOWN or disconnects."""
        self.report_ready(since=0.0)
        while True:
            outputs = {descriptor: process for process in self.processes.values() for descriptor in process.outputs}
            blocked = [process.input for process in self.processes.values() if process.pending]
            readable, writable, _ = select.select([self.port, self.woken, *outputs], blocked, [])
            for process in list(self.processes.values()):
                if process.input in writable:
                    process.write()
            for descriptor in readable:
                if descriptor in outputs:
                    self.forward(outputs[descriptor], descriptor)
            if self.woken in readable:
                os.read(self.woken, 4096)
                self.reap()
            if self.port in readable and not self.listen():
                return

    def report_ready(self, since: float) -> None:
        """Tell the host that commands can run; `since` is when the guest started, in seconds of its clock."""
        facts = GuestFacts(os.uname().release, time.clock_gettime(time.CLOCK_BOOTTIME) - since)
        self.send(GuestFrameKind.READY, 0, json.dumps(facts).encode())

    def resume(self, resumption: Resumption) -> None:
        """Make a guest that was restored from a snapshot a lab of its own: its time, its secrets, its files."""
        begin = time.clock_gettime(time.CLOCK_BOOTTIME)
        time.clock_settime_ns(time.CLOCK_REALTIME, resumption.time_ns)
        seed = bytes.fromhex(resumption.seed)
        with open("/dev/urandom", "wb", buffering=0) as file:  # noqa: PTH123 - pathlib is slow to import
            fcntl.ioctl(file, _RNDADDENTROPY, struct.pack("<ii", 8 * len(seed), len(seed)) + seed)
            fcntl.ioctl(file, _RNDRESEEDCRNG)
        for number, process in self.processes.items():
            if number not in resumption.keep:
                os.killpg(process.pid, signal.SIGKILL)
        with open(f"{RESUME_FOLDER}/configuration", "w") as file:  # noqa: PTH123
            file.write(resumption.configuration)
        with open(f"{RESUME_FOLDER}/go", "w") as file:  # noqa: PTH123
            file.write("go\n")
        with open(f"{RESUME_FOLDER}/done") as file:  # noqa: PTH123
            file.read()
        self.report_ready(begin)

    def listen(self) -> bool:
        """Handle the frames that have arrived; False on SHUTDOWN or disconnect."""
        data = os.read(self.port, _PIECE)
        if not data:
            return False
        for kind, number, payload in self.frames.feed(data):
            if kind is GuestFrameKind.SHUTDOWN:
                return False
            if kind is GuestFrameKind.RESUME:
                self.resume(Resumption(*json.loads(payload)))
            elif kind is GuestFrameKind.START:
                self.start(number, Command(*json.loads(payload)))
            elif process := self.processes.get(number):
                self.deliver(process, kind, payload)
        return True

    def start(self, number: int, command: Command) -> None:
        """Start a command, or send REFUSED with the reason."""
        try:
            self.processes[number] = CommandProcess(number, command)
        except OSError as error:
            self.send(GuestFrameKind.REFUSED, number, json.dumps(str(error)).encode())

    def deliver(self, process: CommandProcess, kind: GuestFrameKind, payload: bytes) -> None:
        """Pass input, a signal or a new terminal size to a process."""
        if kind is GuestFrameKind.INPUT:
            process.pending += payload
            process.ending = process.ending or not payload
            process.write()
        elif kind is GuestFrameKind.SIGNAL:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, json.loads(payload))
        elif kind is GuestFrameKind.RESIZE and process.terminal:
            resize(process.input, json.loads(payload))

    def forward(self, process: CommandProcess, descriptor: int) -> bool:
        """Send the next piece of a stream; False if there is none at the moment."""
        try:
            data = os.read(descriptor, _PIECE)
        except BlockingIOError:
            return False
        except OSError:  # a terminal whose other side is closed
            data = b""
        if data:
            self.send(process.outputs[descriptor], process.number, data)
            return True
        del process.outputs[descriptor]
        if descriptor != process.input:
            os.close(descriptor)
        return False

    def reap(self) -> None:
        """Report the processes that have ended, after sending their remaining output."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            process = next((process for process in self.processes.values() if process.pid == pid), None)
            if process is None:
                continue
            for descriptor in list(process.outputs):
                while self.forward(process, descriptor):
                    pass
            code = os.waitstatus_to_exitcode(status)
            self.send(GuestFrameKind.EXIT, process.number, json.dumps(code).encode())
            process.close()
            del self.processes[process.number]


def main() -> None:
    """Serve the host on the port named on the command line."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    GuestAgent(sys.argv[1]).run()


if __name__ == "__main__":
    main()
