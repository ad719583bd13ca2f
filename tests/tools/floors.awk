# floors.awk: who calls whom, from what the objects define and want. Reads
# floors.txt and `nm -A -P` of all objects of a build (build=…/ is cut off their
# paths).
#
# An arrow goes from the file that wants a symbol to the one that defines it. It
# may not go to a higher floor, nor to another folder of the same floor, nor
# between handles and alloc. The arrows within a folder may form no circle.

FILENAME ~ /floors\.txt$/ {
    if ($1 !~ /^#/) {
        floor[$2] = $1
    }
    next
}

{
    file = $1
    sub(/\.o:$/, "", file)
    sub(/\.o\[.*$/, "", file)
    file = substr(file, index(file, build) == 1 ? length(build) + 1 : 1)
    files[file] = 1
    if ($3 == "U") {
        wants[file, $2] = 1
    } else if ($3 ~ /^[ABCDGRSTVW]$/) {
        home[$2] = file
    }
}

END {
    for (pair in wants) {
        split(pair, part, SUBSEP)
        from = part[1]
        to = home[part[2]]
        if (to != "" && to != from) {
            arrow[from, to] = arrow[from, to] " " part[2]
        }
    }
    for (pair in arrow) {
        split(pair, part, SUBSEP)
        why = forbidden(part[1], part[2])
        if (why != "") {
            wrong(part[1] " calls " part[2] ", which lies " why ":" arrow[pair])
        }
    }
    for (file in files) {
        count[folder_of(file)]++
    }
    for (folder in count) {
        find_circle(folder)
    }
    exit failed
}

function folder_of(path)
{
    sub(/\/[^\/]*$/, "", path)
    return path
}

function forbidden(from, to,    a, b)
{
    a = folder_of(from)
    b = folder_of(to)
    if (!(a in floor) || !(b in floor)) {
        return "in a folder that floors.txt does not name"
    } else if (a ~ /^(handles|alloc)/ && b ~ /^(handles|alloc)/ &&
               substr(a, 1, 5) != substr(b, 1, 5)) {
        return "in the other half of the library"
    } else if (floor[b] + 0 > floor[a] + 0) {
        return "above it"
    } else if (a != b && floor[a] == floor[b]) {
        return "beside it"
    }
    return ""
}

# Looks for a circle among the files of a folder, and names it.
function find_circle(folder,    file)
{
    prune(folder)
    for (file in files) {
        if (folder_of(file) == folder && alive[file]) {
            tell(file)
            return
        }
    }
}

# Takes away what nobody calls or what calls nobody, until nothing changes.
# Files that stay alive[] are in a circle or between two; step[] leads along.
function prune(folder,    file, pair, part, changed, in_of, out_of)
{
    for (file in files) {
        alive[file] = folder_of(file) == folder
    }
    do {
        changed = 0
        delete in_of
        delete out_of
        for (pair in arrow) {
            split(pair, part, SUBSEP)
            if (alive[part[1]] && alive[part[2]]) {
                out_of[part[1]] = part[2]
                in_of[part[2]] = part[1]
            }
        }
        for (file in files) {
            if (alive[file] && (!(file in in_of) || !(file in out_of))) {
                alive[file] = 0
                changed = 1
            }
        }
    } while (changed)
    delete step
    for (file in out_of) {
        step[file] = out_of[file]
    }
}

function tell(file,    seen, start, text)
{
    while (!(file in seen)) {
        seen[file] = 1
        file = step[file]
    }
    start = file
    text = "a circle:"
    do {
        text = text "\n    " file " ->" arrow[file, step[file]]
        file = step[file]
    } while (file != start)
    wrong(text)
}

function wrong(what)
{
    print "floors: " what
    failed = 1
}
