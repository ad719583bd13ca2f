# includes.awk: who may include whom: see floors.txt, the first file to read.
#
# Own headers by their path from the root. Only typed public headers, the CUDA
# driver and the CUDA kinds include a vendor's headers (kind_onednn.c and
# onednn.h oneDNN's, probe.c NVTX's).

FILENAME ~ /floors\.txt$/ {
    if ($1 !~ /^#/) {
        floor[$2] = $1
    }
    next
}

FNR == 1 {
    folder = folder_of(FILENAME)
    if (!(folder in floor)) {
        wrong("floors.txt does not name " folder)
    }
}

/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, part, "\"")
    to = folder_of(part[2])
    if (!(to in floor)) {
        wrong("\"" part[2] "\" is no path from the root")
    } else if (floor[to] + 0 > floor[folder] + 0) {
        wrong("\"" part[2] "\" lies above it")
    } else if (area(FILENAME) area(part[2]) ~ /^(handlesalloc|allochandles)$/) {
        wrong("handles and alloc do not know each other")
    } else if (to != folder && floor[to] == floor[folder]) {
        wrong("\"" part[2] "\" lies beside it")
    }
}

/^[ \t]*#[ \t]*include[ \t]*</ && vendor($0) && !may_vendor(FILENAME) {
    wrong("a vendor's header: " $0)
}

function folder_of(path)
{
    sub(/\/[^\/]*$/, "", path)
    return path == "warmpool" ? "include/warmpool" : path
}

function area(path)
{
    sub(/\/.*/, "", path)
    return path
}

function vendor(line)
{
    return line ~ /<(cu|nv|dnnl|oneapi)/
}

function may_vendor(path)
{
    return path ~ /^runtime\/cuda\/[^\/]*$/ ||
        path ~ /^runtime\/base\/probe\.c$/ ||
        path ~ /^handles\/kinds\/kind_(cu[^\/]*|onednn\.c)$/ ||
        path ~ /^include\/warmpool\/(cu[^\/]*|onednn)\.h$/
}

function wrong(what)
{
    print FILENAME ":" FNR ": " what
    failed = 1
}

END {
    exit failed
}
