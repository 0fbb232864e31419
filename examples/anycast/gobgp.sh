#!/bin/sh
# Beside GoBGP: announces and withdraws the addresses as Dunlin does. Needs jq.
dunlin anycast status --follow -o json | jq --unbuffered --raw-output '
  (if .is_announced then "add" else "del" end) as $act | .addresses[]
  | "\($act) \(if contains(":") then "ipv6 \(.)/128" else "ipv4 \(.)/32" end)"' |
while read -r act family prefix; do
  gobgp global rib "$act" "$prefix" -a "$family"
done
