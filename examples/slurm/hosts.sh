#!/bin/sh
# Prints the nodes of this job that Slurm would use, with their tasks: for hvdrun --host-discovery-script. A node that is
# down, does not answer (*), or is to be given back (drain, fail, maint) is left out, and workers leave it.
set -eu
nodes=$(sinfo --noheader --Node --nodes "$SLURM_JOB_NODELIST" --format '%N %t')  # if it fails, hvdrun keeps its hosts
printf '%s\n' "$nodes" | sort -u | while read -r node state; do
  case $state in
    alloc | alloc- | mix | mix- | idle | comp) echo "$node:$SLURM_NTASKS_PER_NODE" ;;
  esac
done
