"""Our declaration of ONNX Runtime's C interface beside ONNX Runtime's own header."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = ROOT / "src/engine/onnx/onnx_c_api.h"
FOLDERS = [f"{prefix}/include{rest}" for prefix in ("/usr", "/usr/local", f"{ROOT}/.deps/onnxruntime")
           for rest in ("", "/onnxruntime")]
PROGRAM = r"""
#include <cstddef>
#include <iostream>
#include "{header}"
template <class T> const char* type() {{ return __PRETTY_FUNCTION__; }}
#define FUNCTION(f) std::cout << #f << " " << offsetof(OrtApi, f) / sizeof(void*) << " " << type<decltype(OrtApi::f)>() << "\n";
#define NUMBER(n) std::cout << #n << " " << int(n) << "\n";
int main() {{ {lines} }}
"""


def described(header, folder, lines):
    source, program = folder / "described.cc", folder / "described"
    source.write_text(PROGRAM.format(header=header, lines=lines))
    subprocess.run(["g++", "-std=c++20", source, "-o", program], check=True, timeout=120)
    text = subprocess.run([program], check=True, capture_output=True, text=True, timeout=10).stdout
    return re.sub(r" noexcept( \(true\))?|_Ort\w+Ptr", "", text).splitlines()


def test_every_function_is_where_the_header_has_it(tmp_path):
    theirs = [pathlib.Path(f, "onnxruntime_c_api.h") for f in FOLDERS]
    theirs = [header for header in theirs if header.exists()]
    if not theirs:
        pytest.skip("ONNX Runtime's own header is not installed (libonnxruntime-dev)")
    text = OURS.read_text()
    functions = re.findall(r"\(\*(\w+)\)\(", text[text.index("struct OrtApi {") : text.index("struct OrtApiBase")])
    numbers = re.findall(r"\b(O\w+) = -?\d+", text[text.index("enum ") : text.index("struct OrtApi {")])
    assert len(functions) > 40 and len(numbers) > 15
    lines = "".join(f"FUNCTION({f})" for f in functions) + "".join(f"NUMBER({n})" for n in numbers)
    assert described(OURS, tmp_path, lines) == described(theirs[0], tmp_path, lines)
