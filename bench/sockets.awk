# What bench/sockets prints of its measurements; exit status 1 where a limit is missed.
function judge(what, value, limit) {
  printf "%-44s %5.2f  (limit %.2f)%s\n", what, value, limit, value < limit ? "  MISSED" : ""
  if (value < limit) missed = 1
}
/^[0-9]/ {
  if (!($1 in seen)) { seen[$1] = 1; rate[++rates] = $1 }
  n = ++count[$1, $2]
  share[$1, $2, n] = $4 / $3; answered[$1, $2, n] = $4
  cost[$1, $2, n] = over($5 * 1e6, $4 * seconds)
}
END {
  split("dunlin knot echo", servers)
  for (s = 1; s <= 3; s++) {
    server = servers[s]
    for (r = 1; r <= rates; r++) {
      n = count[rate[r], server]
      for (i = 1; i <= n; i++) {
        a[i] = share[rate[r], server, i]; b[i] = answered[rate[r], server, i]
        c[i] = cost[rate[r], server, i]
      }
      middle = median(b, n)
      if (median(a, n) >= 0.99) best[server] = rate[r]
      if (middle > most[server]) most[server] = middle
      left[server] = middle
      if (r == 1) spent[server] = median(c, n)
    }
    printf "%-7s best %7d  most %7d  at %d %7d  cost %.2f\n", server, best[server], most[server], \
      rate[rates], left[server], spent[server]
  }
  judge("best, over Knot's", over(best["dunlin"], best["knot"]), 1.25)
  judge("best, over the echo's", over(best["dunlin"], best["echo"]), 0.85)
  judge("at the overload, over the echo's", over(left["dunlin"], left["echo"]), 0.85)
  judge("share of its most kept there, over Knot's",
    over(over(left["dunlin"], most["dunlin"]), over(left["knot"], most["knot"])), 1)
  exit missed
}
