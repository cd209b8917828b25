"""The library: its functions with tensors of torch as arguments and results.

Tensors go in as DLPack's `DLTensor`, which is written to memory that the thread keeps, and come out as DLPack's capsules,
whose memory torch frees. Nothing is copied.
"""

import ctypes
import platform
import struct
import threading
from pathlib import Path

import torch

_NAMES = {"Linux": "so", "Darwin": "dylib", "Windows": "dll"}
_FILE = Path(__file__).with_name(
    "_kernels_{}.{}".format(platform.machine().lower(), _NAMES.get(platform.system(), "so"))
)
if not _FILE.exists():
    raise ImportError(
        "this package has no library for {} on {}: it has {}".format(
            platform.machine(),
            platform.system(),
            ", ".join(sorted(path.name for path in _FILE.parent.glob("_kernels_*"))) or "none",
        )
    )
_LIBRARY = ctypes.CDLL(str(_FILE))

_CODES = {
    torch.float32: (2, 32),
    torch.float64: (2, 64),
    torch.bfloat16: (4, 16),
    torch.float16: (2, 16),
    torch.int64: (0, 64),
    torch.int32: (0, 32),
    torch.bool: (6, 8),
}
_SLOT = 256  # the bytes of a DLTensor, 48, and of 12 axes and strides
_MOST = 16  # tensors of a call
_KINDS = {
    "tensor": ctypes.c_void_p,
    "tensor?": ctypes.c_void_p,
    "float": ctypes.c_double,
    "float?": ctypes.c_double,
    "int": ctypes.c_int64,
    "bool": ctypes.c_int64,
    "name": ctypes.c_char_p,
}
# data, device, ndim, type, shape, strides, byte_offset, and both lists.
_DESCRIBE = [struct.Struct("<QiiiBBHQQQ{}q".format(2 * axes)) for axes in range(13)]
_AXES = len(_DESCRIBE)
_NAN = float("nan")

_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_from_dlpack = getattr(torch._C, "_from_dlpack", torch.utils.dlpack.from_dlpack)

_error = _LIBRARY.burn_kernels_error
_error.restype = ctypes.c_char_p
_error.argtypes = ()


def _refuse(name, tensor):
    if len(tensor.shape) >= _AXES:
        raise ValueError("{}: tensors of {} axes are not supported".format(name, len(tensor.shape)))
    raise ValueError("{}: tensors in {} are not supported".format(name, tensor.dtype))


class _Memory(threading.local):
    def __init__(self):
        self.slots = ctypes.create_string_buffer(_MOST * _SLOT)
        self.start = ctypes.addressof(self.slots)
        self.results = (ctypes.c_void_p * 8)()


_memory = _Memory()


class Function:
    """A function of the library. Optional tensors and floats may be None. Returns a tensor, or a tuple of tensors and None."""

    def __init__(self, name, arguments, results):
        self.name = name
        self.calls = 0
        self._names = [name for name, _ in arguments]
        kinds = [kind for _, kind in arguments]
        self._kinds = [(i, kind[0] == "t", kind == "float?") for i, kind in enumerate(kinds)]
        self._count = len(kinds)
        self._results = range(len(results))
        self._call = getattr(_LIBRARY, "burn_kernels_" + name)
        self._call.restype = ctypes.c_int
        self._call.argtypes = [_KINDS[kind] for kind in kinds] + [ctypes.c_void_p]

    def __call__(self, *arguments):
        self.calls += 1
        if len(arguments) != self._count:
            raise TypeError("{} takes {} arguments, and not {}".format(self.name, self._count, len(arguments)))
        memory = _memory
        slots, start, results = memory.slots, memory.start, memory.results
        given = list(arguments)
        offset = 0
        for i, is_tensor, may_lack in self._kinds:
            value = given[i]
            if is_tensor:
                if value is not None:
                    shape = value.shape
                    axes = len(shape)
                    code, bits = axes < _AXES and _CODES.get(value.dtype) or _refuse(self.name, value)
                    at = start + offset
                    _DESCRIBE[axes].pack_into(
                        slots, offset, value.data_ptr(), 1, 0, axes, code, bits, 1, at + 48, at + 48 + 8 * axes, 0,
                        *shape, *value.stride()
                    )
                    given[i] = at
                    offset += _SLOT
            elif may_lack:
                if value is None:
                    given[i] = _NAN
                elif value != value:  # in C, NaN stands for None
                    raise ValueError("{}: {}: a number is expected, and not NaN".format(self.name, self._names[i]))
        code = self._call(*given, results)
        if code:
            message = _error().decode(errors="replace")
            raise (ValueError if code == -1 else RuntimeError)(message)
        made = [None if results[i] is None else _from_dlpack(_capsule(results[i], b"dltensor", None)) for i in self._results]
        return made[0] if len(made) == 1 else tuple(made)


def _functions():
    text = _LIBRARY.burn_kernels_functions
    text.restype = ctypes.c_char_p
    for line in text().decode().splitlines():
        name, arguments, results = line.split(" ")
        arguments = [tuple(argument.split(":")) for argument in arguments.split(",")]
        yield name, Function(name, arguments, results.split(",") if results else [])


FUNCTIONS = dict(_functions())


def __getattr__(name):
    try:
        return FUNCTIONS[name]
    except KeyError:
        raise AttributeError("the library has no function {!r}".format(name)) from None
