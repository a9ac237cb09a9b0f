#!/usr/bin/env bash
# Checks PTX with NVIDIA's own assembler, on machines that have neither a GPU nor the CUDA toolkit.
#
#   tools/ptxas.sh FILE.ptx...   assembles each file for every architecture below that its .target
#                                allows; fails on errors, warnings, spilled registers and the
#                                assembler's notes of lost performance (C75xx)
#   tools/ptxas.sh --path        prints where ptxas is, for KILN_PTXAS
#
# KILN_PTXAS names a ptxas to use. Without it, one is taken from the PyPI package nvidia-cuda-nvcc,
# once, into target/ptxas.
# Exit codes: 0 all clean; 1 a file failed; 2 wrong usage; 3 there is no ptxas to use or fetch.
set -euo pipefail

# The assembler of the oldest driver branch that Kiln is tested on: it refuses PTX that this driver
# would refuse.
version=13.0.88
architectures=(sm_75 sm_80 sm_90a sm_100a)

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")/ptxas/$version

usage() {
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2
    exit 2
}

# Prints the path of a ptxas; fetches it if there is none yet.
find_ptxas() {
    if [[ -n ${KILN_PTXAS:-} ]]; then
        echo "$KILN_PTXAS"
        return
    fi
    if [[ ! -x $cache/ptxas ]]; then
        local download
        download=$(mktemp -d)
        # Unpacked aside and renamed, so that a second run beside this one never sees half a file.
        if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
            --dest "$download" "nvidia-cuda-nvcc==$version" >&2 ||
            ! python3 - "$download" <<'PYTHON'; then
import pathlib, sys, zipfile
folder = pathlib.Path(sys.argv[1])
with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
    member = next(name for name in wheel.namelist() if name.endswith("/bin/ptxas"))
    (folder / "ptxas").write_bytes(wheel.read(member))
PYTHON
            rm -rf "$download"
            echo "ptxas.sh: cannot fetch nvidia-cuda-nvcc $version with python3's pip" >&2
            return 3
        fi
        chmod +x "$download/ptxas"
        mkdir -p "$cache"
        mv "$download/ptxas" "$cache/ptxas.$$"
        mv "$cache/ptxas.$$" "$cache/ptxas"
        rm -rf "$download"
    fi
    echo "$cache/ptxas"
}

# The architectures that PTX for this .target can be assembled for: `sm_90a` only for itself,
# `sm_80` also for newer ones.
allowed() {
    local target=$1 architecture
    for architecture in "${architectures[@]}"; do
        if [[ $target == *[af] ]]; then
            [[ $target != "$architecture" ]] || echo "$architecture"
        elif ((${target//[!0-9]/} <= ${architecture//[!0-9]/})); then
            echo "$architecture"
        fi
    done
}

# Assembles one file for one architecture; prints what is wrong with it.
check() {
    local file=$1 architecture=$2 output code=0
    output=$("$ptxas" --gpu-name "$architecture" --warn-on-spills --warning-as-error --output-file /dev/null "$file" 2>&1) || code=$?
    if ((code != 0)) || grep -qE 'C75[0-9]{2}|Potential Performance Loss' <<<"$output"; then
        printf 'FAILED %s %s\n%s\n' "$architecture" "$file" "$output" >&2
        return 1
    fi
}

[[ $# -gt 0 && $1 != -h && $1 != --help ]] || usage
ptxas=$(find_ptxas)
if [[ $1 == --path ]]; then
    echo "$ptxas"
    exit
fi

failed=0 passed=0
for file in "$@"; do
    target=$(grep -oEm1 '^\.target +sm_[0-9]+[af]?' "$file" | grep -oE 'sm_.*' || true)
    mapfile -t chosen < <([[ -z $target ]] || allowed "$target")
    if ((${#chosen[@]} == 0)); then
        echo "FAILED $file: no .target that ${architectures[*]} can run, found '${target:-none}'" >&2
        failed=$((failed + 1))
        continue
    fi
    for architecture in "${chosen[@]}"; do
        if check "$file" "$architecture"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    done
done
echo "ptxas: $passed passed, $failed failed"
((failed == 0))
