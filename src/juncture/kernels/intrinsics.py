"""Instructions without a name in Numba: compare a window of values at once, prefetch, reinterpret bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

WINDOW = 16
"""Number of values of a window. Arrays that are read by window need as many spare items at their end."""

LANES = 8
"""Number of items that `equal_lanes` and `below_in_lanes` compare."""

_WORD = ir.IntType(64)
_HALF = ir.IntType(32)


def _instruction(meaning: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Define an instruction. Interpreted kernels call its meaning in Python."""

    def define(function: Callable[..., Any]) -> Any:
        instruction = intrinsic(function)
        instruction.py_func = meaning
        return instruction

    return define


def _items_of(array: Any, start: Any, length: Any) -> Any:
    return np.asarray(array).ravel()[int(start) : int(start) + int(length)]


def _count_below(items: Any, value: Any, inclusive: Any) -> Any:
    return np.int64(np.count_nonzero(items <= value if inclusive else items < value))


def _bits_of(mask: Any) -> Any:
    return np.int64(sum(1 << int(lane) for lane in np.flatnonzero(mask)))


def _address(context: Any, builder: Any, array_type: Any, array: Any, position: Any) -> Any:
    """Return the address of an array's item, counted in items from its start."""
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [position])


def _items(context: Any, builder: Any, signature: Any, arguments: Any, kind: Any, count: int) -> Any:
    """Load items of an array from a position."""
    address = _address(context, builder, signature.args[0], arguments[0], arguments[1])
    return builder.load(builder.bitcast(address, ir.VectorType(kind, count).as_pointer()), align=kind.width // 8)


def _in_each_lane(builder: Any, value: Any, kind: Any, count: int) -> Any:
    """Return a vector with a value in each lane."""
    undefined = ir.Constant(ir.VectorType(kind, count), ir.Undefined)
    lane = builder.insert_element(undefined, value, _HALF(0))
    return builder.shuffle_vector(lane, undefined, ir.Constant(ir.VectorType(_HALF, count), [0] * count))


def _bits_below(builder: Any, items: Any, value: Any, inclusive: Any, count: int) -> Any:
    """Return a word with a bit for each item: whether it is less than a value (or equal, if inclusive)."""
    values = _in_each_lane(builder, value, _WORD, count)
    less = builder.bitcast(builder.icmp_signed("<", items, values), ir.IntType(count))
    most = builder.bitcast(builder.icmp_signed("<=", items, values), ir.IntType(count))
    return builder.zext(builder.select(inclusive, most, less), _WORD)


@_instruction(
    lambda array, start, length, value, inclusive: _count_below(
        _items_of(array, start, min(length, WINDOW)), value, inclusive
    )
)
def below_in_window(_typing: Any, array: Any, start: Any, length: Any, value: Any, inclusive: Any) -> Any:
    """Count the leading items of a sorted window that are less than a value (or equal, if inclusive).

    The window is ``array[start : start + length]`` with at most `WINDOW` items, but `WINDOW` items are always read. One
    vector comparison replaces four unpredictable branches.
    """
    signature = types.int64(array, types.uintp, types.int64, types.int64, types.boolean)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        length, value, inclusive = arguments[2:]
        items = _items(context, builder, signature, arguments, _WORD, WINDOW)
        within = builder.sub(builder.shl(_WORD(1), length), _WORD(1))
        return builder.ctpop(builder.and_(_bits_below(builder, items, value, inclusive, WINDOW), within))

    return signature, generate


@_instruction(
    lambda array, start, value, inclusive: np.uint64(_count_below(_items_of(array, start, LANES), value, inclusive))
)
def below_in_lanes(_typing: Any, array: Any, start: Any, value: Any, inclusive: Any) -> Any:
    """Count the leading items of `LANES` sorted ones that are less than a value (or equal, if inclusive)."""
    signature = types.uint64(array, types.uintp, types.int64, types.boolean)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, inclusive = arguments[2:]
        items = _items(context, builder, signature, arguments, _WORD, LANES)
        return builder.ctpop(_bits_below(builder, items, value, inclusive, LANES))

    return signature, generate


@_instruction(lambda array, start, value: _bits_of(_items_of(array, start, WINDOW) >= value))
def at_least_in_window(_typing: Any, array: Any, start: Any, value: Any) -> Any:
    """Return a bit for each of `WINDOW` items: whether it is at least a value, the first item lowest."""
    signature = types.int64(array, types.uintp, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        items = _items(context, builder, signature, arguments, _WORD, WINDOW)
        values = _in_each_lane(builder, arguments[2], _WORD, WINDOW)
        return builder.zext(builder.bitcast(builder.icmp_signed(">=", items, values), ir.IntType(WINDOW)), _WORD)

    return signature, generate


@_instruction(lambda array, start, value: _bits_of(_items_of(array, start, LANES) == value))
def equal_lanes(_typing: Any, array: Any, start: Any, value: Any) -> Any:
    """Return a bit for each of `LANES` items: whether it equals a value, the first item lowest."""
    signature = types.int64(array, types.uintp, types.uint32)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        items = _items(context, builder, signature, arguments, _HALF, LANES)
        values = _in_each_lane(builder, arguments[2], _HALF, LANES)
        return builder.zext(builder.bitcast(builder.icmp_unsigned("==", items, values), ir.IntType(LANES)), _WORD)

    return signature, generate


@_instruction(lambda bits: np.int64((int(bits) & -int(bits)).bit_length() - 1))
def lowest_bit(_typing: Any, bits: Any) -> Any:
    """Return the number of the lowest set bit of a word that is not zero."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


@_instruction(lambda bits: np.int64((int(bits) & 0xFFFFFFFFFFFFFFFF).bit_count()))
def bit_count(_typing: Any, bits: Any) -> Any:
    """Return the number of set bits of a word."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.int64), generate


@_instruction(lambda *_arguments: None)
def prefetch(_typing: Any, array: Any, position: Any) -> Any:
    """Prefetch the cache line of an array's item, by its flat index."""
    signature = types.void(array, types.uintp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], arguments[0], arguments[1])
        pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, _HALF, _HALF, _HALF])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        # Arguments: for reading, in all cache levels, data cache.
        builder.call(function, [builder.bitcast(address, pointer), _HALF(0), _HALF(3), _HALF(1)])
        return context.get_dummy_value()

    return signature, generate


@_instruction(lambda data, position: _items_of(data, position, 8).view(np.uint64)[0])
def word_at(_typing: Any, data: Any, position: Any) -> Any:
    """Read eight bytes at any position of a byte array as an integer."""
    signature = types.uint64(data, types.uintp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], arguments[0], arguments[1])
        return builder.load(builder.bitcast(address, _WORD.as_pointer()), align=1)

    return signature, generate


@_instruction(lambda bits: np.int64(bits).view(np.float64))
def bits_as_float(_typing: Any, bits: Any) -> Any:
    """Reinterpret the bits of an integer as a float."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@_instruction(lambda value: np.float64(value).view(np.uint64))
def float_as_bits(_typing: Any, value: Any) -> Any:
    """Reinterpret the bits of a float as an integer."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _WORD)

    return types.uint64(types.float64), generate
