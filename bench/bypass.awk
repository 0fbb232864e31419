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
$1 == "times" { n = ++windows[$3, $4]; p50[$3, $4, n] = $5; p999[$3, $4, n] = $6 }
# The value below which a share of a server's tenths of a second are; 0 where there are none.
function time_of(times, share, server, rate,   n, list) {
  for (n = 1; n <= windows[server, rate]; n++) list[n] = times[server, rate, n]
  median(list, n - 1)
  return n > 1 ? list[int(share * (n - 2)) + 1] : 0
}
function p50_of(server, rate) { return time_of(p50, 0.5, server, rate) }
function p999_of(server, rate) { return time_of(p999, 0.25, server, rate) }
function micros(time) { return time ? sprintf("%.0f µs", time) : "–" }
END {
  split(latency_rates, at, " ")
  print "# AF_XDP performance: `make bench-bypass`\n"
  printf "Written by `%s`; %s. `bench/bypass --help` describes the method.\n\n", command, date
  printf "Machine: %s. %s. One thread on one CPU, which also receives the packets of its host; copy mode on veth; medians of %d rounds.\n\n", \
    machine, version, rounds
  printf "| server | best, answers/s | most, answers/s | at 1.3 × most, share of most | at 2 × most | CPU time for a million answers at %s | p50, p99.9 at %s | at %s |\n", \
    thousands(cost_rate), thousands(at[1]), thousands(at[2])
  print "| --- | --- | --- | --- | --- | --- | --- | --- |"
  for (n = 1; n <= names; n++) {
    s = name[n]
    cost = of("cost", s)
    printf "| %s | %s | %s | %.2f | %.2f | %s | %s, %s | %s, %s |\n", title[s], thousands(of("best", s)), thousands(of("most", s)), \
      of("x1.3", s), of("x2", s), cost ? sprintf("%.2f s", cost) : "–", \
      micros(p50_of(s, at[1])), micros(p999_of(s, at[1])), micros(p50_of(s, at[2])), micros(p999_of(s, at[2]))
  }
  print "\n| limit | measured | | |\n| --- | --- | --- | --- |"
  judge("best / Knot's best in the same round", ratio("best", "dunlin", "knot"), 1.4, 1)
  judge("best / the echo's best on the same rings", ratio("best", "dunlin", "echo"), 0.9, 1)
  judge("at 1.3 × most, share of most", of("x1.3", "dunlin"), 0.85, 1)
  judge("at 2 × most, share of most", of("x2", "dunlin"), 0.7, 1)
  judge("CPU time for a million answers at " thousands(cost_rate) " / Knot's", ratio("cost", "dunlin", "knot"), 0.75, 0)
  judge("p50 at " thousands(at[2]) " / Knot's", over(p50_of("dunlin", at[2]), p50_of("knot", at[2])), 1, 0)
  judge("p99.9 at " thousands(at[2]) " / Knot's", over(p999_of("dunlin", at[2]), p999_of("knot", at[2])), 1, 0)
  judge("p50 at " thousands(at[1]) " / Dunlin's on sockets", over(p50_of("dunlin", at[1]), p50_of("socket", at[1])), 1, 0)
  judge("p99.9 at " thousands(at[1]) " / Dunlin's on sockets", over(p999_of("dunlin", at[1]), p999_of("socket", at[1])), 1, 0)
  exit missed > 0
}
