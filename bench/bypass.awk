# The page of bench/bypass, from its measurements; exit status 1 where a limit is missed.
# The median over all rounds in which it was measured.
function of(what, server,   r, n, list) {
  for (r = 1; r <= rounds; r++) if ((what, r, server) in value) list[++n] = value[what, r, server]
  return median(list, n)
}
# The median of what one did over what the other did in the same round.
function ratio(what, server, other,   r, n, list) {
  for (r = 1; r <= rounds; r++) if ((what, r, server) in value && (what, r, other) in value)
    list[++n] = over(value[what, r, server], value[what, r, other])
  return median(list, n)
}
function thousands(number) { return number ? sprintf("%d k", number / 1000 + 0.5) : "–" }
function judge(what, measured, limit, at_least,   kept) {
  kept = at_least ? measured >= limit : measured <= limit
  if (!measured) kept = 0
  missed += !kept
  printf "| %s | %s | %s %s | %s |\n", what, measured ? sprintf("%.2f", measured) : "not measured", at_least ? "≥" : "≤", limit, \
    kept ? "kept" : "**MISSED**"
}
BEGIN {
  names = split(servers, name, " ")
  title["dunlin"] = "Dunlin, `port = \"xdp\"`"; title["knot"] = "Knot " knot ", XDP"
  title["socket"] = "Dunlin, sockets"; title["echo"] = "echo on the same rings (`af_xdp`)"; title["tx"] = "echo in the kernel (`xdp_tx`)"
}
$1 == "turn" {
  round = $2; server = $3; rate = $4; sent = $5; answered = $6
  if (answered > value["most", round, server]) value["most", round, server] = answered
  if (answered >= 0.99 * sent && answered > value["best", round, server]) value["best", round, server] = answered
  if (rate == cost_rate && answered >= 0.9 * sent) value["cost", round, server] = over($7 * 1e6, answered * seconds)
}
$1 == "over" { value["x" $4, $2, $3] = over($7, $5) }
$1 == "times" { if ($4 != "-") value["p50", $2, $3] = $4; if ($5 != "-") value["p99.9", $2, $3] = $5 }
END {
  print "# Past the kernel: `make bench-bypass`\n"
  printf "Written by `%s`, which says how it is measured (`bench/bypass --help`); %s.\n\n", command, date
  printf "Machine: %s. %s. One thread on one CPU, which also receives for its host; copy mode on veth; medians of %d rounds.\n\n", \
    machine, version, rounds
  printf "| who | best, a second | most, a second | at 1.3 × most, of it | at 2 × | CPU a million answers at %s | p50 at %s | p99.9 |\n", \
    thousands(cost_rate), thousands(latency_rate)
  print "| --- | --- | --- | --- | --- | --- | --- | --- |"
  for (n = 1; n <= names; n++) {
    s = name[n]
    cost = of("cost", s); p50 = of("p50", s); p999 = of("p99.9", s)
    printf "| %s | %s | %s | %.2f | %.2f | %s | %s | %s |\n", title[s], thousands(of("best", s)), thousands(of("most", s)), \
      of("x1.3", s), of("x2", s), cost ? sprintf("%.2f s", cost) : "–", p50 ? sprintf("%.0f µs", p50) : "–", \
      p999 ? sprintf("%.0f µs", p999) : "–"
  }
  print "\n| limit | measured | | |\n| --- | --- | --- | --- |"
  judge("best, over Knot's in the same round", ratio("best", "dunlin", "knot"), 1.4, 1)
  judge("best, over the echo's on the same rings", ratio("best", "dunlin", "echo"), 0.9, 1)
  judge("at 1.3 × the most, of it", of("x1.3", "dunlin"), 0.85, 1)
  judge("at 2 × the most, of it", of("x2", "dunlin"), 0.7, 1)
  judge("CPU a million answers at " thousands(cost_rate) ", over Knot's", ratio("cost", "dunlin", "knot"), 0.75, 0)
  judge("p50, over Knot's", ratio("p50", "dunlin", "knot"), 1, 0)
  judge("p99.9, over Knot's", ratio("p99.9", "dunlin", "knot"), 1, 0)
  judge("p50, over Dunlin's on sockets", ratio("p50", "dunlin", "socket"), 1, 0)
  judge("p99.9, over Dunlin's on sockets", ratio("p99.9", "dunlin", "socket"), 1, 0)
  exit missed > 0
}
