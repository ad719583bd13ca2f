#!/usr/bin/env python3
"""torch_libraries.py TORCH STANDIN OUT: the libraries that PyTorch's CUDA wheel
is linked with, so that it starts on a machine without a GPU.

TORCH: the wheel's folder of libraries. STANDIN: the folder of the stand-ins.
OUT: gets a library for each soname that the wheel's symbols are versions of: the
objects of the stand-in, if there is one, linked with that version. A function
that the stand-in does not have prints its name, once, and returns an error:
that is where PyTorch stops.
"""

import os
import pathlib
import re
import subprocess
import sys

CUDA = os.environ.get("CUDA_HOME", "/usr/local/cuda")
# soname: objects of the stand-in, below STANDIN/tests/standin
OBJECTS = {
    "libcudart": ["cudart.o", "version.o"],
    "libcublas": ["cublas.o", "gemm.o", "version.o"],
    "libcublasLt": ["cublaslt.o", "version.o"],
    "libcudnn": ["cudnn.o", "version.o"],
    "libcusparse": ["cusparse.o", "version.o"],
    "libcusolver": ["cusolver.o", "version.o"],
}

# cudaErrorNotSupported; in the other libraries an error of some kind too.
HEAD = """
#include <stdio.h>
static int stops(int *told, const char *name)
{
    if (!__atomic_exchange_n(told, 1, __ATOMIC_RELAXED)) {
        fprintf(stderr, "stand-in stops at %s\\n", name);
    }
    return 801;
}
"""
STOPS = 'int {0}(void) {{ static int told; return stops(&told, "{0}"); }}\n'
# What a compiler makes of kernels: nothing to run them with.
QUIET = "void *{0}(void) {{ return 0; }}\n"


def symbols(flag, *files):
    output = subprocess.run(
        ["nm", *flag.split(), *map(str, files)], check=True, capture_output=True,
        text=True,
    ).stdout
    return [line.split()[-1] for line in output.splitlines() if " " in line]


def readelf(flag, torch):
    return subprocess.run(
        ["readelf", "-W", flag, *map(str, torch.glob("*.so"))], check=True,
        capture_output=True, text=True,
    ).stdout


def needed(torch):
    """The sonames, and for each the version that its symbols have, if any."""
    found = re.findall(r"\[(lib(?:cu|nv|nccl)\w*\.so\.\d+)\]", readelf("-d", torch))
    versions = dict.fromkeys(found)
    for part in readelf("-V", torch).split("File: ")[1:]:
        soname = part.split()[0]
        if soname in versions:
            versions[soname] = re.search(r"Name: (\S+)", part)[1]
    versions.pop("libcuda.so.1", None)
    return versions


def wanted(torch, versions):
    """soname: names, of all that the wheel's libraries leave to others. Where
    they have no version the name says whose it is."""
    found = {soname: set() for soname in versions}
    for symbol in symbols("-D --undefined-only", *torch.glob("*.so")):
        name, _, version = symbol.partition("@")
        for soname, whose in versions.items():
            prefix = soname.split(".")[0][len("lib"):].removesuffix("_host")
            if version == whose if version else name.lower().startswith(
                prefix.lower()
            ):
                found[soname].add(name)
    return found


def link(soname, whose, names, standin, out):
    base = soname.split(".")[0]
    objects = [standin / "tests/standin" / o for o in OBJECTS.get(base, [])]
    if base == "libcudart":
        calls = out / "torch_calls.o"
        here = pathlib.Path(__file__).parent
        subprocess.run(
            ["cc", "-c", "-fPIC", "-Wall", "-D_GNU_SOURCE", f"-I{CUDA}/include",
             here / "torch_calls.c", "-o", calls],
            check=True,
        )
        # A function that the stand-in has by now is the stand-in's.
        subprocess.run(["objcopy", "--weaken", calls], check=True)
        objects.append(calls)
    have = set(symbols("--defined-only", *objects)) if objects else set()
    source = out / f"{base}.c"
    source.write_text(HEAD + "".join(
        (QUIET if name.startswith("__") else STOPS).format(name)
        for name in sorted(names - have)
    ))
    version = out / f"{base}.map"
    version.write_text(
        f"{whose or ''} {{ global: cu*; __cu*; nv*; nccl*; standin_*; "
        "local: standin_version; *; };\n"
    )
    libraries = [standin / "libcuda.so.1"] if objects else []
    if objects and base != "libcudart":
        libraries.append(next(out.glob("libcudart.so.*")))
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-g0", "-w", "-pthread", source, *objects,
         *libraries, "-lm", f"-Wl,-soname,{soname}",
         f"-Wl,--version-script={version}", f"-Wl,-rpath,{standin}",
         "-o", out / soname],
        check=True,
    )
    print(f"{soname}: {len(names & have)} of {len(names)} functions")


def main():
    torch, standin, out = (pathlib.Path(a).resolve() for a in sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    versions = needed(torch)
    found = wanted(torch, versions)
    for soname in sorted(versions, key=lambda s: ("cudart" not in s, s)):
        link(soname, versions[soname], found[soname], standin, out)


main()
