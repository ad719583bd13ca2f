# reference_man.py: the manual pages of reference.py.
import re
import textwrap


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = "".join(c if ord(c) < 128 else f"\\[u{ord(c):04X}]" for c in text)
    return re.sub(r"(?m)^([.'])", r"\\&\1", text.rstrip())


class Pages:
    def __init__(self, tree, version, date, out):
        self.tree, self.version, self.date, self.out = tree, version, date, out
        self.functions = {f.name for h in tree for f in h.functions()}
        self.headers = {h.file: page_of(h) for h in tree}

    def put(self, name, section, lines):
        folder = self.out / f"man{section}"
        folder.mkdir(parents=True, exist_ok=True)
        head = (f'.TH {name} {section} {self.date} "warmpool {self.version}" '
                '"warmpool\'s manual"')
        text = "\n".join([head] + [line for line in lines if line]) + "\n"
        (folder / f"{name}.{section}").write_text(text, encoding="ascii")

    def words(self, text):
        """A paragraph, a sentence a line, with the names of functions."""
        lines = re.split(r"(?<=[.:;]) (?=[A-Z])", text)
        out = []
        for line in lines:
            line = escape(line)
            line = re.sub(r"\b(warm_\w+)\(\)", self.function, line)
            line = re.sub(r"\b(WARM(?:POOL)?_[A-Z0-9_]+)\b", r"\\fB\1\\fP", line)
            out += textwrap.wrap(line, 78, break_long_words=False,
                                 break_on_hyphens=False)
        return re.sub(r"(?m)^([.'])", r"\\&\1", "\n".join(out))

    def function(self, match):
        section = "(3)" if match[1] in self.functions else "()"
        return f"\\fB{match[1]}\\fP{section}"

    def heading(self, text):
        """`Blocking. …` at the front of a paragraph."""
        match = re.match(r"([A-Z][a-z]+(?: [a-z]+)?)[.:] (?=[A-Z])", text)
        if not match:
            return self.words(text)
        return f"\\fI{match[1]}.\\fP\n" + self.words(text[match.end():])

    def blocks(self, blocks, first=True):
        out = []
        for kind, text in blocks:
            if kind == "text":
                if not first:
                    out.append(".PP")
                out.append(self.heading(text))
            elif kind == "item":
                out += [".IP \\(bu 3", self.words(text)]
            else:
                out += self.code(text, first)
            first = False
        return out

    def code(self, lines, first=False):
        return [".PP"][first:] + [".in +4n", ".EX"] + \
            [escape(line) or "\\&" for line in lines] + [".EE", ".in"]

    def see(self, own, header, texts):
        names = sorted({n for text in texts
                        for n in re.findall(r"\bwarm_\w+(?=\(\))", text)
                        if n in self.functions and n != own})
        pages = sorted({self.headers[n] for text in texts
                        for n in re.findall(r"\b\w+\.h\b", text)
                        if n in self.headers} | {self.headers[header]})
        refs = [f".BR {n} (3)" for n in names] + \
            [f".BR {escape(n)} (7)" for n in pages]
        return [".SH SEE ALSO"] + [r + "," for r in refs[:-1]] + refs[-1:]

    def function_page(self, f):
        from headers import parts
        description, parameters, status = parts(f)
        lines = [".SH NAME", f"{f.name} \\- {escape(brief(f.summary()))}",
                 ".SH LIBRARY", "warmpool (\\fIlibwarmpool\\fP, "
                 "\\fI\\-lwarmpool\\fP)",
                 ".SH SYNOPSIS", ".nf",
                 f"\\fB#include <warmpool/{f.header}>\\fP", ".PP"]
        lines += [f"\\fB{escape(line)}\\fP" for line in f.code.split("\n")]
        lines += [".fi", ".SH DESCRIPTION"]
        lines += self.blocks(description or [("text", f.summary() + ".")])
        for name, text in parameters:
            lines += [".TP", f".I {name}", self.words(text)]
        if status:
            lines += [".SH RETURN VALUE"] + self.blocks(
                [(kind, re.sub(r"^Status(?=:| \()", "WARM_OK, or", text)
                  if kind == "text" else text) for kind, text in status])
        elif "warm_status" in f.code.split("(")[0]:
            lines += [".SH RETURN VALUE",
                      "\\fBWARM_OK\\fP, or one of the statuses that are common "
                      f"to the functions of\n.BR {escape(self.headers[f.header])} (7)."]
        texts = [" ".join(f.comment)]
        lines += self.see(f.name, f.header, texts)
        self.put(f.name, 3, lines)

    def users(self, d):
        """Functions whose declarations name the type, of its own header first."""
        ordered = sorted(self.tree, key=lambda h: h.file != d.header)
        return [f.name for h in ordered for f in h.functions()
                if re.search(rf"\b{d.name}\b", f.code)]

    def type_page(self, d):
        from headers import blocks
        users = self.users(d)
        summary = brief(d.summary()) if d.comment else \
            f"type that {users[0] if users else d.header} uses"
        lines = [".SH NAME", f"{d.name} \\- {escape(summary)}",
                 ".SH SYNOPSIS", ".nf",
                 f"\\fB#include <warmpool/{d.header}>\\fP", ".fi"]
        lines += self.code(d.code.split("\n"))
        if d.comment:
            lines += [".SH DESCRIPTION"] + self.blocks(blocks(d.comment))
        used = " ".join(f"{name}()" for name in users[:8])
        lines += self.see(d.name, d.header, [" ".join(d.comment), used])
        self.put(d.name, 3, lines)

    def header_page(self, h):
        name = page_of(h)
        lines = [".SH NAME", f"{name} \\- {escape(brief(h.title))}",
                 ".SH SYNOPSIS", ".nf",
                 f"\\fB#include <warmpool/{h.file}>\\fP", ".fi",
                 ".SH DESCRIPTION"]
        from headers import blocks
        lines += self.blocks(blocks(h.comment) or [("text", h.title + ".")])
        if h.functions():
            lines.append(".SH FUNCTIONS")
            for f in h.functions():
                lines += [".TP", f".BR {f.name} (3)", escape(brief(f.summary()))]
        if h.others():
            lines.append(".SH TYPES AND CONSTANTS")
            for d in h.others():
                lines.append(f".SS {d.name}")
                lines += self.blocks(blocks(d.comment))
                lines += self.code(d.code.split("\n"), not d.comment)
        mentioned = {self.headers[n] for n in
                     re.findall(r"\b\w+\.h\b", " ".join(h.comment))
                     if n in self.headers} - {name}
        refs = [f".BR {escape(p)} (7)" for p in sorted(mentioned)]
        lines += [".SH SEE ALSO", ".BR warmpool (7)" + ("," if refs else "")]
        lines += [r + "," for r in refs[:-1]] + refs[-1:]
        self.put(name, 7, lines)

    def overview(self):
        lines = [".SH NAME", "warmpool \\- warm handles, streams and pinned "
                 "buffers for the threads of a program",
                 ".SH SYNOPSIS", ".nf",
                 "\\fB#include <warmpool/warmpool.h>\\fP", ".PP",
                 "\\fBcc file.c $(pkg\\-config \\-\\-cflags \\-\\-libs warmpool)"
                 "\\fP", ".fi", ".SH DESCRIPTION",
                 "What the library has, a page for each of its headers.",
                 "Each function and each type has a page in section 3."]
        for h in self.tree:
            if h.file != "warmpool.h":
                lines += [".TP", f".BR {escape(page_of(h))} (7)",
                          escape(brief(h.title))]
        lines += [".SH SEE ALSO", ".BR warmpool\\-info (1),",
                  ".BR warmpool\\-replay (1),", ".BR warmpool\\-run (1)"]
        self.put("warmpool", 7, lines)


def page_of(header):
    if header.file == "warmpool.h":
        return "warmpool"
    return "warmpool-" + header.name().replace("_", "-")


def brief(text):
    """For a line of whatis: short, and no capital at its front."""
    text = re.sub(r" \([^()]*\)", "", text).rstrip(".")
    if len(text) > 130:
        text = re.split(r"[,;:] ", text)[0]
    if re.match(r"[A-Z][a-z]|A ", text) and not text.startswith("Prometheus"):
        text = text[0].lower() + text[1:]
    return text


def write(tree, version, date, out):
    pages = Pages(tree, version, date, out)
    pages.overview()
    for header in tree:
        if header.file != "warmpool.h":
            pages.header_page(header)
        for function in header.functions():
            pages.function_page(function)
        for one in header.types():
            pages.type_page(one)
