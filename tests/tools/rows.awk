# rows.awk: see rows.sh. Lines in, tab between the fields:
#   row <row> <behaviour> | test <name> | end <backend> <name> <passed|failed>

$1 == "row" { order[++rows] = $2; text[$2] = $3 }

$1 == "test" {
    count = split($2, part, "_")
    for (i = 2; i <= count && part[i] ~ /^[A-IT][0-9]+$/; i++) {
        names[part[i]] = names[part[i]] " " $2
        if (!(part[i] in unknown)) {
            unknown[part[i]] = $2
        }
    }
}

# One failed run of a looped test outweighs those that passed.
$1 == "end" && ended[$2, $3] != "failed" { ended[$2, $3] = $4 }

function end_of(backend, name)
{
    return (backend, name) in ended ? ended[backend, name] : "not run"
}

# Sets of a row: has_passed, has_failed, and on_gpu, whether it passed there.
function print_tests(row,    list, count, i, name)
{
    has_passed = has_failed = on_gpu = 0
    count = split(names[row], list, " ")
    for (i = 1; i <= count; i++) {
        name = list[i]
        printf "      %s: host %s, stand-in %s, GPU %s\n", name,
            end_of("host", name), end_of("standin", name), end_of("gpu", name)
        has_passed += passed_somewhere(name)
        has_failed += failed_somewhere(name)
        on_gpu += end_of("gpu", name) == "passed"
    }
    if (count == 0) {
        print "      none"
    }
}

function passed_somewhere(name)
{
    return (end_of("host", name) end_of("standin", name) \
        end_of("gpu", name)) ~ /passed/
}

function failed_somewhere(name)
{
    return (end_of("host", name) end_of("standin", name) \
        end_of("gpu", name)) ~ /failed/
}

END {
    for (r = 1; r <= rows; r++) {
        row = order[r]
        delete unknown[row]
        printf "%-4s %s\n", row, text[row]
        print_tests(row)
        shown += has_passed && !has_failed
        gpu += on_gpu && !has_failed
    }
    for (row in unknown) {
        print "rows: " unknown[row] " names " row ", which is no row"
        failed = 1
    }
    printf "rows: shown=%d of=%d gpu=%d\n", shown, rows, gpu
    exit failed
}
