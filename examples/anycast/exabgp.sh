#!/bin/sh
# A process of ExaBGP: says which addresses to announce and to withdraw. Needs jq.
dunlin anycast status --follow -o json | jq --unbuffered --raw-output '
  (if .is_announced then "announce" else "withdraw" end) as $act | .addresses[]
  | "\($act) route \(.)/\(if contains(":") then 128 else 32 end) next-hop self"'
