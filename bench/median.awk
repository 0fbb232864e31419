# What every page of a bench needs.
function median(list, n,   i, j, t) { # sorts the list; 0 where it is empty
  for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++)
    if (list[j] < list[i]) { t = list[i]; list[i] = list[j]; list[j] = t }
  return n ? (list[int((n + 1) / 2)] + list[int(n / 2) + 1]) / 2 : 0
}
function over(a, b) { return b ? a / b : 0 }
