use super::Gemm;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m512, __m512i};

/// Runs a task with the widest SIMD instructions of this machine and the matching transposition of squares.
macro_rules! with_turn {
    ($task:expr) => {{
        let task = $task;
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if let Some(simd) = ::pulp::x86::V4::try_new() {
            let turn = $crate::product::transpose::Wide(simd);
            ::pulp::Simd::vectorize(simd, $crate::product::transpose::With { task, turn })
        } else {
            let turn = $crate::product::transpose::Plain;
            ::pulp::Simd::vectorize(
                $crate::lanes::v3(),
                $crate::product::transpose::With { task, turn },
            )
        }
        #[cfg(any(not(target_arch = "x86_64"), miri))]
        {
            let turn = $crate::product::transpose::Plain;
            $crate::lanes::vectorize($crate::product::transpose::With { task, turn })
        }
    }};
}
pub(super) use with_turn;

/// A transposition of `rows × columns` elements, whose rows are `stride` apart. The result is written or added to rows
/// that are `to_stride` apart.
pub struct Transpose<'a, A> {
    pub from: &'a [A],
    pub rows: usize,
    pub columns: usize,
    pub stride: usize,
    pub to: &'a mut [A],
    pub to_stride: usize,
    pub add: bool,
}

/// The number of f32 elements of a cache line. Squares of this size are read and written line by line. Cache lines
/// that exclude each other from the cache, as those of a matrix with a power of two
/// columns do, are thus used completely at once.
pub(super) const SQUARE: usize = 16;

impl<A: Gemm> Transpose<'_, A> {
    /// Runs the transposition.
    pub fn run(self) {
        with_turn!(self);
    }

    #[inline(always)]
    fn squares<T: Turn>(mut self, turn: T) {
        for row in (0..self.rows).step_by(SQUARE) {
            for column in (0..self.columns).step_by(SQUARE) {
                let whole = self.rows - row >= SQUARE && self.columns - column >= SQUARE;
                if whole {
                    self.square(turn, row, column);
                } else {
                    self.rest(row, column);
                }
            }
        }
    }

    #[inline(always)]
    fn square<T: Turn>(&mut self, turn: T, row: usize, column: usize) {
        let mut square = [[<A as Gemm>::ZERO; SQUARE]; SQUARE];
        for (i, line) in square.iter_mut().enumerate() {
            let start = (row + i) * self.stride + column;
            line.copy_from_slice(&self.from[start..start + SQUARE]);
        }
        let square = turn.turn(square);
        for (i, line) in square.iter().enumerate() {
            let start = (column + i) * self.to_stride + row;
            let to = &mut self.to[start..start + SQUARE];
            if self.add {
                to.iter_mut()
                    .zip(line)
                    .for_each(|(to, value)| *to += *value);
            } else {
                to.copy_from_slice(line);
            }
        }
    }

    /// Transposes elements that don't form a whole square.
    #[inline(always)]
    fn rest(&mut self, row: usize, column: usize) {
        for r in row..(row + SQUARE).min(self.rows) {
            for c in column..(column + SQUARE).min(self.columns) {
                let value = self.from[r * self.stride + c];
                let to = &mut self.to[c * self.to_stride + r];
                *to = if self.add { *to + value } else { value };
            }
        }
    }
}

/// A task, and the way to transpose squares.
pub(super) struct With<K, T> {
    pub(super) task: K,
    pub(super) turn: T,
}

impl<A: Gemm, T: Turn> pulp::WithSimd for With<Transpose<'_, A>, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        self.task.squares(self.turn);
    }
}

/// A way to transpose a square.
pub(super) trait Turn: Copy {
    /// Returns the transposed square. Implementations are `#[inline(always)]`.
    fn turn<A: Gemm>(self, square: [[A; SQUARE]; SQUARE]) -> [[A; SQUARE]; SQUARE];

    /// Returns the sum of each line.
    #[inline(always)]
    fn sum_lines(self, square: [[f32; SQUARE]; SQUARE]) -> [f32; SQUARE] {
        let mut sums = [0.0; SQUARE];
        for (sum, mut line) in sums.iter_mut().zip(square) {
            let mut half = SQUARE / 2;
            while half > 0 {
                for i in 0..half {
                    line[i] += line[i + half];
                }
                half /= 2;
            }
            *sum = line[0];
        }
        sums
    }
}

/// Transposition element by element, for any machine.
#[derive(Clone, Copy)]
pub(super) struct Plain;

impl Turn for Plain {
    #[inline(always)]
    fn turn<A: Gemm>(self, square: [[A; SQUARE]; SQUARE]) -> [[A; SQUARE]; SQUARE] {
        let mut turned = [[<A as Gemm>::ZERO; SQUARE]; SQUARE];
        for (i, line) in square.iter().enumerate() {
            for (turned, value) in turned.iter_mut().zip(line) {
                turned[i] = *value;
            }
        }
        turned
    }
}

/// Transposition in f32 with AVX-512, by shuffles that the compiler does not find.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Wide(pub(super) pulp::x86::V4);

#[cfg(target_arch = "x86_64")]
impl Turn for Wide {
    #[inline(always)]
    fn turn<A: Gemm>(self, square: [[A; SQUARE]; SQUARE]) -> [[A; SQUARE]; SQUARE] {
        if size_of::<A>() != size_of::<f32>() {
            return Plain.turn(square);
        }
        // Exchanges the off-diagonal quarters of squares of sizes 16, 8, 4 and 2.
        let mut lines: [__m512; SQUARE] = bytemuck::cast(square);
        self.exchange::<8>(&mut lines);
        self.exchange::<4>(&mut lines);
        self.exchange::<2>(&mut lines);
        self.exchange::<1>(&mut lines);
        bytemuck::cast(lines)
    }

    /// Transposes first, so that lines are added to lines.
    #[inline(always)]
    fn sum_lines(self, square: [[f32; SQUARE]; SQUARE]) -> [f32; SQUARE] {
        let mut lines = self.turn(square);
        let mut half = SQUARE / 2;
        while half > 0 {
            let (low, high) = lines.split_at_mut(half);
            for (low, high) in low.iter_mut().zip(high) {
                low.iter_mut()
                    .zip(high)
                    .for_each(|(low, high)| *low += *high);
            }
            half /= 2;
        }
        lines[0]
    }
}

#[cfg(target_arch = "x86_64")]
impl Wide {
    #[inline(always)]
    fn exchange<const HALF: usize>(self, lines: &mut [__m512; SQUARE]) {
        // Elements of the second operand are numbered from 16.
        let index = |far: usize, near: usize| -> __m512i {
            let index: [i32; SQUARE] = std::array::from_fn(|i| match i & HALF {
                0 => (i + far) as i32,
                _ => (SQUARE + i - near) as i32,
            });
            bytemuck::cast(index)
        };
        let (upper_index, lower_index) = (index(0, HALF), index(HALF, 0));
        for upper in (0..SQUARE).filter(|upper| upper & HALF == 0) {
            let (top, bottom) = (lines[upper], lines[upper + HALF]);
            let avx512 = self.0.avx512f;
            lines[upper] = avx512._mm512_permutex2var_ps(top, upper_index, bottom);
            lines[upper + HALF] = avx512._mm512_permutex2var_ps(top, lower_index, bottom);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_goes_to_its_place() {
        for (rows, columns) in [(16, 16), (32, 48), (17, 35), (3, 5), (0, 4), (40, 16)] {
            let from: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
            for add in [false, true] {
                let mut to = vec![0.5; columns * (rows + 1)];
                let task = Transpose {
                    from: &from,
                    rows,
                    columns,
                    stride: columns,
                    to: &mut to,
                    to_stride: rows + 1,
                    add,
                };
                task.run();
                for row in 0..rows {
                    for column in 0..columns {
                        let expected = from[row * columns + column] + if add { 0.5 } else { 0.0 };
                        assert_eq!(to[column * (rows + 1) + row], expected);
                    }
                }
            }
        }
    }
}
