#!/usr/bin/env bash
# Checks reports by axe-core in headless Chromium: both themes, 1000 px and 400 px. Any violation fails.
#   lab/report/tests/axe.sh REPORT.html...     needs AXE (axe.min.js of npm's axe-core) and chromium
set -euo pipefail
: "${AXE:?the path of axe.min.js; scripts/require test-reports installs it}"
[ $# -gt 0 ] || { echo "axe: no report is named" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
for report in "$@"; do
  # All data tables are open, so that they are checked as well.
  {
    sed 's/<details>/<details open>/g' "$report"
    echo '<pre id="axe-result">none</pre><script>'
    cat "$AXE"
    echo '</script><script>
      document.getElementById("axe-result").remove();
      axe.run(document, { resultTypes: ["violations"] }).then((result) => {
        const found = result.violations.map((v) => `${v.id} (${v.impact}): ${v.nodes.length} nodes, ${v.nodes[0].html.slice(0, 160)}`);
        document.title = "AXE " + result.passes.length + " passes; " + JSON.stringify(found);
      });
    </script>'
  } >"$folder/page.html"
  for theme in 0 1; do # dark, light
    for width in 1000 400; do
      chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size="$width,900" \
        --blink-settings=preferredColorScheme="$theme" --virtual-time-budget=60000 --dump-dom "file://$folder/page.html" \
        >"$folder/dom.html" 2>"$folder/errors"
      result=$(grep -o '<title>AXE [^<]*' "$folder/dom.html" || echo "axe did not run: $(tail -1 "$folder/errors")")
      echo "$(basename "$report") theme $theme width $width: ${result#<title>}"
      case $result in *' passes; []') ;; *) failed=1 ;; esac
    done
  done
done
exit $failed
