"""TLS of the server's sockets: options, certificates, and handshakes."""
