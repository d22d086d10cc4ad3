"""A unit with a drop-in as `systemctl cat` shows it, for tests that read launch lines and facts."""

from __future__ import annotations

SECRET = "hf_thisvaluemustneverleavethehost"
UNIT_TEXT = """# /etc/systemd/system/sglang-test.service
[Unit]
Description=Test
[Service]
Environment="NCCL_DEBUG=INFO" HF_TOKEN=hf_thisvaluemustneverleavethehost "PRIVATE=two words"
ExecStart=/opt/venv/bin/python -m sglang.launch_server \\
  # why the next one is there
  --pp-size 8 \\
  --host "127.0.0.1" --json-model-override-args '{"a b": 1}'

# /etc/systemd/system/sglang-test.service.d/10-graph.conf
[Service]
ExecStart=
ExecStart=-/opt/venv/bin/python -m sglang.launch_server --pp-size=8 --x 1 --disable-radix-cache
"""
