"""The Slack bot: a surface over `Session` like the terminal; a Slack thread is one investigation."""
