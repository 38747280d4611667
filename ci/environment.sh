# Sourced by the other scripts: where things are, and what OpenMPI needs on a small machine (its launcher is PRRTE since version 5).
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps=${TIDEMARK_DEPS:-$root/.deps}
say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }
# The torch that the build is made for, as its version.py has it (2.11.0+cu130): of the pins of torch and of CUDA's runtime.
own_torch() {
  awk -F '[= .]+' '/^torch==/ {torch = $2 "." $3 "." $4} /^nvidia-cuda-runtime==/ {cuda = $2 $3} END {print torch "+cu" cuda}' "$root/ci/wheels.txt"
}
worse() { # worse CODE CODE: the worst of two exit codes, what leaves most unknown first
  local code
  for code in 3 2 1 4 77; do if [ "$1" = "$code" ] || [ "$2" = "$code" ]; then echo "$code"; return; fi; done
  if [ "$1" = 0 ] && [ "$2" = 0 ]; then echo 0; else echo 3; fi
}
settle() { # settle ROOT FILE...: for the machine in the folder ROOT, this machine's settings of apt and its files of settings
  local file
  apt-config dump | grep -E '^Acquire::(http|https|Check|Retries)' >"$1/etc/apt/apt.conf.d/machine" || true
  for file in /etc/hosts /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt /etc/pip.conf "${@:2}"; do
    [ ! -e "$file" ] || install -D -m 644 "$file" "$1${file/#$HOME//root}"
  done
}
take_variables() { # take_variables PATTERN: into the array `settings`, those of this environment whose names match
  local line
  while IFS= read -r -d '' line; do [[ ! $line =~ ^($1)= ]] || settings+=("$line"); done < <(env -0)
}
die() { printf 'error: %s\n' "$1" >&2; exit "${2:-3}"; }

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe # more ranks than cores
export OMPI_MCA_mpi_yield_when_idle=1      # without it a 0.05 s all-reduce takes seconds
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
export OMPI_MCA_odls_base_sigkill_timeout=0 OMPI_MCA_orte_execute_quiet=1 OMPI_MCA_reachable=weighted
unset PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED # of this shell: a thousand processes of the tests import torch, and some print beside others
export CCACHE_DIR=${CCACHE_DIR:-$deps/ccache} CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1
jobs=${TIDEMARK_JOBS:-$(nproc)}
[[ $jobs =~ ^[1-9][0-9]{0,3}$ ]] || die "TIDEMARK_JOBS: '$jobs' is not a number of jobs" 2
