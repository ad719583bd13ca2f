#!/usr/bin/env python3
"""mutants.py: changes the library on purpose and looks which test notices.

    mutants.py map                   which test reaches which line
    mutants.py random N SEED [PATH]  N random changes below PATH
    mutants.py known [N SEED]        those of known.txt, or N of them
    mutants.py try LIST              those of a file like known.txt, all tests
    mutants.py same                  the tests that do not pass, or count something
                                     else than when the map was made: none where
                                     a change is to alter no behaviour
    mutants.py list FILE             every change that could be made there
    mutants.py check                 the lists: each entry's lines are there

A mutant is one change: an operator, a constant, a condition, a statement that
goes. A random one whose object code is the same is none; a known one may weaken
an order that only other machines, and check_schedules, tell apart. The tests
that reach its line run, those that have caught most and the quickest first,
until one fails twice: then the mutant is dead. So it is if a test passes whose
runtimes count something else than in each run of the tree as it is (WT_FIGURES,
tests/wt_runtime.c), as a reviewer of the change would see; that is said, and
counted. If no test has failed within LIMIT seconds from the end of its build,
they run once more under AddressSanitizer, where a fault counts if the test
passes there without the mutant. It lives if none fails there either, or none
reaches it; then it is printed as known.txt and equivalent.txt hold them.
Dead ones are put into build/mutants/dead.txt, as known.txt holds them. In the
end each test that has killed one must pass without it.
Works in copies of the tree below build/mutants/; the last line is
`mutants: played=… dead=… figures=… lived=… equivalent=…`, figures of the dead
ones; the status is 1 if one lived that is not listed as equivalent."""

import concurrent.futures
import fcntl
import filecmp
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
WORK = os.path.join(TOP, 'build', 'mutants')
MAP = os.path.join(WORK, 'map.json')
MATRIX = 'tests/fault/check_matrix'
LIMIT = float(os.environ.get('MUTANT_S', '60'))
JOBS = int(os.environ.get('JOBS', os.cpu_count() or 1))
FOLDERS = ('alloc/', 'handles/', 'runtime/')
# Only scripts run the folders, and none of them tells of lines. The files are
# the validity walk: a fault that it overlooks is one that the library has not.
LEFT_OUT = ('runtime/preload/', 'runtime/tools/', 'runtime/python/',
            'alloc/arena/arena_check.c', 'alloc/cache/cache_check.c',
            'alloc/stream/stream_check.c')
said = threading.Lock()


def say(text):
    with said:
        print(text, flush=True)


def run(command, seconds, env=None, folder=TOP):
    """True if it ends with status 0 in time; what it started ends with it."""
    process = subprocess.Popen(
        command, cwd=folder, env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        return process.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        end_session(process.pid)
        process.wait()


def end_session(leader):
    """Check's tests are process groups of their own."""
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open('/proc/%s/stat' % pid) as file:
                session = file.read().rpartition(')')[2].split()[3]
            if int(session) == leader:
                os.kill(int(pid), signal.SIGKILL)
        except (OSError, IndexError):
            pass  # it has ended


def make(folder, flavour, *goals, seconds=600):
    words = ['make', '-s', 'FLAVOUR=' + flavour, 'INSTALL=no', *goals]
    # A warning of a mutant is no error.
    return run(words, seconds, {'MAKEFLAGS': '', 'MAKELEVEL': '', 'CI': ''},
               folder)


def printed(*words):
    return subprocess.run(['make', '-s', *words], cwd=TOP, text=True,
                          capture_output=True, check=True,
                          env={**os.environ, 'MAKEFLAGS': '', 'MAKELEVEL': ''}
                          ).stdout.split()


# ---- sources ----------------------------------------------------------------

BLANK = re.compile(
    r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    r'|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)


def code_of(text):
    """The text with comments, strings and directives blanked."""
    return BLANK.sub(lambda m: re.sub(r'[^\n]', ' ', m[0]), text)


def closing(code, at):
    """The place of the parenthesis that closes the one at `at`."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] == '(') - (code[i] == ')')
        if depth == 0:
            return i
    return len(code)


SWAPS = [(re.compile(pattern), others) for pattern, others in (
    (r' (<) ', ['<=', '>=']), (r' (<=) ', ['<', '>']),
    (r' (>) ', ['>=', '<=']), (r' (>=) ', ['>', '<']),
    (r' (==) ', ['!=']), (r' (!=) ', ['==']),
    (r' (&&)\s', ['||']), (r' (\|\|)\s', ['&&']),
    (r' (\+) ', ['-']), (r' (-) ', ['+']),
    (r' (\*) ', ['/']), (r' (/) ', ['*']), (r' (%) ', ['/']),
    (r' (\+=) ', ['-=']), (r' (-=) ', ['+=']),
    (r'(\+\+)', ['--']), (r'(--)', ['++']),
    (r' (&) ', ['|']), (r' (\|) ', ['&']),
    (r' (<<) ', ['>>']), (r' (>>) ', ['<<']),
    (r'[^\w](!)[\w(]', ['']), (r' (~)[\w(]', ['']),
    (r'\b(true)\b', ['false']), (r'\b(false)\b', ['true']),
    (r'(?<![\w.])(\d+)(?=[uUlL]*\b)(?!\.)', None))]
CONDITION = re.compile(r'\b(?:if|while) (\()')
# A call or an assignment that is a statement: it has no type before its name.
STATEMENT = re.compile(
    r'(?<=[;{}\n])([ \t]+(?:\(void\))?[a-z_*(][\w>.\-\[\]*() ]*?'
    r'(?:\(| [-+|&]?= )[^;{}]*;)')
NO_STATEMENT = re.compile(
    r'\s*(?:(?:return|goto|case|else|static|const|struct|enum|typedef|extern|'
    r'while|for|if|switch|do|assert)\b|\w+ \**\w+\s*[=[(;,])')


def bodies(code):
    """Where functions lie: from a brace in column 0 to the one that ends it."""
    at = 0
    while (begin := code.find('\n{\n', at)) >= 0:
        end = code.find('\n}', begin)
        if end < 0:
            break
        yield begin + 1, end + 1
        at = end


def mutations(text):
    """All (begin, end, new text) of a source text."""
    code = code_of(text)
    for begin, end in bodies(code):
        body = code[begin:end]
        for pattern, others in SWAPS:
            for m in pattern.finditer(body):
                word = m[1]
                size = body[m.start(1) - 1] == '[' and len(word) > 1
                for other in others or ([] if size else constants(word)):
                    yield begin + m.start(1), begin + m.end(1), other
        for m in CONDITION.finditer(body):
            a = begin + m.start(1)
            b = closing(code, a)
            for front in ('!(', '0 && (') + (
                    ('1 || (',) if m[0].startswith('if') else ()):
                yield a + 1, b, front + text[a + 1:b] + ')'
        for m in STATEMENT.finditer(body):
            if not NO_STATEMENT.match(m[1]):
                a = begin + m.start(1)
                indent = len(m[1]) - len(m[1].lstrip())
                yield a + indent, begin + m.end(1), ';'


def constants(word):
    value = int(word, 0) if not word.startswith('0') or word == '0' else None
    if value is None:
        return []
    return ['1'] if value == 0 else ['0', '2'] if value == 1 else [
        str(value + 1)]


class Mutant:
    """Text of a file, from `begin` to `end`, becomes `new`."""

    def __init__(self, path, text, begin, end, new):
        self.path, self.text, self.new = path, text, new
        self.begin, self.end = begin, end
        self.line = text.count('\n', 0, begin) + 1

    def changed(self):
        return self.text[:self.begin] + self.new + self.text[self.end:]

    def lines(self):
        """Its lines before, and after."""
        first = self.text.rfind('\n', 0, self.begin) + 1
        last = self.text.find('\n', self.end)
        new = self.text[first:self.begin] + self.new + self.text[self.end:last]
        return self.text[first:last], new

    def entry(self, note):
        old, new = self.lines()
        return '\n'.join([self.path] + ['- ' + l for l in old.split('\n')] +
                         ['+ ' + l for l in new.split('\n')] + [': ' + note])

    def key(self):
        return self.path, self.changed()


def read(path):
    with open(os.path.join(TOP, path)) as file:
        return file.read()


def files(*patterns):
    return subprocess.run(['tests/tools/files.sh', *patterns], cwd=TOP,
                          text=True, capture_output=True,
                          check=True).stdout.split()


def sources(below):
    return [p for p in files('*.c', '*.h') if p.startswith(FOLDERS) and
            p.startswith(below) and not p.startswith(LEFT_OUT)]


def entries(name):
    """The mutants of a list, each with its note: see known.txt."""
    result = []
    text = re.sub(r'(?m)^#.*\n', '', read(os.path.join(HERE, name)))
    for block in filter(None, (b.strip('\n') for b in text.split('\n\n'))):
        path, *rest = block.split('\n')
        old = '\n'.join(l[2:] for l in rest if l.startswith('-'))
        new = '\n'.join(l[2:] for l in rest if l.startswith('+'))
        note = ' '.join(l[2:] for l in rest if l.startswith(':'))
        whole = read(path)
        if whole.count(old + '\n') != 1:
            sys.exit('%s: %s: these lines are there %d times, not once:\n%s' %
                     (name, path, whole.count(old + '\n'), old))
        at = whole.index(old + '\n')
        result.append((Mutant(path, whole, at, at + len(old), new), note))
    return result


# ---- the map ----------------------------------------------------------------

TEST = re.compile(r'\bWT_(?:LOOP_)?TEST\(\s*(test_\w+)')


def find_tests():
    """All [backend, program, test], as `make` runs them."""
    tests = []
    for word in printed('print-runs', 'FLAVOUR=debug'):
        backend, path = word.split(':')
        code = code_of(read(path + '.c'))
        tests += [[backend, path, name] for name in TEST.findall(code)]
    return tests


def test_env(test, flavour, folder, seconds, names):
    """Little load; but all of the fault matrix, as `make faults` plays it."""
    env = {'WT_BACKEND': test[0], 'WT_ONLY': names, 'CK_VERBOSITY': 'silent',
           'CK_DEFAULT_TIMEOUT': str(seconds),
           'WT_SCALE': '300' if test[1] == MATRIX else '2'}
    if test[0] == 'standin':
        standin = '%s/build/%s/standin' % (folder, flavour)
        env['LD_LIBRARY_PATH'] = '%s:%s/12' % (standin, standin)
    return env


def try_test(test, flavour, folder, seconds, more=None):
    """True if it passes."""
    return run(['build/%s/%s' % (flavour, test[1])], 2 * seconds + 5,
               {**test_env(test, flavour, folder, seconds, test[2]),
                **(more or {})}, folder)


def taken(path):
    """The words of a file, which goes; none if it is not there."""
    words = read(path).split() if os.path.exists(path) else []
    if words:
        os.remove(path)
    return words


def figures_path(folder):
    return os.path.join(folder, 'build', 'figures.%d' % threading.get_ident())


def counts(test, flavour, folder):
    """What its runtimes counted, a word each; None if it does not pass."""
    path = figures_path(folder)
    taken(path)
    passed = try_test(test, flavour, folder, max(3, 10 * test[3]),
                      {'WT_FIGURES': path})
    return taken(path) if passed else None


def counts_else(test, flavour, folder):
    """Whether it counts something else than the map says, the same twice."""
    found = counts(test, flavour, folder)
    return (found not in (None, test[4]) and
            found == counts(test, flavour, folder))


def try_tests(tests, flavour, folder):
    """Those of one program in one process: the first that fails, twice, or
    counts something else; or None if all pass. And whether it fails."""
    first, seconds = tests[0], max(t[3] for t in tests)
    limit = max(3, 10 * seconds)
    path = figures_path(folder)
    taken(path)
    if run(['build/%s/%s' % (flavour, first[1])],
           2 * limit + 2 * len(tests) + 5,
           {**test_env(first, flavour, folder, limit,
                       ' '.join(t[2] for t in tests)), 'WT_FIGURES': path},
           folder):
        told = taken(path)
        if flavour != 'debug' or not is_stable(first) or told == sum(
                (t[4] for t in sorted(tests, key=lambda t: t[5])), []):
            return None, False
        return next((t for t in tests if counts_else(t, flavour, folder)),
                    None), False
    for test in tests:
        limit = max(3, 10 * test[3])
        if not try_test(test, flavour, folder, limit) and \
                not try_test(test, flavour, folder, limit):
            return test, True
    return None, False


def is_stable(test):
    """Whether it counted the same in each run of the map."""
    return len(test) > 4 and test[4] is not None


QUICK = 0.5  # seconds that a test may take which runs with others


def by_program(tests):
    """In the order of their first ones; what is slow is alone."""
    groups = {}
    for test in tests:
        slow = test[2] if test[3] > QUICK else ''
        groups.setdefault((test[0], test[1], slow, is_stable(test)),
                          []).append(test)
    return list(groups.values())


def addresses(path):
    """What cover.c has written there, and the file is gone."""
    try:
        with open(path, 'rb') as file:
            found = []
            while True:  # holes are not read
                try:
                    at = os.lseek(file.fileno(), file.tell(), os.SEEK_DATA)
                except OSError:
                    break
                file.seek(at)
                data = file.read(1 << 16)
                found += [at + m.start() for m in re.finditer(b'\1', data)]
        os.remove(path)
        return found
    except FileNotFoundError:
        return []


def lines_of(module, found):
    """{address: (path, line)} of the library's, by debug information."""
    out = subprocess.run(['addr2line', '-e', module],
                         input='\n'.join('0x%x' % (a - 1) for a in found),
                         text=True, capture_output=True, check=True).stdout
    places = {}
    for address, place in zip(found, out.split('\n')):
        path, _, line = place.partition(':')
        path = os.path.normpath(path)  # MAP_cover: relative to TOP
        line = line.split(' ')[0]
        if path.startswith(FOLDERS) and line.isdigit():
            places[address] = (path, int(line))
    return places


def make_map():
    if not make(TOP, 'cover', '-j%d' % JOBS, 'test-programs', seconds=3600):
        sys.exit('mutants: the cover build failed')
    os.makedirs(WORK, exist_ok=True)
    tests = find_tests()
    seen = {}

    def one(i):
        test = tests[i]
        cover = os.path.join(WORK, 'cover.%d' % i)
        figures = os.path.join(WORK, 'figures.%d' % i)
        passed, told = True, []
        for more in ({'WT_COVER': cover}, {}, {}):
            begin = time.monotonic()
            passed &= try_test(test, 'cover', TOP, 60,
                               {'WT_FIGURES': figures, **more})
            told.append(taken(figures))
        test += [round(time.monotonic() - begin, 3),
                 told[0] if told[0] == told[1] == told[2] else None, i]
        found = addresses(cover + '.' + os.path.basename(test[1]))
        for name in os.listdir(WORK):
            if name.startswith('cover.%d.' % i):
                os.remove(os.path.join(WORK, name))
        if passed:
            seen[i] = found
        else:
            say('map: %s %s %s does not pass: left out' % tuple(test[:3]))

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(one, range(len(tests))))
    modules = {}
    for i in seen:
        unit = tests[i][1].startswith('tests/unit/')
        module = tests[i][1] if unit else 'libwarmpool.so.0'
        modules.setdefault(module, []).append(i)
    reach = {}
    for module, members in modules.items():
        places = lines_of(os.path.join(TOP, 'build/cover', module),
                          sorted(set().union(*(seen[i] for i in members))))
        for i in members:
            for place in {places[a] for a in seen[i] if a in places}:
                reach.setdefault(place[0], {}).setdefault(
                    place[1], []).append(i)
    with open(MAP, 'w') as file:
        json.dump({'tests': tests, 'reach': reach}, file)
    say('mutants: map: %d tests reach %d places of %d files' % (
        len(seen), sum(len(l) for l in reach.values()), len(reach)))


class Map:
    """The tests that reach a line. changed: it is known to be older."""

    def __init__(self, changed=False):
        if not os.path.exists(MAP):
            make_map()
        made = os.path.getmtime(MAP)
        newer = [p for p in sources('')
                 if os.path.getmtime(os.path.join(TOP, p)) > made]
        if newer and not changed:
            say('mutants: the map is older than %d files, of which it may name '
                'other tests: `%s map` makes it anew' % (
                    len(newer), os.path.relpath(__file__)))
        with open(MAP) as file:
            whole = json.load(file)
        self.tests = whole['tests']
        self.reach = {path: sorted((int(l), t) for l, t in lines.items())
                      for path, lines in whole['reach'].items()}
        self.kills = {}
        self.total = [1] * len(self.tests)
        for lines in self.reach.values():
            for _, tests in lines:
                for i in tests:
                    self.total[i] += 1

    def of(self, mutant):
        """By its basic block: the last reached line up to its own, of its
        function, and the one before it (a condition may share its line with the
        edge that one outcome takes), and its further lines. Before the first
        line that any test reaches, as in what is inlined, by all of the
        function, of the file, or by all there are. Best first; on its second
        backend each test comes after all others."""
        begin, over, lines = 0, 0, self.reach.get(mutant.path, [])
        for a, b in bodies(code_of(mutant.text)):
            if a <= mutant.begin < b:
                begin = mutant.text.count('\n', 0, a)  # the line of the name
                over = mutant.text.count('\n', 0, b) + 1
        end = mutant.line + mutant.text.count('\n', mutant.begin, mutant.end)
        up_to = [(l, t) for l, t in lines if begin <= l <= mutant.line]
        found = set().union(*(t for _, t in up_to[-2:]))
        for line, tests in lines:
            if mutant.line < line <= (end if up_to else over):
                found.update(tests)
        if not found:
            found.update(*(tests for _, tests in lines))
        if not lines:
            found.update(range(len(self.tests)))
        of_file, rare = {}, {}
        for line, tests in lines:
            for i in tests:
                of_file[i] = of_file.get(i, 0) + 1
                if begin <= line <= over:
                    rare[i] = rare.get(i, 0) + 1 / len(tests)
        best = sorted(found, key=lambda i: self.cost(i, mutant.path) *
                      self.total[i] / of_file.get(i, 1) / rare.get(i, 1e-6))
        first = {}
        for i in best:
            first.setdefault(tuple(self.tests[i][1:3]), i)
        return sorted(best, key=lambda i: first[tuple(self.tests[i][1:3])] != i)

    def cost(self, i, path):
        """Seconds, less for a test that is likely to notice. Its caller makes
        it more for one that reaches much besides the file, and less for one
        that reaches what few others reach of the function."""
        name = os.path.splitext(os.path.basename(path))[0]
        cost = self.tests[i][3] / (1 + self.kills.get(i, 0))
        program = os.path.basename(self.tests[i][1]).split('_')[1:]
        if program == name.split('_'):
            return cost / 10
        return cost / 3 if set(program) & set(name.split('_')) else cost


# ---- playing ----------------------------------------------------------------

class Tree:
    """A copy of the tree that is built once, and then with each mutant."""

    def __init__(self, number):
        self.folder = os.path.join(WORK, 'tree%d' % number)
        made = os.path.join(TOP, 'build', 'debug')
        first = not os.path.exists(self.folder)
        if first and os.path.isdir(made):
            os.makedirs(os.path.join(self.folder, 'build'))
            subprocess.run(['cp', '-a', made, self.folder + '/build/'],
                           check=True)
        for name in files('*'):
            self.copy(name, first)
        self.compile = printed('print-compile', 'FLAVOUR=release')

    def copy(self, name, first):
        """What is the same keeps its time, as what is built already needs."""
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if first or not self.is_same(name, path):
            shutil.copy2(os.path.join(TOP, name), path)
            if not first:
                os.utime(path)

    @staticmethod
    def is_same(name, path):
        return os.path.exists(path) and filecmp.cmp(
            os.path.join(TOP, name), path, shallow=False)

    def build(self, *goals, flavour='debug'):
        return make(self.folder, flavour, *goals)

    def write(self, path, text):
        with open(os.path.join(self.folder, path), 'w') as file:
            file.write(text)

    def object_text(self, path):
        """The object as a release has it, which tells of no lines."""
        out = os.path.join(self.folder, 'build', 'mutant.o')
        if not run([*self.compile, '-g0', '-w', '-c', path, '-o', out], 120,
                   folder=self.folder):
            return None
        with open(out, 'rb') as file:
            return file.read()

    def same_object(self, mutant):
        """None: it does not compile."""
        if not mutant.path.endswith('.c'):
            return False
        self.write(mutant.path, mutant.text)
        before = self.object_text(mutant.path)
        self.write(mutant.path, mutant.changed())
        after = self.object_text(mutant.path)
        return None if after is None else before == after

    def play(self, mutant, tests):
        """The test that it dies of, or None; whether that fails; and what was
        played, or None if it does not compile. What lives is played under
        AddressSanitizer too."""
        self.write(mutant.path, mutant.changed())
        try:
            dies, fails, why = self.play_in('debug', tests)
            while dies and not fails:
                self.write(mutant.path, mutant.text)
                if self.counts_as_told(dies):
                    return dies, fails, why
                dies[4] = None  # it is not stable after all
                self.write(mutant.path, mutant.changed())
                dies, fails, why = self.play_in('debug', tests)
            if dies or not why or not tests:
                return dies, fails, why
            dies, fails, _ = self.play_in('asan', tests)
            self.write(mutant.path, mutant.text)
            if dies and self.passes('asan', dies):
                return dies, fails, why
            return None, False, why
        finally:
            self.write(mutant.path, mutant.text)

    def build_library(self, flavour):
        return self.build('build/%s/libwarmpool.so.0' % flavour,
                          'build/%s/libwarmpool.a' % flavour, flavour=flavour)

    def build_whole(self, flavour, test):
        return (self.build_library(flavour) and
                self.build('build/%s/%s' % (flavour, test[1]), flavour=flavour))

    def passes(self, flavour, test):
        """Whether it does without the mutant."""
        return (self.build_whole(flavour, test) and
                try_tests([test], flavour, self.folder)[0] is None)

    def counts_as_told(self, test):
        """The same: whether it counts what the map says, each time."""
        return self.build_whole('debug', test) and all(
            counts(test, 'debug', self.folder) == test[4] for _ in range(3))

    def failing(self, tests):
        """Those that fail without a mutant: what they killed may live."""
        self.build_library('debug')
        self.build(*('build/debug/' + t[1] for t in tests))
        return [t for t in tests
                if try_tests([t], 'debug', self.folder)[1]]

    def play_in(self, flavour, tests):
        if not self.build_library(flavour):
            return None, False, None
        ran, begin = 0, time.monotonic()
        for group in by_program(tests):
            if time.monotonic() - begin > LIMIT:
                return None, False, '%d of %d tests in %.0f s' % (
                    ran, len(tests), LIMIT)
            self.build('build/%s/%s' % (flavour, group[0][1]),
                       flavour=flavour)
            ran += len(group)
            dies, fails = try_tests(group, flavour, self.folder)
            if dies:
                return dies, fails, ran
        return None, False, 'all %d tests that reach it' % ran if ran else \
            'no test reaches it'


def play_all(mutants, count, reach, equivalent):
    """Plays `count` of (mutant, the tests to be tried; None: of the map)."""
    listed = {m.key() for m, _ in equivalent}
    ends = dict.fromkeys(('dead', 'figures', 'lived', 'equivalent', 'none'), 0)
    queue = list(reversed(mutants))
    goals = {'build/debug/' + t[1] for _, tests in mutants for t in tests or ()}
    if any(t[0] == 'standin' for _, tests in mutants for t in tests or ()):
        goals.add('standin')
    begun, trees, killers = [0], [], {}
    lock = threading.Lock()

    def worker(number):
        tree = Tree(number)
        trees.append(tree)
        if not tree.build('-j%d' % JOBS, *(goals or ['test-programs'])):
            say('mutants: the tree does not build: ' + tree.folder)
            os._exit(2)
        while True:
            with lock:
                if not queue or begun[0] == count:
                    return
                begun[0] += 1
                mutant, tests = queue.pop()
            one(tree, mutant, tests)

    def one(tree, mutant, tests):
        place = '%s:%d' % (mutant.path, mutant.line)
        if mutant.key() in listed:
            result, text = 'equivalent', 'listed'
        elif reach and tree.same_object(mutant) is not False:
            tree.write(mutant.path, mutant.text)
            result, text = 'none', ''
        else:
            begin = time.monotonic()
            test, fails, why = tree.play(
                mutant, tests if tests is not None else
                [reach.tests[i] for i in reach.of(mutant)])
            result = 'dead' if test else 'lived' if why else 'none'
            text = '%.1f s  ' % (time.monotonic() - begin)
            text += ('%s %s%s' % (test[1], test[2],
                                  '' if fails else ' (figures)')
                     if test else why or 'does not compile')
            if test and reach:
                for i, known in enumerate(reach.tests):
                    if known[:3] == test[:3]:
                        reach.kills[i] = reach.kills.get(i, 0) + 1
        with lock:
            ends[result] += 1
            ends['figures'] += text.endswith('(figures)')
            begun[0] -= result == 'none'
        if result != 'none' or reach is None:
            say('%-10s %s  %s' % (result, place, text))
        if result == 'lived':
            say(mutant.entry('?') + '\n')
        elif result == 'dead':
            killers[tuple(test[:3])] = test
            with open(os.path.join(WORK, 'dead.txt'), 'a') as file:
                file.write(mutant.entry(' '.join(test[:3])) + '\n\n')

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for done in [pool.submit(worker, n) for n in range(JOBS)]:
            done.result()
    false = trees[0].failing(killers.values()) if killers else []
    for test in false:
        say('mutants: %s %s %s fails without a mutant' % tuple(test[:3]))
    say('mutants: played=%d dead=%d figures=%d lived=%d equivalent=%d' % (
        begun[0], ends['dead'], ends['figures'], ends['lived'],
        ends['equivalent']))
    return ends['lived'] + len(false) + (ends['none'] if reach is None else 0)


def same(reach):
    """How many tests count something else than when the map was made."""
    if not make(TOP, 'debug', '-j%d' % JOBS, 'test-programs', 'standin',
                seconds=3600):
        sys.exit('mutants: the tree does not build')
    groups = by_program(t for t in reach.tests if is_stable(t))

    def one(group):
        if try_tests(group, 'debug', TOP)[0] is None:
            return 0
        others = [t for t in group if try_tests([t], 'debug', TOP)[0]]
        for test in others:
            say('else       %s %s %s' % tuple(test[:3]))
        return len(others)

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        differ = sum(pool.map(one, groups))
    say('mutants: same=%d else=%d' % (
        sum(len(g) for g in groups) - differ, differ))
    return differ


def random_mutants(seed, below):
    every = [Mutant(path, text, *m) for path in sources(below)
             for text in [read(path)] for m in mutations(text)]
    random.Random(seed).shuffle(every)
    return [(mutant, None) for mutant in every]


def known_mutants(seed):
    chosen = []
    for mutant, note in entries('known.txt'):
        backend, program, test = note.split()
        chosen.append((mutant, [[backend, program, test, 5.0]]))
    random.Random(seed).shuffle(chosen)
    return chosen


def main(words):
    os.makedirs(WORK, exist_ok=True)
    lock = open(os.path.join(WORK, 'lock'), 'w')
    fcntl.flock(lock, fcntl.LOCK_EX)
    if words[:1] == ['map']:
        make_map()
    elif words == ['same']:
        return same(Map(changed=True)) > 0
    elif words[:1] == ['list'] and len(words) == 2:
        text = read(words[1])
        for begin, end, new in mutations(text):
            print(Mutant(words[1], text, begin, end, new).entry('') + '\n')
    elif words[:1] == ['try'] and len(words) == 2:
        tried = [(m, None) for m, _ in entries(os.path.abspath(words[1]))]
        return play_all(tried, len(tried), Map(), []) > 0
    elif words == ['check']:
        entries('known.txt')
        entries('equivalent.txt')
    elif words[:1] == ['random'] and len(words) in (3, 4):
        below = words[3] if len(words) == 4 else ''
        return play_all(random_mutants(int(words[2]), below), int(words[1]),
                        Map(), entries('equivalent.txt')) > 0
    elif words[:1] == ['known'] and len(words) in (1, 3):
        count, seed = (int(words[1]), words[2]) if len(words) == 3 else (0, 0)
        os.environ.setdefault('WT_SCHEDULES', '900')
        known = known_mutants(seed)
        entries('equivalent.txt')  # stops at one whose lines are gone
        return play_all(known[:count or None], len(known), None, []) > 0
    else:
        sys.exit(__doc__)
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
