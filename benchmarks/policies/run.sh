#!/usr/bin/env bash
# Trains and judges all policies of the first table in README.md beside this file.
#
#   benchmarks/policies/run.sh OUT [FIRST]
#
# FIRST is the seed of the first episode; take one that nobody has looked at. Models of the training
# seed 0 are in OUT/runs, the others in OUT/more. TASKS, SEEDS and MESHES in the environment choose
# less. Every command goes on where it stopped: give an interrupted run again.
# `python benchmarks/policies/tables.py OUT` prints the tables.
set -euo pipefail

out=${1:?"usage: run.sh OUT [FIRST]"}
first=${2:-82000}
here=$(cd "$(dirname "$0")" && pwd)
meshes=$(cd "${MESHES:-$here/../../../shared/meshes}" && pwd)
handful=${HANDFUL:-handful}
export OMP_NUM_THREADS=1
mkdir -p "$out"
cd "$out"

trained() { # task, training seed: prints its run folder
  if [ "$2" = 0 ]; then echo "runs/$1"; else echo "more/$1-seed-$2"; fi
}
judge() { # task, run folder, setups, episodes, more options
  $handful bench "$1" --run "$2" --setup "$3" --episodes "$4" --seed "$first" --workers 2 "${@:5}"
}

for task in ${TASKS:-mug bowl bottle}; do
  [ -d "demos/$task" ] || $handful collect "$task" --demos 10 --seed 500 --out "demos/$task"
  for seed in ${SEEDS:-0 1 2}; do
    run=$(trained "$task" "$seed")
    $handful train "demos/$task" --out "$run" --seed "$seed" --resume
    judge "$task" "$run" all 100
  done
  run=$(trained "$task" 0)
  judge "$task" "$run" all 100 --objects "$meshes/$task"
  judge "$task" "$run" all 100 --cameras 1 --grasp-views 2 --noise usual
  judge "$task" "$run" trained,instances,poses,distractors 50
done
