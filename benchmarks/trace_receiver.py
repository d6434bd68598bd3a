"""Takes traces over HTTP and forgets them; prints its port."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Receiver)
    print(server.server_port, flush=True)
    server.serve_forever()
