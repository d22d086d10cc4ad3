"""Secrets are masked wherever they stand, line breaks stay, and ordinary words are left alone."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.redact import environ_view, placeholder, redact

CANARY = "c4N4ryV4lu3x7Qz"

CARRIERS = [
    "HF_TOKEN={}",
    "API_KEY={} next",
    'export OPENAI_API_KEY="{}"',
    '"api_key": "{}"',
    "'password': '{}'",
    "--api-key {} --port 1",
    "--api-key={}",
    "--api-key\n{}\n--port\n1",
    "--api-key\0{}\0--port\0",
    '["--api-key","{}"]',
    '["--api-key", "{}"]',
    '"--api-key",\n   "{}"',
    "- --api-key\n   - {}",
    "- name: HF_TOKEN\n  value: {}",
    '"name": "HF_TOKEN",\n "value": "{}"',
    'Environment=HF_TOKEN={} "B=1"',
    "A=1\0HF_TOKEN={}\0B=2",
    'Environment="HF_TOKEN=two {}" "B=1"',
    '"Env": ["PATH=/bin", "API_KEY=two {}"]',
    '"log": "a \\"API_KEY=two {}\\" b"',
    "\x1b[1;32mHF_TOKEN={}\x1b[0m",
    '"log": "a\\nHF_TOKEN={}\\n"',
    "http://user:{}@host/x",
    "redis://:{}@h:1",
    "Authorization: Bearer {}",
    "curl -H 'Authorization: Bearer {}' x",
    "Authorization: Basic {}=",
    "X-Api-Key: {}",
    "Cookie: session={}; other=1",
    "?api_key={}&x=1",
    "password: {}",
    "password = {}",
    "AWS_SECRET_ACCESS_KEY={}/+x",
    '{{\\"api_key\\": \\"{}\\"}}',
    "ServerArgs(api_key='{}', x=1)",
    "clientSecret: {}",
    "DB_PWD={}",
    "token: {}",
    "MY_CREDENTIALS={}",
    'environ["OPENAI_API_KEY"] = "{}"',
    "PASSWORD=a,b;c){}",
    'passphrase = "with \\" a quote {}"',
    "DB_PASS={}",
    "smtp_pass: {}",
    "--db-pass {} --port 1",
    "ADMIN_PW={}",
    "wifi-sec.psk: {}",
    "PresharedKey = {}=",
    "requirepass {}",
    "api_key%3D{}%26x=1",
    "%22password%22%3A%22{}%22",
    '"\\\\\\"password\\\\\\": \\\\\\"two {}\\\\\\""',
    "api_key=SecretStr('{}')",
    "password=b'{}'",
    'password: Some("two {}")',
    "could not log in with password '{}'",
    'the password is "{}"',
    "client-key-data: LS0tLS1{}=",
    "<password>{}</password>",
    "<name>fs.s3a.secret.key</name>\n <value>{}</value>",
    "ipmitool -U a -P {} lan",
    "u:$apr1$abcdefgh${}",
    "-----BEGIN RSA PRIVATE KEY-----\nMII{}\nxyz\n-----END RSA PRIVATE KEY-----\nafter",
    "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B{}\nnot a key",
    "MIIEvQIBADANBgkqhkiG9w0B{}\n-----END PRIVATE KEY-----\n",
]

SHAPED = [
    "sk-proj-abcdef1234567890abcdef",
    "hf_abcdefghijklmnopqrstuvwxyzABCDEF",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "github_pat_11ABCDEFG0123456789_abcdefghijk",
    "xoxb-123456789012-abcdefghijkl",
    "AKIAABCDEFGHIJKLMNOP",
    "AIzaSyA-1234567890abcdefghijklmnopqrstu",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-def",
    "nvapi-abcdefghijklmnopqrstuvwxyz0123",
    "glpat-abcdefghij1234567890",
]

ORDINARY = [
    "tokens: 128",
    "max_tokens=64",
    "#token: 8231",
    "token usage: 0.12",
    "tokenizer_path=/opt/models/kimi",
    "--tokenizer-path /opt/models/kimi2 --tokenizer-mode auto",
    "--api-key-file /etc/x",
    "use --api-key to set it",
    "disable_cuda_graph=True",
    "sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "550e8400-e29b-41d4-a716-446655440000",
    "Decode batch, #running-req: 1, #token: 8231, token usage: 0.12, cuda graph: False, "
    "gen throughput (token/s): 24.41, #queue-req: 0",
    "Prefill batch, #new-seq: 1, #new-token: 128, #cached-token: 0, token usage: 0.00",
    "api_key: Optional[str] = None",
    "enable_custom_logit_processor=False, api_key=None,",
    '"--api-key",\n    type=str,\n    default=ServerArgs.api_key,',
    "api_key=server_args.api_key,",
    "  --api-key API_KEY   The key",
    "token = self.tokenizer.decode(x)",
    "next_token_id=5",
    "MIS_DELIMITER_TOKEN_ID = 9999",
    'eos_token="<|im_end|>"',
    "PWD=/home/x",
    "max_total_num_tokens=812345",
    "password = getpass()",
    'headers["Authorization"] = f"Bearer {api_key}"',
    "token_ids: [1,2,3,4,5,6,7,8]",
    "token_pool=ReqToTokenPool(size=100)",
    "risk-assessment-of-some-long-thing",
    "secretKeyRef:",
    "git@github.com:foo/bar",
    "http://localhost:8000/@foo",
    "if self.api_key is not None:",
    '"token": "hello"',
    "sshd[1]: Failed password for root from 1.2.3.4",
    "API_KEY=${API_KEY}",
    "forward_pass: 2a34bcd5 ms",
    "FORWARD_PASS=3",
    "tests_pass = 12",
    "bypass=1234abcd5678",
    "the password 'admin'",
    "password=b''",
    "password: Some(self.password)",
    "<secret></secret>",
    "<api_key>",
    "requirepass ''",
]


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_planted_secret_is_masked_and_lines_stay(carrier: str) -> None:
    text = carrier.format(CANARY).encode()
    masked = redact(text)
    assert CANARY.encode() not in masked
    assert b"<masked:" in masked
    assert masked.count(b"\n") == text.count(b"\n")
    assert redact(masked) == masked


@pytest.mark.parametrize("secret", SHAPED)
def test_a_value_with_the_shape_of_a_secret_is_masked_anywhere(secret: str) -> None:
    for text in (
        secret,
        f"x {secret} y",
        f'{{"a": "{secret}"}}',
        f"a={secret}\n",
        f"\x1b[1m{secret}\0",
        f"\\n{secret}",
    ):
        assert secret.encode() not in redact(text.encode())


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_words_stay(text: str) -> None:
    assert redact(text.encode()) == text.encode()


def test_the_same_value_gets_the_same_placeholder_everywhere() -> None:
    first = redact(b"--api-key " + CANARY.encode())
    second = redact(b"API_KEY=" + CANARY.encode())
    digest = re.compile(rb":([0-9a-f]{6})>")
    found = digest.findall(first) + digest.findall(second)
    assert len(found) == 2
    assert found[0] == found[1]
    assert placeholder("api_key", b"x") != placeholder("api_key", b"y")


def test_what_follows_the_secret_stays() -> None:
    assert redact(b"--api-key abc123 --disable-cuda-graph").endswith(b" --disable-cuda-graph")
    assert redact(b"?api_key=abc123&x=1").endswith(b"&x=1")
    assert redact(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\nafter").endswith(b"\nafter")


_FRAGMENTS = st.sampled_from(
    [carrier.format(CANARY) for carrier in CARRIERS]
    + SHAPED
    + ORDINARY
    + ["\n", " ", '"', "'", "<masked:", "=", "\0"]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_FRAGMENTS | st.text(max_size=8), max_size=6), st.sampled_from(["\n", " ", "\n\n"]))
def test_masking_twice_changes_nothing_more(parts: list[str], between: str) -> None:
    text = between.join(parts).encode("utf-8", "surrogatepass")
    once = redact(text)
    assert redact(once) == once
    assert once.count(b"\n") == text.count(b"\n")


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_pass_through(data: bytes) -> None:
    assert redact(data).count(b"\n") == data.count(b"\n")


def test_every_cut_before_the_secret_still_masks_it() -> None:
    text = b"Nov 29 10:00:00 gpu1 engine: HF_TOKEN=" + CANARY.encode() + b" started"
    for offset in range(text.index(b"HF_TOKEN") + 1):
        assert CANARY.encode() not in redact(text[offset:])


def test_environment_values_are_shown_by_allow_list_only() -> None:
    view = environ_view(
        [
            ("CUDA_VISIBLE_DEVICES", "0,1"),
            ("NCCL_DEBUG", "INFO"),
            ("PATH", "/usr/bin"),
            ("HF_TOKEN", "short"),
            ("SGLANG_API_KEY", "abc"),
            ("VLLM_URL", "http://u:pass1word@h/"),
            ("COMPANY_THING", "anything"),
        ]
    )
    assert view["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert view["NCCL_DEBUG"] == "INFO"
    assert view["PATH"] == "/usr/bin"
    assert view["COMPANY_THING"] is None
    assert view["HF_TOKEN"] == placeholder("secret", b"short").decode()
    assert "abc" not in str(view["SGLANG_API_KEY"])
    assert "pass1word" not in str(view["VLLM_URL"])
