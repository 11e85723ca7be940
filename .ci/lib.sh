# Sourced by every script here and in `deep`: strict mode, the repository's root, a shared look.
set -euo pipefail
cd "$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel)"
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}
# `cargo test` by itself builds without optimisation, and does a share of the long tests. The checks do the whole.
export CARGO_PROFILE_TEST_OPT_LEVEL=${CARGO_PROFILE_TEST_OPT_LEVEL:-1} CORTADO_EFFORT=100
target=${CARGO_TARGET_DIR:-target}
host=$(rustc -vV | sed -n 's/^host: //p')

say() { printf '\n== %s\n' "$*"; }

have_nightly() { rustup run nightly rustc --version >/dev/null 2>&1; }

# A check that cannot be made here: it says so, and `run` does not count it as passed.
skipped() {
    echo "skipped: $*"
    [[ -z ${SKIPS:-} ]] || echo "$(basename "$0"): $*" >>"$SKIPS"
}

# Is cargo's subcommand there? With INSTALL_TOOLS=1 it is made so, which takes minutes.
have_tool() {
    command -v "$1" >/dev/null && return
    [[ ${INSTALL_TOOLS:-} == 1 ]] && cargo install --locked "$1"
}

# The programs of `tests/`.
programs() {
    local file
    for file in tests/*.rs tests/*/main.rs; do basename "${file%/main.rs}" .rs; done
}

# A suite is a program of `tests/`, or a part of one: `memory:drops::` stands for those tests of
# `memory` whose names contain `drops::`. `tests/house` checks that the parts named here have tests.
program() { echo "${1%%:*}"; }
part() { [[ $1 != *:* ]] || echo "${1#*:}"; }

as_root() { if [[ $(id -u) == 0 ]]; then "$@"; else sudo "$@"; fi; }

# Whether there is a redis-server. INSTALL_TOOLS=1 installs it from the system's packages, without starting one.
have_redis_server() {
    local policy=/usr/sbin/policy-rc.d made=
    command -v redis-server >/dev/null && return
    [[ ${INSTALL_TOOLS:-} == 1 ]] && command -v apt-get >/dev/null || return 1
    if [[ ! -e $policy ]]; then
        made=yes
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod +x "$policy"
    fi
    as_root apt-get -qq update
    as_root apt-get install -y -qq --no-install-recommends redis-server >/dev/null
    [[ -z $made ]] || as_root rm "$policy"
    command -v redis-server >/dev/null
}
