"""Passes HTTP on to a server, and writes each call as a line of JSON: record.py PORT SERVER_PORT FILE.

The key is left out, so that the calls can be repeated with another one.
"""
import http.client
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, SERVER, FILE = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


class Relay(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def relay(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server = http.client.HTTPConnection("127.0.0.1", SERVER)
        server.request(self.command, self.path, body, dict(self.headers))
        reply = server.getresponse()
        content = reply.read()
        agent = self.headers.get("User-Agent", "")
        call = {"method": self.command, "path": self.path, "status": reply.status, "agent": agent}
        if body:
            call["body"] = json.loads(body)
        with open(FILE, "a", encoding="utf-8") as out:
            out.write(json.dumps(call, sort_keys=True) + "\n")
        self.send_response(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = relay

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", PORT), Relay).serve_forever()
