# headers.py: what the public headers say: their head comments, and each
# declaration with the comment above it.
#
# A comment is taken as it was written: a sentence whose last line ends early ends
# a paragraph, `- ` begins an item of a list, indented lines are shown as they
# are. In the comment of a function `name:`, of a parameter, begins what is said of
# it, and `Status` what it returns. A struct or enum whose members come from a
# macro (WARM_…_MAP) is shown with these members.
import re
import textwrap
from dataclasses import dataclass, field

WIDTH = 80


@dataclass
class Declaration:
    code: str
    kind: str  # function, type or macro
    name: str
    names: list = field(default_factory=list)  # also of what it defines within
    comment: list = field(default_factory=list)  # lines
    header: str = ""

    def parameters(self):
        inner = self.code[self.code.find("(") + 1:self.code.rfind(")")]
        return [re.findall(r"\w+", part)[-1] for part in split_commas(inner)
                if re.search(r"\w", part) and part.strip() != "void"]

    def summary(self):
        """What it does; of a comment for several, what is said of this one."""
        lines = self.comment
        for at, line in enumerate(lines):
            if at and re.match(r"\s*- ", line):
                lines = lines[:at]
                break
        text = " ".join(" ".join(lines).split())
        own = re.search(rf"(?:^|[.;] ){self.name}\(\) (?=[a-z]+s )", text)
        text = first_sentence(text[own.end():] if own else text)
        return text if len(text) <= 130 else re.split(r"[:;] ", text)[0]


@dataclass
class Header:
    file: str  # memory.h
    title: str
    comment: list
    declarations: list = field(default_factory=list)

    def name(self):
        return self.file.replace(".", "_") if self.file.endswith(".hpp") \
            else self.file[:-2]

    def functions(self):
        return [d for d in self.declarations if d.kind == "function"]

    def others(self):
        return [d for d in self.declarations if d.kind != "function"]

    def types(self):
        return [d for d in self.declarations
                if d.kind == "type" and d.name.startswith("warm_")]


def split_commas(text):
    """At the commas that stand outside of parentheses and of strings."""
    parts, depth, quoted = [""], 0, False
    for c in text:
        quoted ^= c == '"'
        if not quoted:
            depth += (c == "(") - (c == ")")
        if c == "," and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts]


# ---- macros that list members -----------------------------------------------


def macro(code):
    """(name, parameters, body) of a macro with parameters, or None."""
    flat = " ".join(code.replace("\\\n", " ").split())
    match = re.match(r"# ?define (\w+)\(([^)]*)\) ?(.*)", flat)
    return match and (match[1], split_commas(match[2]), match[3])


def calls(text):
    """(name, arguments) of each call in a macro's body."""
    at, out = 0, []
    while match := re.compile(r"(\w+) ?\(").search(text, at):
        at, depth, quoted = match.end(), 1, False
        while depth:
            quoted ^= text[at] == '"'
            if not quoted:
                depth += (text[at] == "(") - (text[at] == ")")
            at += 1
        out.append((match[1], split_commas(text[match.end():at - 1])))
    return out


def member(field, arguments):
    """What the macro `field` makes of a row, with the row's text behind it."""
    _, names, body = field
    for name, value in zip(names, arguments):
        body = re.sub(rf"\b{name}\b", lambda _: value, body)
    body = re.sub(r" *## *", "", body)
    words = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', arguments[-1]))
    if not words or len(body) + len(words) < WIDTH - 12:
        return f"    {body}" + (f" /* {words} */" if words else "")
    above = textwrap.wrap(words, WIDTH - 12)
    return "    /* " + "\n     * ".join(above) + f" */\n    {body}"


def expanded(code, maps):
    """A type's code, with the rows of the maps that it names as members."""
    fields, out, lines = {}, [], code.split("\n")
    while lines:
        line = lines.pop(0)
        name = re.match(r" +(WARM_\w+_MAP)\(", line)
        if line.startswith("#"):
            while line.endswith("\\"):
                line = line[:-1] + lines.pop(0)
            if found := macro(line):
                fields[found[0]] = found
        elif name and name[1] in maps:
            while ")" not in line:
                line += lines.pop(0)
            _, parameters, body = maps[name[1]]
            given = dict(zip(parameters, calls(line)[0][1]))
            out += [member(fields[given[x]], arguments)
                    for x, arguments in calls(body)]
        else:
            out.append(line)
    return "\n".join(out)


def expand(headers):
    """In all types; of a map only its name and parameters stay."""
    all_of = [d for h in headers for d in h.declarations]
    maps = {found[0]: found for d in all_of if d.kind == "macro"
            and (found := macro(d.code)) and found[0].endswith("_MAP")}
    for d in all_of:
        if d.kind == "type" and "_MAP(" in d.code:
            d.code = expanded(d.code, maps)
        elif d.name in maps:
            d.code = f"#define {d.name}({', '.join(maps[d.name][1])})"


# ---- reading ------------------------------------------------------------------


def first_sentence(text):
    match = re.search(r"\.(?=\s|$)|:(?=\s+[A-Z]|$)", text)
    return text[:match.start()] if match else text.rstrip(".")


def unstar(lines):
    out = []
    for line in lines:
        line = re.sub(r"\s*\*/\s*$", "", line)
        out.append(re.sub(r"^/\* ?|^ \* ?", "", line).rstrip())
    while out and not out[-1]:
        out.pop()
    return out


def without_cpp(lines):
    """Less what is for C++ alone, and the guard."""
    out, stack = [], []
    for line in lines:
        word = re.match(r"#\s*(ifdef|ifndef|if|else|elif|endif)\b(.*)", line)
        if not word:
            if "cpp" not in stack:
                out.append(line)
            continue
        if word[1].startswith("if"):
            plus = word[1] == "ifdef" and "__cplusplus" in word[2]
            stack.append("cpp" if plus else "other")
        elif word[1] in ("else", "elif"):
            stack[-1] = "other"
        else:
            stack.pop()
    return out


def take_comment(lines, at):
    end = at
    while "*/" not in lines[end]:
        end += 1
    return unstar(lines[at:end + 1]), end + 1


def take_code(lines, at):
    """A declaration that begins in line at."""
    end = at
    if lines[at].startswith("#"):
        while lines[end].endswith("\\"):
            end += 1
        return lines[at:end + 1], end + 1
    if lines[at].startswith("static inline"):
        while not lines[end].startswith("{"):
            end += 1
        code = lines[at:end]
        while not lines[end].startswith("}"):
            end += 1
        code[-1] += ";"
        code[0] = code[0].replace("static inline ", "")
        return code, end + 1
    body = False
    while True:
        line = re.sub(r"/\*.*?\*/", "", lines[end])
        body = body or re.search(r"\{\s*$", line) is not None
        if line.startswith("}") or (not body and ";" in line):
            return lines[at:end + 1], end + 1
        end += 1


def align(lines):
    """Without WARM_API; what stood below the parenthesis stays below it."""
    if not lines[0].startswith("WARM_API "):
        return lines
    cut = len("WARM_API ")
    return [lines[0][cut:]] + [line[cut:] if line[:cut].isspace() else line
                               for line in lines[1:]]


def declaration(code, comment, header):
    text = "\n".join(align(code))
    flat = " ".join(text.split())
    names = []
    if code[0].startswith("#"):
        kind, name = "macro", re.match(r"#define (\w+)", code[0])[1]
    elif re.match(r"(typedef|enum|struct)\b", flat):
        kind = "type"
        match = re.search(r"\(\*(\w+)\)", flat) if "{" not in flat else None
        match = match or re.search(r"(\w+);$", flat) or \
            re.match(r"enum \{ *(\w+)", flat)
        name = match[1]
        if flat.startswith(("typedef enum", "enum")):
            names = re.findall(r"\b(WARM_[A-Z0-9_]+)\b *=", flat)
    else:
        kind, name = "function", re.search(r"(\w+)\(", flat)[1]
    return Declaration(text, kind, name, names, comment, header)


def read_one(path):
    lines = path.read_text(encoding="utf-8").split("\n")
    head, at = take_comment(lines, 0)
    title = re.sub(r"^warmpool/\S+: ", "", head[0])
    rest = head[1:]
    # The title is the first sentence, which may be longer than a line.
    while rest and rest[0] and not title.endswith((".", ":")):
        title += " " + rest.pop(0)
    title, more = (first_sentence(title), title[len(first_sentence(title)):])
    more = more.lstrip(".: ")
    header = Header(path.name, title, ([more] if more else []) + rest)
    if path.suffix == ".hpp":
        return header
    lines = without_cpp(lines[at:])
    at, comment, unused = 0, [], False
    while at < len(lines):
        line = lines[at]
        if line.startswith("/*"):
            comment, at = take_comment(lines, at)
            if comment[0].startswith("----"):
                comment = []
            unused = bool(comment)
        elif not line.strip() or line.startswith(("#include", "#undef",
                                                  "#error", "#define WARMPOOL_")):
            if unused and not line.strip():
                raise SystemExit(f"{path}: no declaration below: {comment[0]}")
            comment = comment if line.strip() else []
            at += 1
        elif line.startswith(("#define warm_", "#define WARM_API")):
            at, unused = at + 1, False  # one name for another: per_thread.h
        else:
            inline = line.startswith("static inline")
            code, at = take_code(lines, at)
            unused = False
            one = declaration(code, comment, path.name)
            # A function that a header defines is for programs if its comment
            # has a Status, or the head comment names it.
            if not inline or any("Status" in text for text in comment) or \
                    any(f"{one.name}(" in text for text in head):
                header.declarations.append(one)
    return header


def read(paths):
    headers = [read_one(path) for path in paths]
    expand(headers)
    return headers


# ---- text -------------------------------------------------------------------


def goes_on(before, line):
    """Whether a line is of the paragraph of the line before it."""
    if 3 + len(before) + 1 + len(line.split()[0]) > WIDTH:
        return True  # which was full
    if before.endswith((":", ";")):
        return re.match(r"[a-z]\w*(?!\w*(, \w+)*:)\b", line) is not None
    return not before.endswith(".")


def blocks(lines):
    """("text", words), ("item", words) and ("code", lines) of a comment."""
    out, before = [], ""
    for line in lines:
        item = re.match(r"\s*- (.*)", line)
        indent = len(line) - len(line.lstrip())
        if not line:
            out.append(None)
        elif item:
            out.append(["item", [item[1]], indent + 2])
        elif indent >= 2 and out and out[-1] and out[-1][0] == "item":
            out[-1][1].append(line.strip())
        elif indent >= 2:
            if out and out[-1] and out[-1][0] == "code":
                out[-1][1].append(line)
            else:
                out.append(["code", [line], 0])
        elif out and out[-1] and out[-1][0] == "text" and \
                goes_on(before, line):
            out[-1][1].append(line.strip())
        else:
            out.append(["text", [line.strip()], 0])
        before = line
    # Code that an empty line parts stays together.
    whole = []
    for at, block in enumerate(out):
        if block is None:
            continue
        if block[0] == "code" and whole and whole[-1][0] == "code":
            whole[-1][1].extend([""] + block[1])
        else:
            whole.append([block[0], list(block[1])])
    return [(kind, text if kind == "code" else " ".join(text))
            for kind, text in whole]


def parts(function):
    """(description, [(parameter, text)], status) of a function's comment."""
    names = function.parameters()
    marker = re.compile(
        r"(?:^|(?<=[.;)] ))(Status\b|" +
        "|".join(rf"{re.escape(name)}:" for name in names) + r")")
    description, parameters, status = [], [], []
    for kind, text in blocks(function.comment):
        if kind != "text":
            into = status if status else description
            into.append((kind, text))
            continue
        at = [m for m in marker.finditer(text)]
        if not at or at[0].start() > 0:
            end = at[0].start() if at else len(text)
            description.append(("text", text[:end].strip()))
        for one, following in zip(at, at[1:] + [None]):
            end = following.start() if following else len(text)
            words = text[one.end():end].strip()
            if one[1] == "Status":
                status.append(("text", "Status" + text[one.end():end].rstrip()))
            else:
                parameters.append((one[1][:-1], words))
    return description, parameters, status
