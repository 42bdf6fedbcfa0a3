#!/bin/sh
# Installs the Debian packages that a target needs and that are missing; does nothing (and needs no
# network and no rights) when all are there.
set -eu

build="gcc libc6-dev make cmake pkg-config liblzma-dev libjansson-dev libcurl4-openssl-dev libarchive-dev libexpat1-dev"
driver="cmake make python3 clang-19 lld-19 llvm-19 osslsigncode openssl"
case "${1:-}" in
demo) packages="$build" ;;
driver) packages="$driver" ;;
check) packages="$build clang lld llvm libclang-rt-dev clang-format python3 xz-utils git libcmocka-dev spin libck-dev liburcu-dev $driver" ;;
windows) packages="make cmake gcc-mingw-w64-x86-64-win32 mingw-w64-x86-64-dev binutils-mingw-w64-x86-64" ;;
wine) packages="wine64" ;;
*) echo "usage: $0 demo|check|driver|windows|wine" >&2; exit 2 ;;
esac

missing=""
for package in $packages; do
    state=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
    case "$state" in
    ii*) ;;
    *) missing="$missing $package" ;;
    esac
done
[ -z "$missing" ] && exit 0

if [ "$(id -u)" = 0 ]; then
    root=""
elif command -v sudo >/dev/null; then
    root="sudo"
else
    echo "these packages are missing and neither root nor sudo is at hand:$missing" >&2
    exit 1
fi
echo "installing:$missing"
log=$(mktemp)
if ! { $root apt-get update && DEBIAN_FRONTEND=noninteractive $root apt-get install -y \
    --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -20 "$log" >&2
    rm -f "$log"
    exit 1
fi
rm -f "$log"
