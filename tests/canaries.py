"""Fifty planted secrets of different kinds, made at random: none of them is, or ever was, a real one."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

ALNUM = string.ascii_letters + string.digits
LOWER = string.ascii_lowercase + string.digits
HEX = "0123456789abcdef"
OWN = "0wn-t3st-K3y/0f+us~x7q&9Zr"
"""Stands for a secret of the settings, such as the key of the model's endpoint."""


Word = Callable[[str, int], str]
"""Makes a text of so many of some letters."""

Row = tuple[str, str, str]
"""What kind of secret, how it is written with ``{}`` in its place, and the secret."""


@dataclass(frozen=True, slots=True)
class Canary:
    """A secret as it is written somewhere; ``cores`` are the parts of the text that nobody may see."""

    kind: str
    text: str
    cores: tuple[str, ...]


class Made:
    """Make values of a given alphabet and length, always the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def of(self, letters: str, count: int) -> str:
        text = "".join(self._random.choices(letters, k=count))
        return (
            text
            if any(c.isdigit() for c in text) and any(c.isalpha() for c in text)
            else self.of(letters, count)
        )

    def one(self, kind: str, template: str, value: str) -> Canary:
        return Canary(kind, template.replace("{}", value), (value,))


def canaries(seed: int = 7) -> list[Canary]:
    """Return the fifty."""
    made = Made(seed)
    rows = [*_in_files(made.of), *_in_launches(made.of), *_of_protocols(made.of), *_known_by_shape(made.of)]
    return [
        *(made.one(*row) for row in rows),
        _kubernetes(made),
        _private_key(made),
        *_own(),
    ]


def _in_files(word: Word) -> list[Row]:
    """Return secrets that a name beside them gives away, in settings files and variables."""
    return [
        ("environment", "HF_TOKEN={}", word(ALNUM, 16)),
        ("exported", 'export OPENAI_API_KEY="{}"', word(ALNUM, 20)),
        ("json", '{"api_key": "{}", "x": 1}', word(ALNUM, 18)),
        ("json in a log", '{"log": "a \\"api_key\\": \\"{}\\" b"}', word(ALNUM, 18)),
        ("yaml", "    password: {}", word(ALNUM, 14)),
        ("yaml pair", "- name: DB_PASSWORD\n  value: {}", word(ALNUM, 14)),
        ("yaml list", "args:\n- --api-key\n- {}\n- --port\n- '1'", word(ALNUM, 12)),
        ("yaml list, quoted name", '  - "--admin-api-key"\n  - {}\n', word(ALNUM, 12)),
        ("json list", '["vllm", "--api-key",\n "{}"]', word(ALNUM, 12)),
        ("yaml block", "client_secret: |\n  {}\nnext: 1", word(ALNUM, 24)),
        ("yaml list of keys", "api_keys:\n  - {}\nnext: 1", word(ALNUM, 24)),
    ]


def _in_launches(word: Word) -> list[Row]:
    """Return secrets on launch lines, in logs of them, and in units."""
    return [
        ("flag", "serve --api-key {} --port 1", word(ALNUM, 12)),
        ("flag with =", "serve --api-key={} --port 1", word(ALNUM, 12)),
        ("flag, quoted", "serve --api-key '{}' --port 1", word(ALNUM, 12)),
        ("flag over lines", "serve --api-key \\\n  {} \\\n  --port 1", word(ALNUM, 12)),
        ("token flag", "serve --hf-token {} --port 1", word(ALNUM, 12)),
        ("list in a log", "non-default args: {'api_key': ['{}'], 'port': 1}", word(ALNUM, 12)),
        ("arguments in a log", "server_args=ServerArgs(model_path='m', api_key='{}', tp=8)", word(ALNUM, 12)),
        ("command line with NUL", "serve\0--api-key\0{}\0--port\0001\0", word(ALNUM, 12)),
        ("environment with NUL", "A=1\0DB_PASSWORD={}\0B=2\0", word(ALNUM, 14)),
        ("unit", 'Environment="NCCL_DEBUG=INFO" "API_KEY={}"', word(ALNUM, 14)),
    ]


def _of_protocols(word: Word) -> list[Row]:
    """Return secrets in headers, addresses, and what programs ask a person for."""
    return [
        ("bearer", "curl -H 'Authorization: Bearer {}' http://h/", word(ALNUM, 24)),
        ("basic", "Authorization: Basic {}", base64.b64encode(word(ALNUM, 21).encode()).decode()),
        ("cookie", "Cookie: session={}; theme=dark", word(ALNUM, 26)),
        ("header", "X-Api-Key: {}", word(ALNUM, 26)),
        ("url", "http://user:{}@proxy.example:3128/", word(ALNUM, 14)),
        ("database", "postgres://app:{}@db.example/main", word(ALNUM, 14)),
        ("query", "GET /v1/models?api_key={}&x=1 HTTP/1.1", word(ALNUM, 14)),
        ("signed url", "https://b.example/o?X-Amz-Signature={}&x=1", word(HEX, 64)),
        ("netrc", "machine h.example login bot password {}", word(ALNUM, 14)),
        (
            "docker",
            '{"auths": {"r.example": {"auth": "{}"}}}',
            base64.b64encode(word(ALNUM, 24).encode()).decode(),
        ),
        ("sshpass", "sshpass -p {} ssh h", word(ALNUM, 12)),
        ("mysql", "mysql -u root -p{} main", word(ALNUM, 12)),
        ("curl user", "curl -s -u bot:{} http://h/", word(ALNUM, 12)),
        ("shadow", "root:{}:19000:0:99999:7:::", "$6$" + word(ALNUM, 8) + "$" + word(ALNUM, 86)),
    ]


def _known_by_shape(word: Word) -> list[Row]:
    """Return keys that a service gives a shape of its own."""
    return [
        ("openai", "key sk-proj-{} used", word(ALNUM, 40)),
        ("hugging face", "using hf_{}, ok", word(ALNUM, 34)),
        ("github", "remote: ghp_{} rejected", word(ALNUM, 36)),
        ("gitlab", "glpat-{}", word(ALNUM, 20)),
        ("slack", "xoxb-123456789012-123456789012-{}", word(ALNUM, 24)),
        ("aws id", "id AKIA{} in use", word(string.ascii_uppercase + "234567", 16)),
        ("aws secret", "aws_secret_access_key = {}", word(ALNUM + "/+", 40)),
        ("google", "AIza{}", word(ALNUM, 35)),
        ("digital ocean", "(dop_v1_{})", word(HEX, 64)),
        ("by a rule's service", "okta_setting: {},", "00" + word(ALNUM, 40)),
        ("jwt", "eyJhbGciOiJIUzI1NiJ9.{}.c2lnbmF0dXJl", "eyJ" + word(ALNUM, 40)),
    ]


def _kubernetes(made: Made) -> Canary:
    value = base64.b64encode(made.of(ALNUM, 21).encode()).decode()
    text = f"apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\ndata:\n  anything: {value}\ntype: Opaque"
    return Canary("kubernetes", text, (value,))


def _private_key(made: Made) -> Canary:
    body = [
        "MII" + made.of(ALNUM + "+/", 61),
        *(made.of(ALNUM + "+/", 64) for _ in range(3)),
        made.of(ALNUM, 20),
    ]
    text = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *body, "-----END RSA PRIVATE KEY-----"])
    return Canary("private key", text, tuple(body))


def _own() -> list[Canary]:
    """Return a secret of the settings as it stands in other texts."""
    encoded = base64.b64encode(f"user:{OWN}".encode()).decode()
    return [
        Canary(
            "own, plain and quoted",
            f"a line with {OWN} and {quote(OWN, safe='')} in it",
            (OWN, quote(OWN, safe="")),
        ),
        Canary("own, in base64 and json", f"sent {encoded} {json.dumps(OWN)}", (encoded[8:-4], OWN)),
    ]


def shown(canary: Canary, data: bytes | str, *, least: int = 0) -> str | None:
    """Return the part of a canary that stands in ``data``: a whole core, or one of ``least`` characters."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    for core in canary.cores:
        size = least or len(core)
        for start in range(len(core) - size + 1):
            if core[start : start + size] in text:
                return core[start : start + size]
    return None
