# headers.py: what the public headers say: their head comments, and each
# declaration with the comment above it.
#
# A comment is taken as it was written: lines that end early end a paragraph,
# `- ` begins an item of a list, indented lines are shown as they are. In the
# comment of a function `name:`, of a parameter, begins what is said of it, and
# `Status` what it returns.
import re
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


def split_commas(text):
    parts, depth = [""], 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return parts


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
    return [read_one(path) for path in paths]


# ---- text -------------------------------------------------------------------


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
                3 + len(before) + 1 + len(line.split()[0]) > WIDTH:
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
