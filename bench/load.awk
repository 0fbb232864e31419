# Prints a table of the generators of one part (-v part=closed|stall|cost|past), each beside the first, to standard
# error, and the limits that are judged, as rows of another, to standard output. A line of input: name, rate, mean, p99,
# CPU time a query.
function apart(ratio) { return ratio < 1 ? 1 - ratio : ratio - 1 }
function limit(what, value, is_kept, asked) {
  printf "| %s | %.3f | %s | %s |\n", what, value, asked, is_kept ? "kept" : "**MISSED**"
}
function alike(what, column,   floor) { # within 5 %, or twice what dnsperf differs from itself
  floor = 2 * apart(over(is["dnsperf-again", column], is["dnsperf", column]))
  if (floor < 0.05) floor = 0.05
  limit(what " / dnsperf's", is["dunlin", column] / is["dnsperf", column],
    apart(is["dunlin", column] / is["dnsperf", column]) <= floor, sprintf("1 ± %.3f", floor))
}
{ if (!($1 in n)) order[++names] = $1; n[$1]++; for (i = 2; i <= 5; i++) all[$1, i, n[$1]] = $i }
END {
  base = order[1]
  of = base (base ~ /s$/ ? "'" : "'s")
  printf "| generator | queries/s | mean latency, µs | p99, µs | CPU time, µs/query | rate / %s | mean / %s |\n", of, of >"/dev/stderr"
  print "| --- | --- | --- | --- | --- | --- | --- |" >"/dev/stderr"
  for (o = 1; o <= names; o++) {
    name = order[o]; line = "| " name
    for (i = 2; i <= 5; i++) {
      for (k = 1; k <= n[name]; k++) list[k] = all[name, i, k]
      is[name, i] = list[1] == "-" ? "-" : median(list, n[name])
      line = line " | " (is[name, i] == never ? "> timeout" : is[name, i])
    }
    printf "%s | %.2f | %.2f |\n", line, is[name, 2] / is[base, 2], is[name, 3] / is[base, 3] >"/dev/stderr"
  }
  if (part == "closed") {
    alike("closed loop: rate", 2)
    alike("closed loop: mean latency", 3)
  }
  if (part == "stall") {
    limit("stall of 200 ms: p99 of the open loop, ms (a lower bound for timeouts)",
      (is["dunlin-open", 4] == never ? 1e6 : is["dunlin-open", 4]) / 1e3, is["dunlin-open", 4] >= 150e3, "≥ 150")
    limit("stall of 200 ms: p99 of dnsperf, ms", is["dnsperf", 4] / 1e3, is["dnsperf", 4] < 20e3, "< 20")
  }
  if (part == "cost") {
    limit("one CPU, sockets: queries/s / dnsperf's", is["dunlin", 2] / is["dnsperf", 2],
      is["dunlin", 2] >= 1.5 * is["dnsperf", 2], "≥ 1.5")
  }
}
