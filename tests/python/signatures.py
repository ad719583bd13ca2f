#!/usr/bin/env python3
"""signatures.py: prints a program of C++ that compiles if the functions of the
headers, and of runtime/python, have the arguments and results that the package
gives to ctypes, and the structs the sizes."""

import ctypes

from warmpool import _dlpack
from warmpool._library import (
    _ENTRY_SIGNATURES,
    _LOCKED_SIGNATURES,
    _SIGNATURES,
    OUT_OF_MEMORY,
    _Error,
)

HEAD = """#include "runtime/python/python_buffer.cpp"
#include "runtime/python/python_entry.cpp"
#include <type_traits>

/* v: nothing, p: a pointer, else the number of bytes. */
template <typename type> constexpr char code()
{
    if constexpr (std::is_void_v<type>) {
        return 'v';
    } else if constexpr (std::is_pointer_v<type>) {
        return 'p';
    } else {
        static_assert(std::is_integral_v<type> || std::is_enum_v<type>);
        return '0' + sizeof(type);
    }
}

template <typename result, typename... arguments>
constexpr bool is(result (*)(arguments...), const char *want)
{
    const char found[] = {code<result>(), code<arguments>()..., 0};
    int i = 0;

    while (found[i] != 0 && found[i] == want[i]) {
        i++;
    }
    return found[i] == want[i];
}
"""
NUMBERS = ctypes.c_int, ctypes.c_size_t, ctypes.c_uint64


def code(kind):
    if kind is None:
        return "v"
    return str(ctypes.sizeof(kind)) if kind in NUMBERS else "p"


print(HEAD)
for table in _SIGNATURES, _ENTRY_SIGNATURES, _LOCKED_SIGNATURES:
    for name, (result, arguments) in table.items():
        want = "".join(map(code, [result, *arguments]))
        print(f'static_assert(is({name}, "{want}"), "{name}");')
for name, kind in ("warm_error", _Error), ("dl_tensor", _dlpack.Tensor):
    print(f"static_assert(sizeof({name}) == {ctypes.sizeof(kind)});")
print(f"static_assert(WARM_OUT_OF_MEMORY == {OUT_OF_MEMORY});")
