"""Serve what a health check and a smoke request ask for; runs inside a test host with a small Python."""

import argparse
import itertools
import os
import socket
import sys
import threading
import time

ANSWERS = {
    "GET /health": (200, ""),
    "GET /v1/models": (200, '{"object": "list", "data": [{"id": "small"}]}'),
    "GET /metrics": (200, "sglang:num_running_reqs{} 0.0\nsglang:num_queue_reqs{} 0.0\n"),
    "GET /server_info": (200, f"{' '.join(sys.argv[1:])} colour={os.environ.get('COLOUR')}"),  # noqa: TID251
    "POST /v1/completions": (200, '{"choices": [{"text": " 4"}]}'),
}


ASKED = itertools.count()


def answer(link: socket.socket, refuse: bool, flap: bool) -> None:
    """Read one request and answer it."""
    with link:
        data = b""
        while b"\r\n\r\n" not in data and (part := link.recv(65536)):
            data += part
        key = " ".join(data.decode("latin-1").split(" ")[:2])
        code, body = ANSWERS.get(key, (404, "no such path"))
        if flap and key == "GET /health" and next(ASKED) % 2:
            code, body = 503, "not now"
        if refuse and key.startswith("POST"):
            code, body = 500, "refused"
        link.sendall(
            f"HTTP/1.1 {code} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()
        )


def main() -> None:
    """Start as slowly as asked, then serve until killed or until the time to crash has come."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--start-s", type=float, default=0.2)
    parser.add_argument("--crash-after", type=float)
    parser.add_argument("--label")
    parser.add_argument("--refuse", action="store_true")
    parser.add_argument("--flap", action="store_true")
    args = parser.parse_args()
    if args.crash_after is not None:
        threading.Timer(args.crash_after, lambda: os._exit(1)).start()
    time.sleep(args.start_s)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", args.port))
    listener.listen(64)
    sys.stdout.write("Application startup complete.\n")
    sys.stdout.flush()
    while True:
        link, _ = listener.accept()
        threading.Thread(target=answer, args=(link, args.refuse, args.flap), daemon=True).start()


if __name__ == "__main__":
    main()
