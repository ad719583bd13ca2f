# includes.awk: who may include whom.
#
#   include <- runtime/base <- runtime/driver <- runtime/thread
#           <- handles, alloc <- runtime/*.c
#
# Never back; handles and alloc never each other; own headers by their path
# from the root. Only typed public headers, the CUDA driver and the CUDA kinds
# include a vendor's headers (kind_onednn.c and onednn.h oneDNN's).

FNR == 1 { from = floor_of(FILENAME) }

/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, part, "\"")
    to = floor_of(part[2])
    if (to == 0) {
        wrong("\"" part[2] "\" is no path from the root")
    } else if (to > from) {
        wrong("\"" part[2] "\" lies above it")
    } else if (area(FILENAME) area(part[2]) ~ /^(handlesalloc|allochandles)$/) {
        wrong("handles and alloc do not know each other")
    }
}

/^[ \t]*#[ \t]*include[ \t]*</ && vendor($0) && !may_vendor(FILENAME) {
    wrong("a vendor's header: " $0)
}

# The floor a path lies on; 0 if it is no path from the root.
function floor_of(path)
{
    if (path ~ /^(include\/)?warmpool\//) {
        return 1
    } else if (path ~ /^runtime\/base\//) {
        return 2
    } else if (path ~ /^runtime\/driver\//) {
        return 3
    } else if (path ~ /^runtime\/thread\//) {
        return 4
    } else if (path ~ /^(handles|alloc)\//) {
        return 5
    } else if (path ~ /^runtime\/[^\/]*$/) {
        return 6
    }
    return 0
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
    return path ~ /^runtime\/driver\/cuda[^\/]*$/ ||
        path ~ /^handles\/kind_(cu[^\/]*|onednn\.c)$/ ||
        path ~ /^include\/warmpool\/(cu[^\/]*|onednn)\.h$/
}

function wrong(what)
{
    print FILENAME ":" FNR ": " what
    failed = 1
}

END { exit failed }
