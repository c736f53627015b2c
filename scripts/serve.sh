#!/usr/bin/env bash
# Starts the server on the demo zoo; `make serve` has built and fetched what it needs.
set -euo pipefail
cd "$(dirname "$0")/.."
cat >&2 <<'TEXT'
Starting the demo zoo: HTTP 8000, gRPC 8001, metrics 8002; ctrl-C stops it. From another terminal:

  what is served          curl -X POST localhost:8000/v2/repository/index
  one handwritten digit,  head -1 zoo/data/digits-test.jsonl |
  answered within 50 ms     curl -s -d @- localhost:8000/v2/models/digits/infer
  one badly scanned, by   head -1 zoo/data/scans-test.jsonl |
  an ensemble               curl -s -d @- localhost:8000/v2/models/scans/infer
  more than it can do     build/fermata load --help
  what it measured        curl -s localhost:8002/metrics | grep -v '^#'

TEXT
exec build/fermata serve --config zoo/fermata.yaml
