# tidemark with PyTorch, without NVIDIA's packages, from the wheel of ci/wheel: docker build --tag tidemark .
# docker run --rm -v "$PWD:/src" tidemark tidemark exec -- python train.py
FROM python:3.12-slim-bookworm
ARG TORCH=2.11.0
COPY tidemark-wheel/tidemark_gpu-*.whl /tmp/
RUN pip install --no-cache-dir --no-deps "torch==$TORCH" \
 && pip install --no-cache-dir filelock typing-extensions sympy networkx jinja2 fsspec numpy "/tmp/tidemark_gpu-"*"_$(uname -m).whl" \
 && rm /tmp/tidemark_gpu-*.whl
WORKDIR /src
