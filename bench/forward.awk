# The page of bench/forward, from its measurements; exit status 1 where a limit is missed. With only=same: the rate at
# which all are asked of the load `wanted`.
function of_all(field, load, server, rate,   i, n, list) {
  n = count[load, server, rate]
  for (i = 1; i <= n; i++) list[i] = value[field, load, server, rate, i]
  return median(list, n)
}
function judge(what, got, low, high,   is_missed) {
  is_missed = got < low || got > high
  printf "| %s | %.2f | %s | %s |\n", what, got, high < 1e9 ? low " to " high : "≥ " low, is_missed ? "**MISSED**" : "kept"
  missed = missed || is_missed
}
# The best of a load at which 99 % were answered, and the most that were.
function weigh(load, server,   r, rate, middle) {
  best[load, server] = most[load, server] = 0
  for (r = 1; r <= rungs[load, server]; r++) {
    rate = rung[load, server, r]
    if (of_all("share", load, server, rate) >= 0.99 && rate > best[load, server]) {
      best[load, server] = rate
      is_top[load, server] = r == rungs[load, server]
    }
    middle = of_all("answered", load, server, rate)
    if (middle > most[load, server]) most[load, server] = middle
  }
}
function thousands(number) { return sprintf("%.1f k", number / 1000) }
function table(load,   s, server, at) {
  at = same[load]
  printf "## %s\n\n", title[load]
  printf "| server | best, answers/s | most, answers/s | p50 at %s | p99 | CPU time/answer | queries to the upstream |\n", thousands(at)
  print "| --- | --- | --- | --- | --- | --- | --- |"
  for (s = 1; s <= servers; s++) {
    server = name[s]
    if (!rungs[load, server]) continue
    printf "| %s | %s%s | %s | %d µs | %d µs | %.1f µs | %.1f %% |\n", shown[server], is_top[load, server] ? "≥ " : "", \
      thousands(best[load, server]), thousands(most[load, server]), of_all("p50", load, server, "same"), \
      of_all("p99", load, server, "same"), of_all("cost", load, server, "same"), 100 * of_all("there", load, server, "same")
  }
  print ""
}
function best_other(load,   s, top) {
  for (s = 1; s <= servers; s++)
    if (name[s] !~ /^(dunlin|own|echo)$/ && best[load, name[s]] > top) top = best[load, name[s]]
  return top
}
function judge_all(   s) {
  print "## Limits\n\n| figure | measured | limit | |\n| --- | --- | --- | --- |"
  for (l = 1; l <= loads; l++) if (best_other(load_name[l]))
    judge("Dunlin's best / the best of the others: " load_name[l], \
      over(best[load_name[l], "dunlin"], best_other(load_name[l])), load_name[l] == "hits" ? 1.5 : 1, 1e9)
  if (rungs["hits", "echo"] && best_other("hits"))
    printf "| bare echo's best / the best of the others: hits | %.2f | | the maximum with sockets |\n", \
      over(best["hits", "echo"], best_other("hits"))
  if (rungs["hits", "own"])
    judge("Dunlin's best with cached names / with its own zone", over(best["hits", "dunlin"], best["hits", "own"]), 0.85, 1e9)
  for (s = 1; s <= servers; s++) if (rungs["zipf", name[s]])
    judge("zipf: upstream queries for 100 queries to " shown[name[s]], 100 * of_all("there", "zipf", name[s], "same"), 9, 11)
}
BEGIN {
  title["hits"] = "Cached names"; title["unique"] = "New names"
  title["zipf"] = "Zipf, 90 % cached"
  shown["dunlin"] = "Dunlin"; shown["unbound"] = "Unbound"; shown["bind"] = "BIND"; shown["dnsdist"] = "dnsdist"
  shown["coredns"] = "CoreDNS"; shown["own"] = "Dunlin, zone"; shown["echo"] = "bare echo"
}
{
  load = $2; server = $3; rate = $1 == "same" ? "same" : $4
  if (!(load in same)) { same[load] = 0; load_name[++loads] = load }
  if (!(server in known)) { known[server] = 1; name[++servers] = server }
  if ($1 == "same") same[load] = $4
  else if (!((load, server, rate) in count)) rung[load, server, ++rungs[load, server]] = rate
  i = ++count[load, server, rate]
  value["share", load, server, rate, i] = over($7, $6)
  value["answered", load, server, rate, i] = $7 / $5
  value["p50", load, server, rate, i] = $8; value["p99", load, server, rate, i] = $9
  value["cost", load, server, rate, i] = over($10 * 1e6, $7); value["there", load, server, rate, i] = over($11, $6)
}
END {
  for (l = 1; l <= loads; l++) for (s = 1; s <= servers; s++) weigh(load_name[l], name[s])
  if (only == "same") {
    for (s = 1; s <= servers; s++) {
      b = best[wanted, name[s]] ? best[wanted, name[s]] : rung[wanted, name[s], 1]
      if (b && (!lowest || b < lowest)) lowest = b
    }
    print int(lowest / 2)
    exit
  }
  for (l = 1; l <= loads; l++) table(load_name[l])
  judge_all()
  exit missed
}
