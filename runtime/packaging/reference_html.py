# reference_html.py: the pages in HTML of reference.py.
import html
import re

from headers import blocks, parts

STYLE = """\
:root {
  color-scheme: light dark;
  --ground: #fcfcfa; --text: #1d2024; --quiet: #62676f; --line: #dddfe2;
  --code: #f1f2f3; --link: #0b57a4; --mark: #b4481c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #16181b; --text: #dcdfe3; --quiet: #979da6; --line: #33373d;
    --code: #1f2226; --link: #7cb7ff; --mark: #ffa27a;
  }
}
* { box-sizing: border-box }
body {
  margin: 0; display: grid; grid-template-columns: 15rem minmax(0, 54rem);
  gap: 0 3rem; background: var(--ground); color: var(--text);
  font: 16px/1.55 system-ui, sans-serif;
}
nav {
  position: sticky; top: 0; height: 100vh; overflow: auto; padding: 1.5rem;
  border-right: 1px solid var(--line); font-size: .9rem;
}
nav strong { display: block; font-size: 1.1rem; margin-bottom: .8rem }
nav a { display: block; padding: .12rem .4rem; border-radius: .3rem }
nav a.here { background: var(--code); font-weight: 600 }
main { padding: 1.5rem 1.5rem 6rem 0 }
a { color: var(--link); text-decoration: none }
a:hover { text-decoration: underline }
h1 { font-size: 1.7rem; margin: 0 0 .2rem }
h2 {
  font-size: 1.2rem; margin: 2.6rem 0 .6rem; padding-top: .9rem;
  border-top: 1px solid var(--line);
}
h3 { font: 600 1rem ui-monospace, monospace; margin: 2.2rem 0 .5rem }
h3 a { color: var(--text) }
h4 { font-size: .8rem; color: var(--quiet); margin: 1rem 0 .2rem;
  text-transform: uppercase; letter-spacing: .05em }
.quiet { color: var(--quiet); margin-top: 0 }
pre {
  background: var(--code); padding: .7rem .9rem; border-radius: .4rem;
  overflow-x: auto; font: .85rem/1.5 ui-monospace, monospace;
}
code { font: .9em ui-monospace, monospace }
dt { font: 600 .88rem ui-monospace, monospace; margin-top: .5rem }
dd { margin: 0 0 0 1.5rem }
table { border-collapse: collapse; width: 100% }
td { padding: .3rem 1rem .3rem 0; vertical-align: top;
  border-bottom: 1px solid var(--line) }
td:first-child { white-space: nowrap }
:target { color: var(--mark) }
@media (max-width: 50rem) {
  body { display: block }
  nav { position: static; height: auto; border: 0; columns: 2 }
  main { padding: 1rem 1.5rem }
  td:first-child { white-space: normal }
}
"""


class Site:
    def __init__(self, tree, version, date, out):
        self.tree, self.version, self.date, self.out = tree, version, date, out
        self.targets = {}
        for header in tree:
            page = page_of(header)
            self.targets[header.file] = page
            for d in header.declarations:
                self.targets.setdefault(d.name, f"{page}#{d.name}")
                for name in d.names:
                    self.targets.setdefault(name, f"{page}#{d.name}")

    def text(self, words, own=""):
        """Words as HTML, names as links."""
        def link(match):
            name = match[0]
            target = self.targets.get(name)
            if target is None or name == own:
                return name
            return f'<a href="{target}">{name}</a>'

        return re.sub(r"\b(?:warm_\w+|WARM_[A-Z0-9_]+|[a-z_]+\.hp?p?)\b", link,
                      html.escape(words, quote=False))

    def code(self, lines, own=""):
        return f"<pre>{self.text(chr(10).join(lines), own)}</pre>"

    def paragraph(self, text):
        match = re.match(r"([A-Z][a-z]+(?: [a-z]+)?)\. (?=[A-Z])", text)
        if not match:
            return f"<p>{self.text(text)}</p>"
        return f"<p><b>{match[1]}.</b> {self.text(text[match.end():])}</p>"

    def blocks(self, found):
        out, listing = [], False
        for kind, text in found:
            if (kind == "item") != listing:
                listing = not listing
                out.append("<ul>" if listing else "</ul>")
            if kind == "item":
                out.append(f"<li>{self.text(text)}</li>")
            elif kind == "code":
                out.append(self.code(text))
            else:
                out.append(self.paragraph(text))
        return out + ["</ul>"] * listing

    def function(self, f):
        description, parameters, status = parts(f)
        out = [f'<h3 id="{f.name}"><a href="#{f.name}">{f.name}</a></h3>',
               self.code(f.code.split("\n"), f.name)]
        out += self.blocks(description)
        if parameters:
            out.append("<dl>")
            out += [f"<dt>{name}</dt><dd>{self.text(text)}</dd>"
                    for name, text in parameters]
            out.append("</dl>")
        return out + self.blocks(status)

    def other(self, d):
        return [f'<h3 id="{d.name}"><a href="#{d.name}">{d.name}</a></h3>'] + \
            self.blocks(blocks(d.comment)) + [self.code(d.code.split("\n"), d.name)]

    def header(self, h):
        out = [f"<h1>{h.file}</h1>",
               f'<p class="quiet">{self.text(h.title)}</p>',
               f"<pre>#include &lt;warmpool/{h.file}&gt;</pre>"]
        out += self.blocks(blocks(h.comment))
        if h.functions():
            out += ["<h2>Functions</h2>", "<table>"]
            out += [f'<tr><td><a href="#{f.name}"><code>{f.name}</code></a>'
                    f"</td><td>{self.text(f.summary())}</td></tr>"
                    for f in h.functions()]
            out.append("</table>")
        if h.others():
            out.append("<h2>Types and constants</h2>")
            for d in h.others():
                out += self.other(d)
        if h.functions():
            out.append("<h2>What they do</h2>")
            for f in h.functions():
                out += self.function(f)
        self.page(page_of(h), h.file, out)

    def index(self):
        out = ["<h1>warmpool</h1>",
               f'<p class="quiet">Reference of version {self.version}, '
               f"{self.date}; made from the headers.</p>", "<table>"]
        out += [f'<tr><td><a href="{page_of(h)}">{h.file}</a></td>'
                f"<td>{self.text(h.title, h.file)}</td></tr>"
                for h in self.tree]
        out += ["</table>", "<h2>All functions</h2>", "<table>"]
        functions = sorted((f for h in self.tree for f in h.functions()),
                           key=lambda f: f.name)
        out += [f'<tr><td><a href="{self.targets[f.name]}">'
                f"<code>{f.name}</code></a></td>"
                f"<td>{self.text(f.summary(), f.name)}</td></tr>"
                for f in functions]
        self.page("index.html", "reference", out + ["</table>"])

    def page(self, file, title, body):
        links = [f'<a href="{page_of(h)}"' +
                 (' class="here"' if page_of(h) == file else "") +
                 f">{h.file}</a>" for h in self.tree]
        text = "\n".join(
            ["<!DOCTYPE html>", '<html lang="en">', '<meta charset="utf-8">',
             '<meta name="viewport" content="width=device-width">',
             f"<title>warmpool: {title}</title>",
             '<link rel="stylesheet" href="style.css">',
             '<nav><strong><a href="index.html">warmpool '
             f"{self.version}</a></strong>"] + links +
            ["</nav>", "<main>"] + body + ["</main>", "</html>", ""])
        (self.out / file).write_text(text, encoding="utf-8")


def page_of(header):
    return header.name() + ".html"


def write(tree, version, date, out):
    out.mkdir(parents=True, exist_ok=True)
    (out / "style.css").write_text(STYLE, encoding="utf-8")
    site = Site(tree, version, date, out)
    site.index()
    for header in tree:
        site.header(header)
