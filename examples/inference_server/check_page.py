#!/usr/bin/env python3
"""check_page.py BIN OUT: the example server's page in headless Chromium.

Runs BIN/inference_server, has it classify images, and looks at its page: the
figures are those of /stats and /snapshot, every part has a name for a screen
reader, the arrow keys move, and nothing is wider than the window. Leaves
screenshots in OUT, of three widths in both colours, for somebody to look at.
The last line is `N passed, N failed`.
"""
import html
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import threading
import urllib.request
import zlib

WIDTHS = {390: 1900, 768: 1450, 1280: 1100}
COLOURS = {'light': (0xf4, 0xf5, 0xf7), 'dark': (0x12, 0x15, 0x18)}

# Appended to the page in the tests that need more than to read it.
PROBE = r'''<pre id="probe"></pre><script>
setTimeout(() => {
  const found = [];
  const all = s => [...document.querySelectorAll(s)];
  const wide = document.documentElement.scrollWidth - window.innerWidth;
  if (wide > 0) { found.push('wider than the window by ' + wide); }
  for (const e of all('[role],button,section,table')) {
    const by = e.getAttribute('aria-labelledby');
    const name = e.getAttribute('aria-label') || e.textContent.trim() ||
      (by && document.getElementById(by).textContent);
    if (!name && e.id !== 'detail') { found.push('no name: ' + e.outerHTML); }
  }
  for (const e of all('.scroll')) {
    if (e.tabIndex < 0) { found.push('no focus: ' + e.className); }
  }
  for (const list of all('[role=listbox]')) {
    const options = [...list.children];
    if (options.filter(o => o.tabIndex === 0).length !== 1) {
      found.push('not one tab stop: ' + list.getAttribute('aria-label'));
    }
    const press = key => document.activeElement.dispatchEvent(
      new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
    options[0].focus();
    press('End');
    const last = options.at(-1);
    if (options.length > 1 && (document.activeElement !== last ||
        last.getAttribute('aria-selected') !== 'true')) {
      found.push('End does not choose the last: ' + last.id);
    }
    press('Home');
    press('Enter');
    if (document.activeElement !== options[0] ||
        options[0].getAttribute('aria-selected') !== 'true' ||
        document.getElementById('detail').hidden ||
        !document.getElementById('detail').textContent.includes(options[0].id)) {
      found.push('Enter does not show the blocks: ' + options[0].id);
    }
  }
  document.getElementById('probe').textContent = found.join('\n') || 'good';
}, 1500);
</script>'''

passed = failed = 0


def check(name, good, why=''):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f'FAIL {name} {why}')


def chromium(*options):
    with tempfile.TemporaryDirectory() as home:
        return subprocess.run(
            ['chromium', '--headless', '--no-sandbox', '--disable-gpu',
             '--hide-scrollbars', '--no-first-run', '--user-data-dir=' + home,
             '--virtual-time-budget=6000', *options],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
            timeout=120).stdout.decode()


class Server:
    def __init__(self, folder):
        self.process = subprocess.Popen(
            [folder + '/inference_server', '--driver', 'host', '--port', '0',
             '--weights', folder + '/check.weights'],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.base = None
        for line in self.process.stdout:
            found = re.search(r'port=(\d+)|127\.0\.0\.1:(\d+)', line)
            if found:
                port = found.group(1) or found.group(2)
                self.base = f'http://127.0.0.1:{port}/'
                return
        raise SystemExit('the server did not start')

    def get(self, path, body=None):
        with urllib.request.urlopen(self.base + path, body) as reply:
            return reply.read().decode()

    def json(self, path):
        return json.loads(self.get(path))

    def end(self):
        self.process.terminate()
        self.process.wait(60)


def check_figures(server):
    """The page of the running server, which rests meanwhile."""
    total = server.json('stats')['warmpool']['total']
    snapshot = server.json('snapshot')
    page = chromium('--dump-dom', server.base)
    shown = dict(re.findall(r'data-figure="(\w+)" data-value="(\d+)"', page))
    check('figures', len(shown) == 6, shown)
    for name, value in shown.items():
        check(name, int(value) == total[name], f'{value}, not {total[name]}')
    held = sum(int(n) for n in re.findall(r'data-bytes="(\d+)"', page))
    check('held in segments', held == total['held_bytes'],
          f'{held}, not {total["held_bytes"]}')
    for segment in snapshot['segments']:
        address = hex(segment['address'])
        check('segment', f'id="{address}"' in page, address)
    calls = sum(int(n) for n in re.findall(r'data-count="(\d+)"', page))
    check('calls', calls >= total['driver_calls'] > 0, calls)
    for stats in server.json('stats')['warmpool']['handles']:
        check('handles', f'<th scope="row">{stats["kind"]}</th>' in page,
              stats['kind'])
    check('state', re.search(r'id="state" role="status">live<', page))
    check('charts', page.count('class="chart"') == 3, page.count('"chart"'))


def embedded(server):
    """The page as warm_snapshot_write_html() writes it."""
    data = json.dumps({'stats': server.json('stats')['warmpool'],
                       'snapshot': server.json('snapshot')})
    place = '<script id="data" type="application/json">'
    return server.get('').replace(place, place + data.replace('<', r'\u003c'))


def check_probe(server, out):
    path = os.path.abspath(out + '/probe.html')
    with open(path, 'w') as file:
        file.write(embedded(server).replace('</body>', PROBE + '</body>'))
    for width in WIDTHS:
        page = chromium('--dump-dom', f'--window-size={width},900',
                        'file://' + path)
        found = re.search(r'<pre id="probe">(.*?)</pre>', page, re.S)
        answer = html.unescape(found.group(1)) if found else 'no probe'
        check(f'probe at {width}', answer == 'good', answer)
    os.unlink(path)


def first_pixel(path):
    """Width and the colour of the first pixel, which no filter changes."""
    with open(path, 'rb') as file:
        data = file.read()
    width, _, depth, kind = struct.unpack('>IIBB', data[16:26])
    pixels, at = b'', 8
    while at < len(data):
        length, name = struct.unpack('>I4s', data[at:at + 8])
        if name == b'IDAT':
            pixels += data[at + 8:at + 8 + length]
        at += length + 12
    assert depth == 8 and kind in (2, 6)
    return width, tuple(zlib.decompress(pixels)[1:4])


class Load:
    """Images to classify, now more and now fewer, so that lines move."""

    def __init__(self, server):
        self.server, self.over = server, threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        turn = 0
        while not self.over.wait(.01 if turn // 40 % 2 else .05):
            self.server.get('classify', bytes([turn % 256]) * 784)
            turn += 1

    def end(self):
        self.over.set()
        self.thread.join()


def check_screenshots(server, out):
    for width, height in WIDTHS.items():
        for colour, expected in COLOURS.items():
            path = f'{out}/{colour}-{width}.png'
            chromium(f'--screenshot={path}', f'--window-size={width},{height}',
                     '--blink-settings=preferredColorScheme='
                     + ('0' if colour == 'dark' else '1'), server.base)
            got = first_pixel(path)
            check(path, got == (width, expected), got)


def main():
    folder, out = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    server = Server(folder)
    try:
        for i in range(40):
            server.get('classify', bytes([i]) * 784)
        check_figures(server)
        check_probe(server, out)
        load = Load(server)
        try:
            check_screenshots(server, out)
        finally:
            load.end()
    finally:
        server.end()
    print(f'screenshots: {out}/')
    print(f'{passed} passed, {failed} failed')
    return failed != 0


if __name__ == '__main__':
    sys.exit(main())
