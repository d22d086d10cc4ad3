"""What runs inside a lab host's sandbox; apart from asyncssh, standard library only."""
