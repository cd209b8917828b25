//! The decoding of codes with SIMD, to the same bits as without.

use crate::lanes::Task;
use crate::{Context, Element, LANES, Lanes};
use half::f16;
use kernels_quant::gguf::Block;
use kernels_quant::{BlockScales, Codes, QuantizedWeight};

/// The largest number of elements that are decoded at once. Pieces of a row begin at its multiples, and so do the blocks of
/// every layout that is decoded here.
pub(super) const PIECE: usize = 256;

/// The codes of a weight whose rows are whole blocks.
#[derive(Clone, Copy)]
pub(super) struct RowCodes<'a> {
    codes: Codes<'a>,
    columns: usize,
}

impl<'a> RowCodes<'a> {
    /// Returns the codes of a weight, or `None` if they are not decoded here.
    pub(super) fn of(weight: &'a QuantizedWeight<'_>) -> Option<Self> {
        let [_, columns] = weight.shape();
        let codes = weight.codes()?;
        let fits = match codes {
            Codes::Blocks { .. } | Codes::Integers { .. } => true,
            Codes::Table { block, .. } => {
                columns.is_multiple_of(block) && block.is_multiple_of(SMALL)
            }
        };
        fits.then_some(Self { codes, columns })
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// Decodes elements of a row from a multiple of [`PIECE`] on, at most so many.
    #[inline(always)]
    pub(super) fn piece<C: Context>(&self, c: C, row: usize, from: usize, out: &mut [f32]) {
        let first = row * self.columns + from;
        match &self.codes {
            Codes::Blocks { block, bytes } => {
                let bytes = &bytes[first / block.elements() * block.bytes()..];
                blocks(c, *block, bytes, out);
            }
            Codes::Table {
                table,
                bytes,
                block,
                scales,
            } => of_table(c, table, &bytes[first / 2..], (first, *block, scales), out),
            Codes::Integers {
                bytes,
                scales,
                factor,
            } => integers(c, &bytes[first..], scales.get(row), *factor, out),
        }
    }
}

/// Whole rows, decoded one after the other.
pub(super) struct DecodeRows<'a, 'o> {
    pub(super) codes: RowCodes<'a>,
    /// The first row.
    pub(super) first: usize,
    pub(super) out: &'o mut [f32],
}

impl Task for DecodeRows<'_, '_> {
    type Acc = f32;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let rows = self.out.chunks_exact_mut(self.codes.columns);
        for (row, out) in rows.enumerate() {
            for (at, out) in out.chunks_mut(PIECE).enumerate() {
                self.codes.piece(c, self.first + row, at * PIECE, out);
            }
        }
    }
}

/// The numbers of elements of small and large blocks of GGUF files.
const SMALL: usize = 32;
const LARGE: usize = 256;

type Codes16 = [u8; LANES];

/// Decodes as many blocks as `out` has room for.
#[inline(always)]
fn blocks<C: Context>(c: C, block: Block, bytes: &[u8], out: &mut [f32]) {
    match block {
        Block::Q8_0 => each(bytes, out, |bytes, out| q8_0(c, bytes, out)),
        Block::Q4_0 => each(bytes, out, |bytes, out| q4_0(c, bytes, out)),
        Block::Q4_1 => each(bytes, out, |bytes, out| q4_1(c, bytes, out)),
        Block::Q5_0 => each(bytes, out, |bytes, out| q5_0(c, bytes, out)),
        Block::Q5_1 => each(bytes, out, |bytes, out| q5_1(c, bytes, out)),
        Block::Q4K => each(bytes, out, |bytes, out| q4_k(c, bytes, out)),
        Block::Q5K => each(bytes, out, |bytes, out| q5_k(c, bytes, out)),
        Block::Q6K => each(bytes, out, |bytes, out| q6_k(c, bytes, out)),
        Block::Mxfp4 => each(bytes, out, |bytes, out| mxfp4(c, bytes, out)),
    }
}

#[inline(always)]
fn each<const BYTES: usize, const ELEMENTS: usize>(
    bytes: &[u8],
    out: &mut [f32],
    decode: impl Fn(&[u8; BYTES], &mut [f32; ELEMENTS]),
) {
    let (places, rest) = out.as_chunks_mut::<ELEMENTS>();
    let (blocks, _) = bytes.as_chunks::<BYTES>();
    assert!(
        rest.is_empty() && blocks.len() >= places.len(),
        "rows are whole blocks, which the weight has checked"
    );
    for (block, place) in blocks.iter().zip(places) {
        decode(block, place);
    }
}

/// Returns `N` bytes from an offset on.
#[inline(always)]
fn part<const N: usize>(bytes: &[u8], at: usize) -> &[u8; N] {
    bytes[at..]
        .first_chunk()
        .expect("offsets are inside of the block")
}

/// Reads a half-precision number in every lane.
#[inline(always)]
fn half<C: Context>(c: C, block: &[u8], at: usize) -> C::Of<f32> {
    C::Of::<f32>::splat(c, single(block, at))
}

/// Reads a half-precision number.
#[inline(always)]
fn single(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes(*part(block, at)).load()
}

#[inline(always)]
fn put<C: Context>(lanes: C::Of<f32>, out: &mut [f32], at: usize) {
    let place: &mut [f32; LANES] = out[at..]
        .first_chunk_mut()
        .expect("a block has whole vectors");
    *place = lanes.values();
}

#[inline(always)]
fn low(bytes: &Codes16) -> Codes16 {
    bytes.map(|byte| byte & 0xf)
}

#[inline(always)]
fn high(bytes: &Codes16) -> Codes16 {
    bytes.map(|byte| byte >> 4)
}

/// Returns codes below 128, less a number.
#[inline(always)]
fn less(codes: Codes16, number: u8) -> [i8; LANES] {
    codes.map(|code| code.wrapping_sub(number) as i8)
}

/// Returns a bit of 16 bytes or of one word of 16 bits, as the bit 4 of codes.
#[inline(always)]
fn fifth_of_word(word: u16) -> Codes16 {
    let mut codes = [0; LANES];
    for (at, code) in codes.iter_mut().enumerate() {
        *code = ((word >> at & 1) as u8) << 4;
    }
    codes
}

#[inline(always)]
fn with_bits(mut codes: Codes16, bits: Codes16) -> Codes16 {
    for (code, bits) in codes.iter_mut().zip(bits) {
        *code |= bits;
    }
    codes
}

#[inline(always)]
fn q8_0<C: Context>(c: C, block: &[u8; 34], out: &mut [f32; SMALL]) {
    let scale = half(c, block, 0);
    for at in [0, LANES] {
        let integers: &Codes16 = part(block, 2 + at);
        put::<C>(c.of_i8(&less(*integers, 0)) * scale, out, at);
    }
}

#[inline(always)]
fn q4_0<C: Context>(c: C, block: &[u8; 18], out: &mut [f32; SMALL]) {
    let (scale, codes) = (half(c, block, 0), part(block, 2));
    put::<C>(scale * c.of_i8(&less(low(codes), 8)), out, 0);
    put::<C>(scale * c.of_i8(&less(high(codes), 8)), out, LANES);
}

#[inline(always)]
fn q4_1<C: Context>(c: C, block: &[u8; 20], out: &mut [f32; SMALL]) {
    let (scale, least) = (half(c, block, 0), half(c, block, 2));
    let codes = part(block, 4);
    put::<C>(scale * c.of_i8(&less(low(codes), 0)) + least, out, 0);
    put::<C>(scale * c.of_i8(&less(high(codes), 0)) + least, out, LANES);
}

/// Returns the numbers of 5 bits in 20 bytes: their highest bits come first.
#[inline(always)]
fn fives(bytes: &[u8; 20]) -> [Codes16; 2] {
    let codes = part(bytes, 4);
    let words = [0, 2].map(|at| u16::from_le_bytes(*part(bytes, at)));
    [
        with_bits(low(codes), fifth_of_word(words[0])),
        with_bits(high(codes), fifth_of_word(words[1])),
    ]
}

#[inline(always)]
fn q5_0<C: Context>(c: C, block: &[u8; 22], out: &mut [f32; SMALL]) {
    let scale = half(c, block, 0);
    let [first, second] = fives(part(block, 2));
    put::<C>(scale * c.of_i8(&less(first, 16)), out, 0);
    put::<C>(scale * c.of_i8(&less(second, 16)), out, LANES);
}

#[inline(always)]
fn q5_1<C: Context>(c: C, block: &[u8; 24], out: &mut [f32; SMALL]) {
    let (scale, least) = (half(c, block, 0), half(c, block, 2));
    let [first, second] = fives(part(block, 4));
    put::<C>(scale * c.of_i8(&less(first, 0)) + least, out, 0);
    put::<C>(scale * c.of_i8(&less(second, 0)) + least, out, LANES);
}

/// Returns the scale and the minimum of a group of a block, in 6 bits each.
#[inline(always)]
fn scale_and_least(packed: &[u8; 12], group: usize) -> [f32; 2] {
    let [scale, least] = match group {
        0..4 => [packed[group] & 63, packed[group + 4] & 63],
        _ => [
            packed[group + 4] & 0xf | packed[group - 4] >> 6 << 4,
            packed[group + 4] >> 4 | packed[group] >> 6 << 4,
        ],
    };
    [scale.into(), least.into()]
}

/// Decodes groups of 32, two of which share 32 bytes. `fifth` returns the fifth bits of 16 codes of a group, at their place.
#[inline(always)]
fn grouped<C: Context>(
    c: C,
    block: &[u8],
    codes: &[u8; LARGE / 2],
    fifth: impl Fn(usize, usize) -> Codes16,
    out: &mut [f32; LARGE],
) {
    let (scale, least) = (single(block, 0), single(block, 2));
    for group in 0..LARGE / SMALL {
        let [of_scale, of_least] = scale_and_least(part(block, 4), group);
        let scale = C::Of::<f32>::splat(c, scale * of_scale);
        let least = C::Of::<f32>::splat(c, least * of_least);
        for at in [0, LANES] {
            let codes = part(codes, group / 2 * SMALL + at);
            let codes = match group % 2 {
                0 => low(codes),
                _ => high(codes),
            };
            let codes = with_bits(codes, fifth(group, at));
            put::<C>(
                scale * c.of_i8(&less(codes, 0)) - least,
                out,
                group * SMALL + at,
            );
        }
    }
}

#[inline(always)]
fn q4_k<C: Context>(c: C, block: &[u8; 144], out: &mut [f32; LARGE]) {
    grouped(c, block, part(block, 16), |_, _| [0; LANES], out);
}

#[inline(always)]
fn q5_k<C: Context>(c: C, block: &[u8; 176], out: &mut [f32; LARGE]) {
    let fifth = |group: usize, at: usize| {
        let bytes: &Codes16 = part(block, 16 + at);
        bytes.map(|byte| (byte >> group & 1) << 4)
    };
    grouped(c, block, part(block, 48), fifth, out);
}

#[inline(always)]
fn q6_k<C: Context>(c: C, block: &[u8; 210], out: &mut [f32; LARGE]) {
    let scales: &Codes16 = part(block, 192);
    let scale = single(block, 208);
    for (group, of_group) in scales.iter().enumerate() {
        // Eight groups of 16 share 64 bytes of lower and 32 bytes of upper bits.
        let (place, pair, half) = (group / 8, group / 2 % 4, group % 2);
        let lower: &Codes16 = part(block, place * 64 + pair % 2 * 32 + half * LANES);
        let upper: &Codes16 = part(block, 128 + place * 32 + half * LANES);
        let codes = match pair / 2 {
            0 => low(lower),
            _ => high(lower),
        };
        let codes = with_bits(codes, upper.map(|byte| (byte >> (2 * pair) & 3) << 4));
        let scale = C::Of::<f32>::splat(c, scale * f32::from(*of_group as i8));
        put::<C>(scale * c.of_i8(&less(codes, 32)), out, group * LANES);
    }
}

/// Twice the numbers of E2M1, with one zero.
const DOUBLED: [f32; LANES] = [
    0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0,
];

#[inline(always)]
fn mxfp4<C: Context>(c: C, block: &[u8; 17], out: &mut [f32; SMALL]) {
    // 2^(exponent − 128), as the numbers are doubled. The first two are subnormal.
    let scale = match block[0] {
        exponent @ 0..2 => f32::from_bits(0x0020_0000 << exponent),
        exponent => f32::from_bits((u32::from(exponent) - 1) << 23),
    };
    let scale = C::Of::<f32>::splat(c, scale);
    let codes = part(block, 1);
    put::<C>(c.of_table(&DOUBLED, codes) * scale, out, 0);
    put::<C>(c.of_table(&DOUBLED, &high(codes)) * scale, out, LANES);
}

/// Decodes codes of 4 bits from the element `first` on. Blocks begin there.
#[inline(always)]
fn of_table<C: Context>(
    c: C,
    table: &[f32; LANES],
    bytes: &[u8],
    (first, block, scales): (usize, usize, &BlockScales<'_>),
    out: &mut [f32],
) {
    let mut scale = C::Of::<f32>::splat(c, 0.0);
    let mut of_block = usize::MAX;
    for (at, out) in out.as_chunks_mut::<SMALL>().0.iter_mut().enumerate() {
        let here = (first + at * SMALL) / block;
        if here != of_block {
            of_block = here;
            scale = C::Of::<f32>::splat(c, scales.get(here));
        }
        let bytes: &Codes16 = part(bytes, at * SMALL / 2);
        let mut codes = [0; SMALL];
        for (pair, byte) in codes.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
            *pair = [byte >> 4, byte & 0xf];
        }
        for place in [0, LANES] {
            put::<C>(c.of_table(table, part(&codes, place)) * scale, out, place);
        }
    }
}

#[inline(always)]
fn integers<C: Context>(c: C, bytes: &[u8], scale: f32, factor: f32, out: &mut [f32]) {
    let of_scale = C::Of::<f32>::splat(c, scale);
    let of_factor = C::Of::<f32>::splat(c, factor);
    let (vectors, rest) = out.as_chunks_mut::<LANES>();
    let (whole, others) = bytes[..vectors.len() * LANES + rest.len()].as_chunks::<LANES>();
    for (vector, bytes) in vectors.iter_mut().zip(whole) {
        *vector = (c.of_i8(&less(*bytes, 0)) * of_scale * of_factor).values();
    }
    for (place, byte) in rest.iter_mut().zip(others) {
        *place = f32::from(*byte as i8) * scale * factor;
    }
}
