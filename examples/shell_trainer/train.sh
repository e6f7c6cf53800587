#!/bin/sh
# A trainer that is a command: train.sh DATA_FILE SEED prints the noisy sum of the numbers in the file.
awk -v seed="$2" '
  BEGIN { srand(seed); u = 1 - rand(); v = rand(); noise = sqrt(-2 * log(u)) * cos(6.283185307179586 * v) }
  { sum += $1 }
  END { printf "%.12f\n", sum + 0.25 * noise }
' "$1"
