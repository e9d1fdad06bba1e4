#!/usr/bin/env bash
# Trains and judges all policies of the tables in README.md beside this file.
#
#   benchmarks/policies/run.sh OUT [LANES]
#
# LANES commands run at once, each with one thread; two if not given. Every command goes on where it
# stopped: give an interrupted run again. The page is OUT/runs/report.html; other models are in
# OUT/more.
set -euo pipefail

out=${1:?"usage: run.sh OUT [LANES]"}
lanes=${2:-2}
here=$(cd "$(dirname "$0")" && pwd)
meshes=${MESHES:-$here/../../../shared/meshes}
export OMP_NUM_THREADS=1
handful=${HANDFUL:-handful}
setups=trained,instances,poses,distractors
declare -A first=([mug]=12000 [bowl]=13000 [bottle]=10000) # seed of the first episode
mkdir -p "$out"
cd "$out"

declare -A demo_seed=([mug]=500 [bowl]=500 [bottle]=1)
train() { # demonstrations, folder of the run, more options
  echo "$handful train demos/$1 --out $2 --resume --workers 1 ${*:3}"
}
judge() { # task, folder of the run, more options
  echo "$handful bench $1 --run $2 --seed ${first[$1]} --stills ${*:3}"
}
faster() { # run, its copy whose pick looks less finely: about the time of a model with all types
  echo "mkdir -p $2 && cp -r $1/pick $1/place $1/run.json $2" \
    "&& sed -i 's/\"rotations\": 1000/\"rotations\": 150/;" \
    "s/\"refine_steps\": 8/\"refine_steps\": 3/' $2/pick/use.json"
}
for task in mug bowl bottle; do
  [ -d demos/$task ] ||
    $handful collect $task --demos 10 --seed ${demo_seed[$task]} --out demos/$task
done

jobs() { # one line for each chain of commands that can run beside the others
  for task in mug bowl bottle; do
    echo "$(train $task runs/$task) && $(judge $task runs/$task --setup $setups --episodes 50)" \
      "&& $(judge $task runs/$task --setup all --episodes 100)"
  done
  echo "$(train mug more/mug-seed-1 --seed 1) && $(judge mug more/mug-seed-1 --episodes 100)"
  echo "$handful collect mug --demos 10 --seed 0 --out demos/mug-other --overwrite" \
    "&& $(train mug-other more/mug-other-demos)" \
    "&& $(judge mug more/mug-other-demos --episodes 100)"
  echo "$(train mug more/mug-type-0 --descriptor 0) && $(judge mug more/mug-type-0 --episodes 50)" \
    "&& $(faster more/mug-type-0 more/mug-type-0-matched)" \
    "&& $(judge mug more/mug-type-0-matched --episodes 50)"
  for task in mug bowl bottle; do
    echo "$handful curve $task --demos demos/$task --run runs/$task --sizes 5 --first-episode ${first[$task]}"
  done
  for size in 3 1; do
    echo "$handful curve mug --demos demos/mug --run runs/mug --sizes $size --first-episode ${first[mug]}"
  done
}
after() { # what needs the models of the first
  for task in mug bowl bottle; do
    if [ -d "$meshes/$task" ]; then
      judge $task runs/$task --setup all --episodes 100 --objects "$meshes/$task"
    fi
  done
}

run() {
  xargs -P "$lanes" -d '\n' -I{} bash -c '{}'
}
jobs | run
after | run
$handful report runs
