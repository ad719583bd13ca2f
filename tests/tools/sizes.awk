# sizes.awk FILE...: messages for people have no raw counts of bytes (wm_bytes()
# of runtime/base/bytes.h writes KiB, MiB and GiB).
#
# Of each call that fails or logs all literals are put together, with the names
# of PRIu64 and its like between them. Refused are a number before "bytes" or
# "B", and %zu, but for a count of characters and the size of a struct, which a
# programmer compares with sizeof. Nor is there a plural that may follow a 1.

function judge(text, line,    left) {
    left = text
    gsub(/%zu characters/, "", left)
    gsub(/\.size is %zu|this library's %zu|, here %zu/, "", left)
    if (left ~ /%zu/ ||
        left ~ /(%[0-9]*l?l?j?[udx]|PRI[udx]64) ?(bytes|B)([^A-Za-z]|$)/) {
        print name ":" line ": a raw count of bytes in a message: " text
        failed = 1
    }
    if (text ~ /(%l?l?j?u|PRIu64) ([a-z]+ )?(blocks|handles|events|groups)/ ||
        text ~ /(%l?l?j?u|PRIu64) ([a-z]+ )?(pieces|pools|segments|frees)/) {
        print name ":" line ": \"1 blocks\", where wm_counted() helps: " text
        failed = 1
    }
}

# The literals of a call whose arguments begin at position at; sets stop.
function literals(at,    c, depth, text) {
    for (depth = 1; depth > 0 && at <= length(code); at++) {
        c = substr(code, at, 1)
        if (c == "\"") {
            for (at++; (c = substr(code, at, 1)) != "\""; at++) {
                text = text c
                if (c == "\\") {
                    text = text substr(code, ++at, 1)
                }
            }
        } else if (substr(code, at, 3) == "PRI") {
            text = text substr(code, at, 6)
        } else if (c == "(") {
            depth++
        } else if (c == ")") {
            depth--
        }
    }
    stop = at
    return text
}

function newlines(text) {
    return gsub(/\n/, "", text)
}

function check_file(    line, text) {
    line = 1
    while (match(code, /wm_[a-z_]*(fail|log)[a-z_]*\(/)) {
        line += newlines(substr(code, 1, RSTART))
        code = substr(code, RSTART + RLENGTH)
        text = literals(1)
        judge(text, line)
        line += newlines(substr(code, 1, stop - 1))
        code = substr(code, stop)
    }
    code = ""
}

FNR == 1 && NR > 1 { check_file() }
FNR == 1 { name = FILENAME }
{ code = code $0 "\n" }
END {
    check_file()
    exit failed
}
