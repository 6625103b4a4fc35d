# An image of Fencepost itself, with the servers of all locks that it knows: a run downloads nothing.
#
#     docker build -t fencepost .
#
# Nodes as namespaces inside the container (driver local). They get clocks, networks and disks of their own, hence
# --privileged; --init removes processes that have ended:
#
#     docker run --rm --init --privileged -v "$PWD/results:/work/results" fencepost test --backend etcd --nemesis pause
#
# In place of --privileged this is enough:
#
#     --cap-add SYS_ADMIN --cap-add NET_ADMIN --cap-add SYS_PTRACE --cap-add NET_RAW --device /dev/fuse
#     --security-opt seccomp=unconfined --security-opt apparmor=unconfined
#
# tools/launcher/fencepost does so, with the folder at hand and files that are the user's.
#
# Nodes as containers of this machine's engine (driver docker). Nothing of the engine's files is used, so the engine may be
# anywhere; the image for each kind of node is built there, once:
#
#     docker run --rm --init -v /var/run/docker.sock:/var/run/docker.sock -v "$PWD/results:/work/results" \
#         fencepost test --backend etcd --nemesis pause
#
# Several such containers can use one engine at once, but do not add --network host: they would take each other's runs for
# crashed ones, and remove them.
#
# fencepost.toml is read from /work, so -v "$PWD:/work" brings it along. All runs in a browser:
#
#     docker run --rm --init -p 127.0.0.1:7878:7878 -v "$PWD/results:/work/results" fencepost serve --listen 0.0.0.0:7878

# A program that is built already takes the place of this stage: docker buildx build --build-context build=FOLDER, where
# FOLDER/out/fencepost is the program.
FROM rust:1-trixie AS build
WORKDIR /src
COPY . .
RUN cargo build --profile dist --locked --features full && install -D target/dist/fencepost /out/fencepost

FROM debian:trixie-slim
LABEL org.opencontainers.image.title="Fencepost" \
      org.opencontainers.image.description="Tests distributed locks on real servers and reports violations" \
      org.opencontainers.image.licenses="Apache-2.0"
# The packages of each kind of node, from the lists that Fencepost's own images are made of. With fewer of them
# (--build-arg NODES="client redis") the image is smaller, and a run that needs another kind downloads Debian's packages.
# Valkey's programs answer to the names of Redis's, so it has only one of the two.
# PostgreSQL's package would make a database of its own, which nobody uses.
ARG NODES=""
COPY docker /tmp/docker
RUN mkdir -p /etc/postgresql-common \
    && echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf \
    && apt-get update \
    && for node in ${NODES:-$(ls -d /tmp/docker/*/ | xargs -n 1 basename | grep -v valkey)}; do cat "/tmp/docker/$node/packages"; done | grep -v '^#' | sed 's/{version}/17/' | sort -u \
        | xargs apt-get install --yes --no-install-recommends ca-certificates procps \
    && rm -rf /var/lib/apt/lists/* /tmp/docker \
    && for program in postgres initdb; do ln -s /usr/lib/postgresql/17/bin/$program /usr/bin/$program; done \
    && ln -s /usr/lib/postgresql/17/bin/psql /usr/bin/postgres-psql
COPY --from=build /out/fencepost /usr/local/bin/fencepost
# The servers are there: none is downloaded.
ENV FENCEPOST_PROGRAMS=machine
WORKDIR /work
ENTRYPOINT ["fencepost"]
CMD ["--help"]
