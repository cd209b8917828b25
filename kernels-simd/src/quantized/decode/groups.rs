//! Codes of 4 and 8 bits, one after the other, in groups that have a scale in common.

use super::{SMALL, Sink};
use crate::{Context, LANES, Lanes};
use half::f16;
use kernels_quant::{BlockScales, Number, RowGroups};

/// Decodes codes of 4 bits from the element `first` on. Blocks begin there.
#[inline(always)]
pub(super) fn of_table<C: Context, S: Sink<C>>(
    c: C,
    (table, low_first): (&[f32; LANES], bool),
    bytes: &[u8],
    (first, length): (usize, usize),
    (block, scales): (usize, &BlockScales<'_>),
    out: &mut S,
) {
    let table = C::Of::<f32>::read(c, table);
    let mut here = first / block;
    let mut left = block - first % block;
    let mut scaled = table * C::Of::<f32>::splat(c, scales.get(here));
    let bytes = bytes[..length / 2].as_chunks::<{ LANES / 2 }>().0;
    for (at, bytes) in bytes.as_chunks().0.iter().enumerate() {
        if left == 0 {
            (here, left) = (here + 1, block);
            scaled = table * C::Of::<f32>::splat(c, scales.get(here));
        }
        left -= SMALL;
        let numbers = scaled.values();
        let bytes: &[[u8; LANES / 2]; 2] = bytes;
        for (i, bytes) in bytes.iter().enumerate() {
            let numbers = c.of_halves(&numbers, bytes, low_first);
            out.take(numbers, at * SMALL + i * LANES, i);
        }
    }
}

/// The groups of a row.
#[derive(Clone, Copy)]
pub(super) struct Groups<'a> {
    pub(super) row: usize,
    /// The number of elements of a group.
    pub(super) width: usize,
    pub(super) of_rows: &'a dyn RowGroups,
    pub(super) factor: f32,
}

impl Groups<'_> {
    /// Decodes `length` elements of a row from `from` on, whose codes are in `bytes`.
    #[inline(always)]
    pub(super) fn decode<C: Context, S: Sink<C>>(
        self,
        c: C,
        number: Number,
        bytes: &[u8],
        (from, length): (usize, usize),
        out: &mut S,
    ) {
        let mut at = 0;
        while at < length {
            let group = (from + at) / self.width;
            let end = length.min((group + 1) * self.width - from);
            let [scale, zero] = self.of_rows.get(self.row, group);
            let numbers = Affine {
                zero: C::Of::<f32>::splat(c, zero),
                scale: C::Of::<f32>::splat(c, scale),
                factor: C::Of::<f32>::splat(c, self.factor),
            };
            let part = Part {
                bytes,
                from,
                at,
                end,
            };
            match number {
                Number::Int8 => part.decode(c, Int8(numbers), out),
                Number::Uint8 => part.decode(c, Uint8::of(c, numbers), out),
                Number::E4M3 => part.decode(c, E4M3(numbers), out),
                Number::Uint4 => part.decode(c, Uint4::of(c, numbers), out),
            }
            at = end;
        }
    }
}

/// The codes of a group, or of a part of it.
#[derive(Clone, Copy)]
struct Part<'a> {
    /// The codes of a row.
    bytes: &'a [u8],
    /// The element of the row at which the piece begins.
    from: usize,
    /// The elements of the piece.
    at: usize,
    end: usize,
}

impl Part<'_> {
    #[inline(always)]
    fn decode<C: Context, S: Sink<C>, D: Decode<C, BYTES>, const BYTES: usize>(
        self,
        c: C,
        numbers: D,
        out: &mut S,
    ) {
        let Self { mut at, end, .. } = self;
        let bytes = &self.bytes[(self.from + at) * BYTES / LANES..];
        let (codes, _) = bytes.as_chunks::<BYTES>();
        let count = (end - at) / LANES;
        let (pairs, single) = codes[..count].as_chunks::<2>();
        for [first, second] in pairs {
            out.take(numbers.decode(c, first), at, 0);
            out.take(numbers.decode(c, second), at + LANES, 1);
            at += 2 * LANES;
        }
        if let [codes] = single {
            out.take(numbers.decode(c, codes), at, 2);
            at += LANES;
        }
        if at < end {
            let rest = &bytes[count * BYTES..];
            let mut last = [0; BYTES];
            let length = rest.len().min(BYTES);
            last[..length].copy_from_slice(&rest[..length]);
            let numbers = numbers.decode(c, &last).values();
            out.take_rest(&numbers[..end - at], at);
        }
    }
}

/// The numbers of sixteen codes. A trait, because closures are not always compiled into the context.
trait Decode<C: Context, const BYTES: usize>: Copy {
    fn decode(self, c: C, codes: &[u8; BYTES]) -> C::Of<f32>;
}

/// `(number − zero) · scale · factor`
#[derive(Clone, Copy)]
struct Affine<L> {
    zero: L,
    scale: L,
    factor: L,
}

impl<L: crate::Number> Affine<L> {
    #[inline(always)]
    fn of(self, numbers: L) -> L {
        (numbers - self.zero) * self.scale * self.factor
    }
}

/// Returns codes as integers, with some bits flipped. A loop, because `map` is a call, which is not compiled for the
/// context.
#[inline(always)]
fn flipped(codes: &[u8; LANES], bits: u8) -> [i8; LANES] {
    let mut integers = [0; LANES];
    for (integer, code) in integers.iter_mut().zip(codes) {
        *integer = (code ^ bits) as i8;
    }
    integers
}

#[derive(Clone, Copy)]
struct Int8<L>(Affine<L>);

impl<C: Context> Decode<C, LANES> for Int8<C::Of<f32>> {
    #[inline(always)]
    fn decode(self, c: C, codes: &[u8; LANES]) -> C::Of<f32> {
        self.0.of(c.of_i8(&flipped(codes, 0)))
    }
}

/// The numbers of codes less 128. The zero is less, too: differences of integers are exact.
#[derive(Clone, Copy)]
struct Uint8<L>(Affine<L>);

impl<L: crate::Number> Uint8<L> {
    #[inline(always)]
    fn of<C: Context<Of<f32> = L>>(c: C, numbers: Affine<L>) -> Self
    where
        L: Lanes<f32, C>,
    {
        Self(Affine {
            zero: numbers.zero - L::splat(c, 128.0),
            ..numbers
        })
    }
}

impl<C: Context> Decode<C, LANES> for Uint8<C::Of<f32>> {
    #[inline(always)]
    fn decode(self, c: C, codes: &[u8; LANES]) -> C::Of<f32> {
        self.0.of(c.of_i8(&flipped(codes, 0x80)))
    }
}

/// Numbers by way of half precision, which has one bit of exponent more and so all of them, divided by 2^8.
#[derive(Clone, Copy)]
struct E4M3<L>(Affine<L>);

impl<C: Context> Decode<C, LANES> for E4M3<C::Of<f32>> {
    #[inline(always)]
    fn decode(self, c: C, codes: &[u8; LANES]) -> C::Of<f32> {
        let mut halves = [f16::ZERO; LANES];
        for (half, code) in halves.iter_mut().zip(codes) {
            let (sign, size) = (u16::from(code & 0x80) << 8, u16::from(code & 0x7f) << 7);
            let size = if size == 0x7f << 7 { NAN } else { size };
            *half = f16::from_bits(sign | size);
        }
        self.0.of(c.of_f16(&halves) * C::Of::<f32>::splat(c, 256.0))
    }
}

/// The NaN of half precision that is f32's own.
const NAN: u16 = 0x7e00;

/// The numbers of the sixteen codes.
#[derive(Clone, Copy)]
struct Uint4([f32; LANES]);

impl Uint4 {
    #[inline(always)]
    fn of<C: Context>(c: C, numbers: Affine<C::Of<f32>>) -> Self {
        let codes = c.of_i8(&flipped(&super::bits::CODES, 0));
        Self(numbers.of(codes).values())
    }
}

impl<C: Context> Decode<C, { LANES / 2 }> for Uint4 {
    #[inline(always)]
    fn decode(self, c: C, bytes: &[u8; LANES / 2]) -> C::Of<f32> {
        c.of_halves(&self.0, bytes, true)
    }
}
