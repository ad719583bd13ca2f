# strip.awk: C sources without comments and literals, as file:line:code.
#
# Comments become a blank, strings "" and characters ''; lines stay where they
# are, so that a match can be reported at its place.

FNR == 1 { inside = 0 }

{
    text = $0
    code = ""
    while (text != "") {
        if (inside) {
            end = index(text, "*/")
            if (!end) {
                break
            }
            text = substr(text, end + 2)
            inside = 0
            code = code " "
        } else if (match(text, /\/\*|\/\/|"|'/)) {
            code = code substr(text, 1, RSTART - 1)
            sign = substr(text, RSTART, RLENGTH)
            text = substr(text, RSTART + RLENGTH)
            if (sign == "//") {
                break
            } else if (sign == "/*") {
                inside = 1
            } else {
                text = after_literal(text, sign)
                code = code sign sign
            }
        } else {
            code = code text
            break
        }
    }
    print FILENAME ":" FNR ":" code
}

# What follows the literal that sign has opened.
function after_literal(rest, sign,    c)
{
    while (rest != "") {
        c = substr(rest, 1, 1)
        rest = substr(rest, c == "\\" ? 3 : 2)
        if (c == sign) {
            break
        }
    }
    return rest
}
