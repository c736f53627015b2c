# docker build -t fermata . && docker run --rm --network host fermata
# serves the demo zoo on localhost; your own: -v /my/models:/models, then `build/fermata serve --config /models/fermata.yaml`.
FROM debian:12
RUN apt-get update && apt-get install -y --no-install-recommends make
COPY . /fermata
WORKDIR /fermata
RUN make build
CMD ["scripts/serve.sh"]
