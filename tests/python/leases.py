"""An API server that knows Leases only, as Kubernetes' own answers of them: versions, conflicts, tokens, TLS."""

import contextlib
import http.server
import json
import ssl
import subprocess
import threading

PATH = "/apis/coordination.k8s.io/v1/namespaces/space/leases"
TOKEN = "made-up"
DURATION_S = 12  # of a lease: nobody loses one since the machine is busy


class ApiServer:
    """`with ApiServer(folder) as api`: folder gets the files of a service account."""

    def __init__(self, folder):
        self.account = folder / "account"
        self.account.mkdir()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
                        "/CN=api", "-addext", "subjectAltName=DNS:localhost", "-keyout", "api.key", "-out", self.account / "ca.crt"],
                       cwd=folder, check=True, capture_output=True)
        (self.account / "token").write_text(TOKEN + "\n")
        (self.account / "namespace").write_text("space")
        self.folder, self.leases, self.version = folder, {}, 0
        self.changed = threading.Condition()
        self.answering = True

    def __enter__(self):
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            do_GET = do_POST = do_PATCH = lambda self: api.handle(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.account / "ca.crt", self.folder / "api.key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://localhost:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        with self.changed:
            self.answering = True
            self.changed.notify_all()
        self.server.shutdown()
        self.server.server_close()

    @property
    def options(self):
        """A line of `cluster`."""
        return f"  lease: {{name: one, duration_s: {DURATION_S}, server: '{self.url}', account: {self.account}}}"

    def handle(self, request):
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        with self.changed:
            self.changed.wait_for(lambda: self.answering)
            code, answer = self.answer(request, json.loads(body) if body else None)
            self.changed.notify_all()
        text = json.dumps(answer).encode()
        with contextlib.suppress(OSError):
            request.send_response(code)
            request.send_header("Content-Length", str(len(text)))
            request.end_headers()
            request.wfile.write(text)

    def answer(self, request, body):
        def no(code, why):
            return code, {"kind": "Status", "message": why}
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return no(401, "Unauthorized")
        folder, _, name = request.path.rpartition("/")
        name = name if folder == PATH else body["metadata"]["name"]
        if request.command == "POST":
            if name in self.leases:
                return no(409, f'leases "{name}" already exists')
            return 201, self.keep(name, body)
        if name not in self.leases:
            return no(404, f'leases "{name}" not found')
        if request.command == "GET":
            return 200, self.leases[name]
        assert request.headers["Content-Type"] == "application/merge-patch+json"
        if body["metadata"]["resourceVersion"] != self.leases[name]["metadata"]["resourceVersion"]:
            return no(409, "the object has been modified")
        merged = {key: {**self.leases[name].get(key, {}), **value} for key, value in body.items()}
        return 200, self.keep(name, {**self.leases[name], **merged})

    def keep(self, name, lease):
        self.version += 1
        lease["metadata"]["resourceVersion"] = str(self.version)
        lease["spec"] = {key: value for key, value in lease["spec"].items() if value is not None}
        self.leases[name] = lease
        return lease

    def held_by(self):
        return self.leases.get("one", {"spec": {}})["spec"].get("holderIdentity", "")

    def holder(self):
        with self.changed:
            return self.held_by()

    def await_holder(self, other_than=""):
        with self.changed:
            assert self.changed.wait_for(lambda: self.held_by() not in ("", other_than), 120), self.leases
            return self.held_by()

    def hang(self, hangs=True):
        """Calls are read and not answered, until they are again."""
        with self.changed:
            self.answering = not hangs
            self.changed.notify_all()
