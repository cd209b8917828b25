#!/usr/bin/env python3
"""Writes the model that the tests write, lets llama.cpp quantise it, also by the importance of columns, and prints the
SHA-256 of all files.

    LLAMA_LIBS=… llama_cpp.py FOLDER

LLAMA_LIBS: the folder bins/linux-x64 of the npm package @node-llama-cpp/linux-x64 3.22.1 (llama.cpp v0.5.0). Needs numpy,
cffi and llama-cpp-py-sync 0.11739, whose declarations are used.
"""
import hashlib, importlib.util, os, re, struct, sys
from pathlib import Path
import numpy as np
from cffi import FFI

LAYER = [("attn_norm", [256], 0), ("ffn_norm", [256], 0), ("attn_q", [256, 256], 1), ("attn_k", [256, 64], 30),
         ("attn_v", [256, 64], 0), ("attn_output", [256, 256], 1), ("ffn_gate", [256, 288], 30),
         ("ffn_up", [256, 288], 0), ("ffn_down", [288, 256], 1)]


def noise(seed, count):
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15) * np.arange(1, count + 1, dtype=np.uint64)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    x = (z >> np.uint64(40)).astype(np.float64) / 2**27 - 2.0**-4
    return (x * 0.5 ** (z & np.uint64(7)).astype(np.float64)).astype(np.float32)


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def model():
    number = lambda key, value: text(key) + struct.pack("<II", 4, value)
    pairs = [text("general.architecture") + struct.pack("<I", 8) + text("llama"), number("general.file_type", 0),
             number("llama.block_count", 2), number("llama.context_length", 64), number("llama.embedding_length", 256),
             number("llama.feed_forward_length", 288), number("llama.attention.head_count", 4),
             number("llama.attention.head_count_kv", 1),
             text("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5),
             number("llama.vocab_size", 8),
             text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 8) + b"".join(map(text, "abcdefgh"))]
    tensors = [("output_norm.weight", [256], 0)]
    for layer in (1, 0):
        tensors += [(f"blk.{layer}.{name}.weight", dims, kind) for name, dims, kind in LAYER]
    tensors += [("token_embd.weight", [256, 8], 0), ("output.weight", [256, 8], 0)]
    infos, data = b"", b""
    for seed, (name, dims, kind) in enumerate(tensors):
        infos += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(data))
        x = noise(seed, int(np.prod(dims)))
        x = {0: x, 1: x.astype(np.float16), 30: (x.view(np.uint32) >> 16).astype(np.uint16)}[kind].tobytes()
        data += x + bytes(-len(x) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs) + infos
    return head + bytes(-len(head) % 32) + data


def importance(ffi):
    """A list of llama.cpp's, of all matrices in layers but one, and of the head."""
    columns = {f"blk.{layer}.{name}.weight": dims[0] for layer in (0, 1) for name, dims, _ in LAYER if len(dims) > 1}
    columns = columns | {"output.weight": 256}
    del columns["blk.0.attn_k.weight"]
    kept, rows = [], ffi.new("struct llama_model_imatrix_data[]", len(columns) + 1)
    for seed, (row, (name, count)) in enumerate(zip(rows, sorted(columns.items())), 100):
        own = np.square(noise(seed, count))
        kept += [own, ffi.new("char[]", name.encode())]
        row.name, row.data, row.size = kept[-1], ffi.cast("float *", own.ctypes.data), count
    return rows, kept


def library():
    libs = os.environ["LLAMA_LIBS"]
    source = Path(importlib.util.find_spec("llama_cpp_py_sync").origin).with_name("_cffi_bindings.py").read_text()
    ffi = FFI()
    ffi.cdef(re.search(r'_LLAMA_H_CDEF = """(.*?)"""', source, re.S).group(1))
    for name in ["libggml-base.so", "libggml.v0.5.0.so"]:
        ffi.dlopen(f"{libs}/{name}", ffi.RTLD_GLOBAL | ffi.RTLD_NOW)
    lib = ffi.dlopen(f"{libs}/libllama.v0.5.0.so", ffi.RTLD_GLOBAL | ffi.RTLD_NOW)
    lib.llama_backend_init()
    return ffi, lib


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "floats.gguf").write_bytes(model())
    ffi, lib = library()
    rows, _kept = importance(ffi)
    for name, kind, by in [("q8_0", 7, ffi.NULL), ("q4_0", 2, ffi.NULL), ("q4_k_m", 15, ffi.NULL),
                           ("q4_0-by-importance", 2, rows), ("q4_k_m-by-importance", 15, rows)]:
        params = lib.llama_model_quantize_default_params()
        params.ftype, params.nthread, params.imatrix = kind, 1, by
        kept = ffi.new("struct llama_model_quantize_params *", params)
        source, target = (str(folder / f"{name}.gguf").encode() for name in ["floats", name])
        assert lib.llama_model_quantize(source, target, kept) == 0
    for path in sorted(folder.glob("*.gguf")):
        print(path.name, path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
