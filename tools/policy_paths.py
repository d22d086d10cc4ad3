"""Say which files may not be read, because what they hold is a secret, a device, or endless."""

from __future__ import annotations

import re
from typing import Final

_HOME: Final = r"(?:.*/)?"
_ON_DEMAND: Final = r"(?:/(?:proc/[^/]+/(?:task/[^/]+/)?cwd/)?)?net/.*"
_DENIED: Final[tuple[tuple[str, str], ...]] = (
    (r"(?:.*/)?(?:etc|var/backups)/(?:g?shadow(?:-|\.bak)?|security/opasswd)", "holds password hashes"),
    (_HOME + r"\.ssh(?:/(?!known_hosts|authorized_keys|config$|[^/]+\.pub$).*)?", "holds SSH keys"),
    (r"(?:.*/)?ssh_host_[a-z0-9_]+_key", "is the host's private key"),
    (r"(?:.*/)?etc/ssl/private(?:/.*)?", "holds private keys"),
    (r"(?:.*/)?(?!(?:cacert|cert|chain|fullchain|ca|ca[.-][^/]*)\.pem$)[^/]*\.pem", "may be a private key"),
    (r"(?:.*/)?id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?", "is a private key"),
    (r"(?:.*/)?[^/]+\.(?:key|p12|pfx|jks|kdbx|ppk|keytab|gpg)", "may be a private key"),
    (
        _HOME
        + r"\.(?:aws|azure|gnupg|kube|oci|terraform\.d|config/(?:gcloud|gh|rclone|op|sops)|password-store)"
        r"(?:/.*)?",
        "holds credentials",
    ),
    (_HOME + r"(?:application_default_credentials|service[_-]account[^/]*)\.json", "holds credentials"),
    (
        _HOME + r"[._](?:netrc|pgpass|my\.cnf|git-credentials|npmrc|pypirc|vault-token|boto|s3cfg)",
        "holds credentials",
    ),
    (_HOME + r"(?:\.docker/config|containers/auth)\.json", "holds credentials"),
    (_HOME + r"huggingface/(?:token|stored_tokens)", "holds a token"),
    (_HOME + r"\.huggingface(?:/.*)?", "holds a token"),
    (_HOME + r"(?:kubeconfig[^/]*|[^/]*\.kubeconfig|k[03]s\.yaml|rke2\.yaml)", "holds credentials"),
    (r"(?:.*/)?etc/kubernetes/(?:[^/]+\.conf|pki(?:/.*)?)", "holds credentials"),
    (r"(?:.*/)?run/(?:secrets|credentials)(?:/.*)?", "holds secrets"),
    (r"(?:.*/)?var/lib/(?:kubelet/pods|sss|private)(?:/.*)?", "holds secrets"),
    (r"(?:.*/)?proc/[^/]+/(?:task/[^/]+/)?environ", "holds the environment of a process; use facts"),
    (r"(?:.*/)?proc/[^/]+/(?:task/[^/]+/)?(?:mem|auxv|map_files(?:/.*)?)", "is the memory of a process"),
    (r"(?:.*/)?proc/[^/]+/(?:task/[^/]+/)?fd(?:info)?/.*", "is a file that another process has open"),
    (
        r"(?:.*/)?proc/(?:kcore|vmcore|kmsg|kpage[^/]*|sysrq-trigger|keys|key-users|bus/.*)",
        "is kernel memory or endless",
    ),
    (r"(?:.*/)?trace_pipe|/sys/kernel/(?:debug|tracing)(?:/.*)?", "is not a plain file"),
    (
        _HOME + r"(?:\.[a-z0-9_]*(?:_history|hsts?|viminfo)|fish_history|\.z?history|\.histfile)",
        "holds what somebody typed",
    ),
    (r"(?:.*/)?etc/wireguard(?:/.*)?", "holds private keys"),
    (_ON_DEMAND, "may be mounted from another host by looking at it"),
    (r"/dev(?:/.*)?", "is a device"),
)
_DENIED_RE: Final = tuple((re.compile(pattern, re.S | re.I), why) for pattern, why in _DENIED)
_ON_DEMAND_RE: Final = re.compile(_ON_DEMAND, re.S)
_OTHER_ROOT: Final = re.compile(r"^/proc/[^/]+/(?:task/[^/]+/)?root(?=/|$)")

_TREES: Final = re.compile(
    r"/|/(?:root|home|home/[^/]+|etc|etc/(?:ssh|kubernetes)|proc|proc/[^/]+|proc/[^/]+/task(?:/[^/]+)?|proc/[^/]+/cwd"
    r"|var|var/(?:lib|backups)|var/lib/kubelet|run|var/run|sys|sys/kernel|etc/rancher"
    r"|(?:root|home/[^/]+)/\.(?:config|cache|local|local/share|docker))|.*/huggingface",
    re.I,
)


def _plain(path: str) -> str:
    """Return the path without doubled slashes, ``.`` parts and the root of another process in front."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    plain = ("/" if path.startswith("/") else "") + "/".join(parts)
    while match := _OTHER_ROOT.match(plain):
        plain = plain[match.end() :] or "/"
    return plain


def read_denied(path: str) -> str | None:
    """Return why a file may not be read, or None.

    Only the text is judged: a tool that opens files judges the real path as well (``readlink -f`` on the
    host), since a link may lead anywhere.
    """
    if "\0" in path or "\n" in path:
        return f"{path!r} is not a plain path"
    if ".." in path.split("/"):
        return f"{path} has a .. part; give the real path"
    plain = _plain(path)
    if plain == "/dev/null":
        return None
    for pattern, why in _DENIED_RE:
        if pattern.fullmatch(plain):
            return f"{path} {why}"
    return None


def name_denied(path: str) -> str | None:
    """Return why even the name of a file may not be looked at, or None: some folders mount other hosts."""
    if ".." in path.split("/"):
        return f"{path} has a .. part; give the real path"
    if _ON_DEMAND_RE.fullmatch(_plain(path)):
        return f"{path} may be mounted from another host by looking at it"
    return None


def tree_denied(path: str) -> str | None:
    """Return why all files below a directory may not be read, or None; judged as `read_denied` does."""
    if why := read_denied(path):
        return why
    plain = _plain(path)
    if not plain.startswith("/"):
        return f"give the full path instead of {path}, so that what is searched is known"
    if _TREES.fullmatch(plain):
        return f"{path} may hold secrets deeper down; name a directory below it"
    return None
