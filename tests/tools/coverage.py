#!/usr/bin/env python3
"""coverage.py BUILD: what the tests of a cov build have reached of the library.

For each file its lines and branches, then the functions with lines that no test
has reached and that uncovered.txt does not name, and the sums. The status is 1
below LINES or BRANCHES per cent."""

import collections
import json
import os
import re
import subprocess
import sys

LINES, BRANCHES = 96, 88
LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'uncovered.txt')


def listed():
    """(path, function) of each that has a reason."""
    with open(LIST) as file:
        text = re.sub(r'#.*', '', file.read())
    return {(path, name) for path, names in
            re.findall(r'(\S+):((?:\s+\w+(?!\S))+)', text)
            for name in names.split()}


def objects(build):
    for part in ('alloc', 'handles', 'runtime'):
        for folder, _, names in os.walk(os.path.join(build, part)):
            for name in sorted(names):
                if name.endswith('.gcno'):
                    yield folder, os.path.join(folder, name)


def read(build):
    """{path: {line: [times reached, function, times of each branch]}}"""
    found = collections.defaultdict(dict)
    for folder, data in objects(build):
        out = subprocess.run(
            ['gcov', '--json-format', '--stdout', '--branch-probabilities',
             '--object-directory', folder, data],
            capture_output=True, text=True, check=True).stdout
        for file in json.loads(out)['files']:
            if os.path.isabs(file['file']):
                continue
            for line in file['lines']:
                add(found[file['file']], line)
    return found


def add(lines, line):
    """A header's lines are those of each object that includes it."""
    ways = [branch['count'] for branch in line['branches']]
    known = lines.setdefault(line['line_number'],
                             [0, line.get('function_name', 'inlined'), []])
    known[0] += line['count']
    if len(ways) == len(known[2]):
        known[2] = [a + b for a, b in zip(known[2], ways)]
    elif len(ways) > len(known[2]):
        known[2] = ways


def share(part, whole):
    return 100 * part / whole if whole else 100


def main(build):
    found, reasons = read(build), listed()
    if not found:
        sys.exit('coverage: no data below ' + build)
    sums, unlisted = [0, 0, 0, 0], {}
    for path, lines in sorted(found.items()):
        ways = [times for line in lines.values() for times in line[2]]
        now = [sum(line[0] > 0 for line in lines.values()), len(lines),
               sum(times > 0 for times in ways), len(ways)]
        sums = [a + b for a, b in zip(sums, now)]
        print('%6.1f %% of %4d lines  %6.1f %% of %4d branches  %s' % (
            share(*now[:2]), now[1], share(*now[2:]), now[3], path))
        for number, (times, name, _) in sorted(lines.items()):
            if times == 0 and (path, name) not in reasons:
                unlisted.setdefault((path, name), []).append(number)
    for (path, name), numbers in unlisted.items():
        print('not reached, without a reason in uncovered.txt: %s %s: %s' % (
            path, name, ' '.join(map(str, numbers))))
    print('cov: lines=%d reached=%.1f%% branches=%d taken=%.1f%%' % (
        sums[1], share(*sums[:2]), sums[3], share(*sums[2:])))
    return share(*sums[:2]) < LINES or share(*sums[2:]) < BRANCHES


if __name__ == '__main__':
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else __doc__)
