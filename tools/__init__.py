"""What an investigation may do on a host, one file a tool."""
