"""The stand-ins' common body: hand the arguments to process 1 and print what it answers."""

import _socket
import os
import sys


def _read(link: _socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = link.recv(min(size - len(data), 1 << 20))
        if not part:
            raise SystemExit(1)
        data += part
    return data


def _write(stream: int, data: bytes) -> None:
    while data:
        data = data[os.write(stream, data) :]


def main() -> int:
    """Run the command this file was called as."""
    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    link.connect("/run/lab/control")
    words = [os.fsencode(word) for word in (os.path.basename(sys.argv[0]), *sys.argv[1:])]  # noqa: PTH119
    request = b"\0".join(words)
    link.sendall(len(request).to_bytes(4, "big") + request)
    while True:
        head = _read(link, 5)
        data = _read(link, int.from_bytes(head[1:], "big"))
        if head[:1] == b"x":
            return data[0]
        _write(1 if head[:1] == b"1" else 2, data)


if __name__ == "__main__":
    try:
        code = main()
    except (BrokenPipeError, KeyboardInterrupt):
        code = 141
    os._exit(code)
