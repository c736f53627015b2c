"""Models from an S3-compatible store: moto's server, which checks signatures."""

import os
import subprocess

import boto3
import conftest
import numpy
import pytest
import requests
import tritonclient.http
from moto.server import ThreadedMotoServer

MODEL = conftest.ZOO / "repository" / "digits-linear"


class Store:
    """A bucket with digits-linear in it, and a user who may read it."""

    def __init__(self):
        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
        self.server.start()
        self.host = "%s:%d" % self.server.get_host_and_port()
        requests.post(f"http://{self.host}/moto-api/reset", timeout=60)
        self.url = f"s3://{self.host}/models/zoo"
        requests.post(f"http://{self.host}/moto-api/reset-auth", data="1000", timeout=60)
        self.root = dict(endpoint_url=f"http://{self.host}", region_name="us-east-1",
                         aws_access_key_id="any", aws_secret_access_key="any")
        self.s3 = boto3.client("s3", **self.root)
        self.s3.create_bucket(Bucket="models")
        self.put("digits-linear/1/model.onnx", (MODEL / "1" / "model.onnx").read_bytes())
        self.put("digits-linear/1/", b"")
        self.environment = self._reader()

    def put(self, key, body):
        self.s3.put_object(Bucket="models", Key=f"zoo/{key}", Body=body)

    def _reader(self):
        iam = boto3.client("iam", **self.root)
        iam.create_user(UserName="reader")
        policy = """{"Version": "2012-10-17", "Statement":
                     [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}"""
        iam.put_user_policy(UserName="reader", PolicyName="read", PolicyDocument=policy)
        key = iam.create_access_key(UserName="reader")["AccessKey"]
        return {"AWS_ACCESS_KEY_ID": key["AccessKeyId"],
                "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}

    def check_signatures(self):
        requests.post(f"http://{self.host}/moto-api/reset-auth", data="0", timeout=60)


@pytest.fixture
def store():
    store = Store()
    yield store
    store.server.stop()


def serve(folder, store, **environment):
    folder.mkdir(exist_ok=True)
    text = "models: {models}\nmodels_mirror: mirror\nlisten: {{http: 0, grpc: 0, metrics: 0}}\n"
    return conftest.Server(folder, store.url, text, {**store.environment, **environment})


def answer(server):
    client = tritonclient.http.InferenceServerClient(server.http)
    metadata = client.get_model_metadata("digits-linear")["inputs"][0]
    tensor = tritonclient.http.InferInput(metadata["name"], [1, *metadata["shape"][1:]], "FP32")
    tensor.set_data_from_numpy(numpy.zeros([1, *metadata["shape"][1:]], numpy.float32))
    return client.infer("digits-linear", [tensor]).get_response()["model_version"]


def index(server):
    return {(row["name"], row["version"]): row["state"] for row in
            requests.post(f"http://{server.http}/v2/repository/index", timeout=60).json()}


def load(server, model):
    return requests.post(f"http://{server.http}/v2/repository/models/{model}/load", timeout=60)


def test_serves_and_follows_a_store(tmp_path, store):
    server = serve(tmp_path, store)
    assert answer(server) == "1"
    store.put("digits-linear/2/model.onnx", (MODEL / "1" / "model.onnx").read_bytes())
    assert load(server, "digits-linear").status_code == 200
    assert answer(server) == "2"
    store.s3.delete_object(Bucket="models", Key="zoo/digits-linear/2/model.onnx")
    assert load(server, "digits-linear").status_code == 200
    assert answer(server) == "1"
    assert server.stop() == 0


def test_a_store_that_goes_away_changes_nothing_for_what_is_loaded(tmp_path, store):
    server = serve(tmp_path, store)
    store.server.stop()
    refused = load(server, "digits-linear")
    assert refused.status_code == 503 and "the store at" in refused.json()["error"]
    assert answer(server) == "1"
    assert server.stop() == 0
    again = serve(tmp_path, store)
    assert answer(again) == "1"
    assert "an earlier run brought" in again.log.read_text()
    again.stop()


def refuses(folder, store, **environment):
    """What the server says that does not start."""
    folder.mkdir(exist_ok=True)
    run = subprocess.run([conftest.FERMATA, "serve", "--models", store.url, "--http-port", "0", "--grpc-port", "0",
                          "--metrics-port", "0"], capture_output=True,
                         text=True, timeout=60,
                         env={**os.environ, **store.environment, **environment,
                              "XDG_CACHE_HOME": str(folder)})
    assert run.returncode == 2
    return run.stderr


def test_signs_requests(tmp_path, store):
    store.check_signatures()
    server = serve(tmp_path / "good", store)
    assert answer(server) == "1"
    server.stop()
    assert "403" in refuses(tmp_path / "bad", store, AWS_SECRET_ACCESS_KEY="wrong")


def test_a_store_that_is_away_at_the_start_is_an_error(tmp_path, store):
    store.server.stop()
    assert f"the store at http://{store.host}/models did not give" in refuses(tmp_path, store)


def test_keys_cannot_leave_the_mirror(tmp_path, store):
    store.put("digits-linear/../../outside", b"x")
    assert "expected no part of its name" in refuses(tmp_path, store)
