"""Prompt templates and playbooks, as files."""
