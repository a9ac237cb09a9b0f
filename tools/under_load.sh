#!/usr/bin/env bash
# Runs tests many times on a busy machine: what fails there by chance fails somebody some day.
#
#   tools/under_load.sh [-n RUNS] [-l LOAD] [-s WORD]... PACKAGE...
#
# Each test program of the packages is run RUNS times (200), LOAD of them at once (8), so that each
# is the load of the others. Tests with WORD in their names are left out, and always those of
# `models`, which visit interleavings one by one and know no time. Programs that compile others
# (`ui`) are left out too. Prints a line for each program; the exit code is 1 if any run failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

runs=200 load=8 skip='--skip models'
while getopts 'n:l:s:' option; do
    case $option in
    n) runs=$OPTARG ;;
    l) load=$OPTARG ;;
    s) skip+=" --skip $OPTARG" ;;
    *) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2 && exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[[ $# -gt 0 ]] || { echo "under_load.sh: name a package, such as kiln-ring" >&2 && exit 2; }

logs=${CARGO_TARGET_DIR:-target}/under_load
rm -rf "$logs"
mkdir -p "$logs"
logs=$(realpath "$logs")

# PROGRAM NUMBER: one run, from the folder of its package, as cargo starts it. The log of a run that
# passed is removed.
one_run() {
    local log=$logs/$(basename "$1").$2
    # Unquoted: words of their own.
    # shellcheck disable=SC2086
    if (cd "crates/$package" && timeout 900 "$1" $skip) >"$log" 2>&1; then
        rm "$log"
    else
        echo "exit $?" >>"$log"
    fi
}
export -f one_run
export logs skip

# The test programs as README's command builds them: for one package they would have features of
# their own. A line for each, package first.
built=$(cargo test --workspace --no-run --quiet --message-format json-render-diagnostics | python3 -c '
import json, sys

for line in sys.stdin:
    made = json.loads(line)
    if made.get("executable") and made["profile"]["test"]:
        print(made["manifest_path"].split("/")[-2], made["executable"])
')

failed=0
for package in "$@"; do
    export package
    programs=$(awk -v package="$package" '$1 == package { print $2 }' <<<"$built")
    [[ -n $programs ]] || { echo "under_load.sh: no test programs in $package" >&2 && exit 2; }
    for program in $programs; do
        name=$(basename "$program")
        [[ $name != ui-* ]] || continue
        started=$SECONDS
        seq "$runs" | xargs -P "$load" -I{} bash -c 'one_run "$@"' one_run "$(realpath "$program")" {}
        bad=$(find "$logs" -name "$name.*" | wc -l)
        printf '%s %s: %d passed, %d failed, %d s\n' "$package" "${name%-*}" $((runs - bad)) "$bad" $((SECONDS - started))
        failed=$((failed + bad))
    done
done
[[ $failed == 0 ]] || echo "the output of failed runs is in $logs" >&2
exit $((failed > 0))
