# The page of bench/echoes, from its measurements; exit status 1 where the limit is missed.
# Over all rounds: of what was answered at most, or where 99 % were, or at the overload.
function of_rounds(what, server,   r, list) {
  for (r = 1; r <= rounds; r++) list[r] = value[what, r, server]
  return median(list, rounds)
}
# The same as a share of what the C echo did in each round.
function of_c(what, server,   r, list) {
  for (r = 1; r <= rounds; r++) list[r] = over(value[what, r, server], value[what, r, "c"])
  return median(list, rounds)
}
function thousands(number) { return sprintf("%.1f k", number / 1000) }
function title(server,   parts) {
  if (server == "c") return "`bench/echo.c`"
  if (server == "again") return "`bench/echo.c` again (noise)"
  return split(server, parts, ":") > 1 ? sprintf("%s, batches of %d", parts[1], parts[2]) : server
}
BEGIN {
  names = split(servers, name, " ")
  steps = split(rates, step, " ")
}
$1 == "turn" {
  round = $2; server = $3; rate = $4; sent = $5; answered = $6
  if (answered > value["most", round, server]) value["most", round, server] = answered
  if (answered >= 0.99 * sent && answered > value["best", round, server])
    value["best", round, server] = answered
  if (rate == step[steps]) value["overload", round, server] = answered
  if (rate == step[1]) value["cost", round, server] = over($7 * 1e6, answered * seconds)
}
$1 == "calls" { calls[$2, $3] = over($4, $5) }
END {
  print "# Echo: the ceiling of each way to receive (`make bench-echoes`)\n"
  printf "Written by `%s`; %s. `bench/echoes --help` describes the method.\n\n", command, date
  printf "Machine: %s. %s. One thread on one CPU, which also receives the packets of its host; medians of %d rounds.\n\n", machine, \
    version, rounds
  printf "| model | best, answers/s | most, answers/s | most / C's | at %s queries/s | / C's | CPU time/answer at %s | system calls/answer there | at %s |\n", \
    thousands(step[steps]), thousands(step[1]), thousands(step[steps])
  print "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
  for (n = 1; n <= names; n++) {
    server = name[n]
    has_calls = (server, step[1]) in calls
    printf "| %s | %s | %s | %.2f | %s | %.2f | %.2f µs | %s | %s |\n", title(server), thousands(of_rounds("best", server)), \
      thousands(of_rounds("most", server)), of_c("most", server), thousands(of_rounds("overload", server)), \
      of_c("overload", server), of_rounds("cost", server), has_calls ? sprintf("%.2f", calls[server, step[1]]) : "", \
      has_calls ? sprintf("%.2f", calls[server, step[steps]]) : ""
  }
  ratio = of_c("most", "recvmmsg")
  missed = ratio < 0.95
  printf "\n| limit | measured | | |\n| --- | --- | --- | --- |\n"
  printf "| most of recvmmsg / the C echo's in the same round | %.3f | ≥ 0.95 | %s |\n", ratio, missed ? "**MISSED**" : "kept"
  exit missed
}
