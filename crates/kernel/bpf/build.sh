#!/bin/sh
# Builds the BPF object: build.sh OUTPUT. Needs clang 14 or newer, llvm-strip and libbpf's headers.
set -eu
cd "$(dirname "$0")"
include=/usr/include/$(gcc -dumpmachine 2>/dev/null || echo x86_64-linux-gnu)
clang -target bpf -mcpu=v3 -O2 -g -Wall -Werror -Wno-unused-function \
    -fdebug-compilation-dir=. -I"$include" -c d2tcp.bpf.c -o "$1"
llvm-strip -g "$1"
