"""The arrays of the stand-in for CuPy: NumPy's values, CuPy's manners.

They are no NumPy arrays and do not become one unasked; they do not meet NumPy arrays; they have the
attributes and methods of CuPy's, and the module has CuPy's functions. Work goes to the current
stream (stream_stand_in.py), also when a graph is captured: then it is noted and not done.
"""

import operator
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import numpy as np
from stream_stand_in import WORLD, Misuse, Pointer

from minidp.backend import emulated
from minidp.nested import leaves

FROM_HOST = ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "copy")
METHODS = (
    *("astype", "copy", "reshape", "ravel", "flatten", "transpose", "swapaxes", "squeeze", "sum"),
    *("mean", "max", "min", "argmax", "argmin", "prod", "all", "any", "cumsum", "cumprod", "clip"),
    *("take", "repeat", "argsort", "diagonal", "trace", "round", "var", "std", "view", "dot"),
)
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide,
    "floordiv": np.floor_divide, "mod": np.remainder, "pow": np.power, "matmul": np.matmul,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "lshift": np.left_shift,
    "rshift": np.right_shift,
}  # fmt: skip
COMPARED = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
            "gt": np.greater, "ge": np.greater_equal}  # fmt: skip
CUBLAS = ("matmul", "dot", "vdot", "inner", "tensordot", "einsum")
UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}


class Flags:
    """What CuPy tells of an array's layout."""

    def __init__(self, flags, owndata):
        self.c_contiguous, self.f_contiguous = flags.c_contiguous, flags.f_contiguous
        self.owndata = owndata

    def __getitem__(self, name):
        return {"C_CONTIGUOUS": self.c_contiguous, "F_CONTIGUOUS": self.f_contiguous}[name]


class Array:
    """The stand-in's cupy.ndarray."""

    __hash__ = None

    def __init__(self, host, device, source=None):
        self.host, self.device_index = host, device
        self.source = source  # as CuPy's `base`: a view keeps the array alive
        WORLD.block_of(host)

    shape = property(lambda self: self.host.shape)
    dtype = property(lambda self: self.host.dtype)
    ndim = property(lambda self: self.host.ndim)
    size = property(lambda self: self.host.size)
    nbytes = property(lambda self: self.host.nbytes)
    itemsize = property(lambda self: self.host.itemsize)
    strides = property(lambda self: self.host.strides)
    device = property(lambda self: SimpleNamespace(id=self.device_index))
    data = property(lambda self: Pointer(self))
    base = property(lambda self: self.source)
    T = property(lambda self: self.transpose())

    flags = property(lambda self: Flags(self.host.flags, self.source is None))

    def __array__(self, *how, **more):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. "
                        "Please use `.get()` to construct a NumPy array explicitly.")  # fmt: skip

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return computed(ufunc.__name__, getattr(ufunc, method), inputs, options)

    def __array_function__(self, function, types, args, kwargs):
        if not hasattr(NAMES, function.__name__):
            return NotImplemented
        return computed(function.__name__, function, args, kwargs)

    def __getitem__(self, key):
        if any(getattr(part, "dtype", None) == np.bool_ for part in leaves(key)):
            wait()  # how many there are, only the host can say
        return computed("indexing", operator.getitem, (self, key), {}, key)

    def __setitem__(self, key, value):
        if isinstance(value, np.ndarray) and value.shape:
            raise TypeError("a NumPy array assigned to a part of an array of the GPU")
        reads = [a for a in leaves((key, value)) if isinstance(a, Array)]
        target, given = self.host, hosts((key, value))
        same_device("assignment", [self, *reads])
        WORLD.work("assignment", reads, [self], lambda: target.__setitem__(*given))

    def __len__(self):
        return len(self.host)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def fill(self, value):
        WORLD.work("fill", [], [self], lambda: self.host.fill(value))

    def get(self):
        wait()
        WORLD.block_of(self.host).touch(WORLD.current_stream(), False, "get")
        return self.host.copy()

    def item(self):
        return self.get().item()

    def tolist(self):
        return self.get().tolist()

    def tobytes(self):
        return self.get().tobytes()

    __bool__ = lambda self: bool(self.get())  # noqa: E731
    __float__ = lambda self: float(self.get())  # noqa: E731
    __int__ = lambda self: int(self.get())  # noqa: E731
    __index__ = lambda self: operator.index(self.get())  # noqa: E731


def wait():
    """The host waits for the current stream."""
    WORLD.current_stream().synchronize()


def method(name):
    def call(self, *args, **kwargs):
        function = lambda host, *args, **kwargs: getattr(host, name)(*args, **kwargs)  # noqa: E731
        return computed(name, function, (self, *args), kwargs)

    return call


def binary(ufunc, swapped=False, inplace=False):
    def call(self, other):
        inputs = (other, self) if swapped else (self, other)
        return computed(ufunc.__name__, ufunc, inputs, {"out": self} if inplace else {})

    return call


for name in METHODS:
    setattr(Array, name, method(name))
for name, ufunc in BINARY.items():
    setattr(Array, f"__{name}__", binary(ufunc))
    setattr(Array, f"__r{name}__", binary(ufunc, swapped=True))
    setattr(Array, f"__i{name}__", binary(ufunc, inplace=True))
for name, ufunc in COMPARED.items():
    setattr(Array, f"__{name}__", binary(ufunc))
for name, ufunc in UNARY.items():
    setattr(Array, f"__{name}__", lambda self, ufunc=ufunc: computed("unary", ufunc, (self,), {}))


def hosts(value):
    """The same value with NumPy arrays for Arrays."""
    if isinstance(value, Array):
        return value.host
    if isinstance(value, dict):
        return {key: hosts(part) for key, part in value.items()}
    if isinstance(value, tuple | list) and type(value) in (tuple, list):
        return type(value)(map(hosts, value))
    return value


def arrays_of(value):
    return [part for part in leaves(value) if isinstance(part, Array)]


def same_device(what, arrays):
    current = WORLD.current_stream().device
    for array in arrays:
        if array.device_index != current:
            raise Misuse(f"{what} on device {current} of an array of device {array.device_index}")


def wrapped(value, reads, out):
    """The same value with Arrays for NumPy's: those of `out`, views of `reads`, or new ones."""
    if isinstance(value, tuple | list):
        return tuple(wrapped(part, reads, out) for part in value)
    if not isinstance(value, np.ndarray | np.generic):
        return value
    for array in (*out, *reads):
        if array.host is value:
            return array
    array = np.asarray(value)
    base = next((each for each in reads if np.may_share_memory(array, each.host)), None)
    if base is None:
        return Array(array, emulated.current())
    return Array(array, base.device_index, base if base.source is None else base.source)


def computed(what, function, args, kwargs, allowed=()):
    """The function's result, made on the current stream; `allowed` may hold NumPy arrays."""
    free = [id(part) for part in leaves(allowed)]
    for part in leaves((args, kwargs)):
        if isinstance(part, np.ndarray) and id(part) not in free:
            raise TypeError(f"{what}: Unsupported type <class 'numpy.ndarray'>")
        if isinstance(part, np.ndarray) and WORLD.current_stream().recorded is not None:
            raise Misuse(f"{what}: a copy from the host in a captured stream")
    if what in CUBLAS and WORLD.current_stream().recorded is not None:
        raise NotImplementedError("calling cuBLAS API during stream capture is unsupported")
    reads, out = arrays_of((args, kwargs)), arrays_of(kwargs.get("out", ()))
    for array in reads:
        WORLD.block_of(array.host).arrive()
    before = [array.host.copy() for array in out]
    call = lambda: function(*hosts(args), **hosts(kwargs))  # noqa: E731
    result = wrapped(call(), reads, out)
    made = arrays_of(result)
    known = {id(array) for array in reads}
    if not out and all(array.source is not None or id(array) in known for array in made):
        return result  # views: no work
    same_device(what, reads)
    stream = WORLD.current_stream()
    if stream.recorded is None:
        for array, write in [(a, False) for a in reads] + [(a, True) for a in made]:
            WORLD.block_of(array.host).touch(stream, write, what)
        return result
    for array, values in zip(out, before, strict=True):
        np.copyto(array.host, values)  # a capture does nothing yet

    def run():
        for array, value in zip(made, leaves(call()), strict=True):
            if array.host is not value:
                np.copyto(array.host, value)

    WORLD.work(what, reads, made, run)
    return result


def created(name):
    """A function that makes an array on the current device."""
    function = getattr(np, name)

    def make(*args, **kwargs):
        if arrays_of((args, kwargs)):
            return computed(name, function, args, kwargs)
        stream = WORLD.current_stream()
        if stream.recorded is not None and name in FROM_HOST:
            raise Misuse("a copy from the host in a captured stream")
        values = np.array(function(*args, **kwargs))
        result = Array(np.empty_like(values), emulated.current())
        if name.startswith("empty"):
            if result.dtype.kind == "f":
                result.host.fill(np.nan)
        else:
            WORLD.work("creation", [], [result], lambda: np.copyto(result.host, values))
        return result

    return make


class Ufunc:
    """The stand-in's cupy.ufunc."""

    def __init__(self, ufunc):
        self.ufunc = ufunc

    def __call__(self, *args, **kwargs):
        return computed(self.ufunc.__name__, self.ufunc, args, kwargs)

    def reduce(self, *args, **kwargs):
        return computed(self.ufunc.__name__, self.ufunc.reduce, args, kwargs)

    def accumulate(self, *args, **kwargs):
        return computed(self.ufunc.__name__, self.ufunc.accumulate, args, kwargs)

    def at(self, array, index, *values):
        reads, given = arrays_of((index, values)), hosts((index, *values))
        same_device("at", [array, *reads])
        WORLD.work("at", reads, [array], lambda: self.ufunc.at(array.host, *given))


def function(name, found):
    if isinstance(found, np.ufunc):
        return Ufunc(found)
    return lambda *args, **kwargs: computed(name, found, args, kwargs)


def names_of(module, real):
    """NumPy's functions and types that CuPy has too."""
    known = set(dir(real)) if real is not None else set(dir(module))
    made = {}
    for name in known.intersection(dir(module)):
        found = getattr(module, name)
        if name.startswith("_") or isinstance(found, ModuleType):
            continue
        plain = isinstance(found, type) or not callable(found)
        made[name] = found if plain else function(name, found)
    return made


def namespace():
    """What the stand-in's module is called with: xp.name."""
    real = __import__("cupy") if find_spec("cupy") else None
    made = names_of(np, real) | {name: created(name) for name in emulated.CREATION
                                 if hasattr(np, name)}  # fmt: skip
    linalg = SimpleNamespace(**names_of(np.linalg, real and real.linalg))
    return SimpleNamespace(**made | {"ndarray": Array, "linalg": linalg})


NAMES = namespace()
