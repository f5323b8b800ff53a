# ndflow as a BIDS App; docs/guides/containers.md shows how to build and run it.
#
#   docker build --tag ndflow .
#   docker run --rm --user "$(id -u):$(id -g)" -v /data/raw:/data:ro -v /data/out:/out ndflow /data /out group

ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:${PYTHON}-slim
ARG VERSION=0.2.0
# EXTRAS=report,evaluate,prepare can also prepare raw scans, and is larger by 2 GB
# or more: of torch, the build for the processor is enough, which TORCH may name.
ARG EXTRAS=report,evaluate
ARG TORCH=torch==2.13.0
LABEL org.opencontainers.image.title="ndflow" \
      org.opencontainers.image.description="MRI intensities made comparable across scanners, as a BIDS App" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.source="https://github.com/ndflow/ndflow"
COPY --from=build /wheels /wheels
# The wheel's name holds its version, and TORCH that of torch.
# hadolint ignore=DL3013
RUN case ",${EXTRAS}," in *,prepare,* | *,torchio,* | *,monai,*) pip install --no-cache-dir "${TORCH}" ;; esac \
    && pip install --no-cache-dir "/wheels/ndflow-${VERSION}-py3-none-any.whl[${EXTRAS}]" \
    && useradd --uid 1000 --no-create-home --home-dir /tmp ndflow
# Whoever runs it (docker run --user) has a folder for caches.
ENV HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1
USER 1000
RUN ndflow doctor
ENTRYPOINT ["ndflow", "bids"]
CMD ["--help"]
