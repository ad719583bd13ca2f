#!/usr/bin/env python3
# reference.py man|html VERSION SECONDS OUT HEADER...: the reference, made from
# the comments of the public headers.
#
# man: OUT/man3 has a page for each function, OUT/man7 one for each header and
# warmpool(7). html: OUT has a page for each header, index.html and style.css;
# nothing is loaded from elsewhere. SECONDS since 1970: the date on the pages.
# A header's text is understood as headers.py says.
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import headers
import reference_html
import reference_man


def main():
    if len(sys.argv) < 6 or sys.argv[1] not in ("man", "html"):
        sys.exit(__doc__ or "usage: reference.py man|html VERSION SECONDS OUT "
                 "HEADER...")
    kind, version, seconds, out = sys.argv[1:5]
    date = time.strftime("%Y-%m-%d", time.gmtime(int(seconds)))
    tree = headers.read([Path(name) for name in sys.argv[5:]])
    write = reference_man.write if kind == "man" else reference_html.write
    write(tree, version, date, Path(out))


main()
