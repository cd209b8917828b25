//! Inputs of the cases: the same numbers on every backend, in several forms.

use burn_backend::{Backend, BoolDType, FloatDType, IntDType, Shape, Slice, TensorData};

use crate::common::maths::Random;

/// The sizes of the inputs and their layout in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Plain,
    /// Sizes of 1 and odd sizes.
    Odd,
    /// Exchanged dimensions, and parts of larger tensors.
    Strided,
    /// No elements.
    Empty,
}

pub struct Inputs<B: Backend> {
    pub device: B::Device,
    pub float: FloatDType,
    pub int: IntDType,
    pub bool: BoolDType,
    pub form: Form,
}

impl<B: Backend> Inputs<B> {
    /// Returns the usual shape.
    pub fn shape(&self) -> [usize; 3] {
        match self.form {
            Form::Plain | Form::Strided => [3, 4, 5],
            Form::Odd => [1, 7, 3],
            Form::Empty => [3, 0, 5],
        }
    }

    fn unsigned(&self) -> bool {
        matches!(
            self.int,
            IntDType::U8 | IntDType::U16 | IntDType::U32 | IntDType::U64
        )
    }

    // Floats

    /// Returns floats between -2 and 2.
    pub fn f(&self, seed: u64) -> B::FloatTensorPrimitive {
        self.f_of(seed, &self.shape())
    }

    pub fn f_of(&self, seed: u64, shape: &[usize]) -> B::FloatTensorPrimitive {
        self.f_in(seed, shape, -2.0, 2.0)
    }

    pub fn f_in(&self, seed: u64, shape: &[usize], low: f64, high: f64) -> B::FloatTensorPrimitive {
        let mut random = Random::new(seed);
        self.f_by(shape, |_| low + (high - low) * random.unit())
    }

    /// Returns floats that are all distinct.
    pub fn f_distinct(&self, seed: u64) -> B::FloatTensorPrimitive {
        let shape = self.shape();
        let count: usize = shape.iter().product();
        let places = shuffled(count, seed);
        self.f_by(&shape, |place| places[place] as f64 / 8.0 - 3.0)
    }

    pub fn f_values(&self, values: &[f64], shape: &[usize]) -> B::FloatTensorPrimitive {
        self.f_by(shape, |place| values[place % values.len()])
    }

    /// Returns floats that include NaN, infinities and zeros of either sign.
    pub fn f_special(&self) -> B::FloatTensorPrimitive {
        let values = [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            0.0,
            -0.0,
            1.5,
            -1.5,
        ];
        self.f_values(&values, &self.shape())
    }

    fn f_by(&self, shape: &[usize], value: impl FnMut(usize) -> f64) -> B::FloatTensorPrimitive {
        let dtype = self.float.into();
        let put = |values: Vec<f64>, shape: Vec<usize>| {
            let data = TensorData::new(values, shape).convert_dtype(dtype);
            B::float_from_data(data, &self.device)
        };
        let slice = |tensor, slices: &[Slice]| B::float_slice(tensor, slices);
        self.arrange(
            shape,
            value,
            put,
            |tensor, axes| B::float_permute(tensor, axes),
            slice,
        )
    }

    // Integers

    /// Returns integers from -9 to 9, or 0 to 9 for unsigned dtypes.
    pub fn i(&self, seed: u64) -> B::IntTensorPrimitive {
        self.i_of(seed, &self.shape())
    }

    pub fn i_of(&self, seed: u64, shape: &[usize]) -> B::IntTensorPrimitive {
        let low = if self.unsigned() { 0 } else { -9 };
        self.i_in(seed, shape, low, 10)
    }

    pub fn i_in(&self, seed: u64, shape: &[usize], low: i64, high: i64) -> B::IntTensorPrimitive {
        let mut random = Random::new(seed);
        self.i_by(shape, |_| low + random.below((high - low) as usize) as i64)
    }

    /// Returns larger integers than [`Inputs::i`], so that differences are not negative.
    pub fn i_above(&self, seed: u64) -> B::IntTensorPrimitive {
        self.i_in(seed, &self.shape(), 10, 20)
    }

    pub fn i_distinct(&self, seed: u64) -> B::IntTensorPrimitive {
        let shape = self.shape();
        let places = shuffled(shape.iter().product(), seed);
        self.i_by(&shape, |place| places[place] as i64)
    }

    pub fn i_values(&self, values: &[i64], shape: &[usize]) -> B::IntTensorPrimitive {
        self.i_by(shape, |place| values[place % values.len()])
    }

    fn i_by(&self, shape: &[usize], value: impl FnMut(usize) -> i64) -> B::IntTensorPrimitive {
        let dtype = self.int.into();
        let put = |values: Vec<i64>, shape: Vec<usize>| {
            let data = TensorData::new(values, shape).convert_dtype(dtype);
            B::int_from_data(data, &self.device)
        };
        let slice = |tensor, slices: &[Slice]| B::int_slice(tensor, slices);
        self.arrange(
            shape,
            value,
            put,
            |tensor, axes| B::int_permute(tensor, axes),
            slice,
        )
    }

    // Booleans

    pub fn b(&self, seed: u64) -> B::BoolTensorPrimitive {
        self.b_of(seed, &self.shape())
    }

    pub fn b_of(&self, seed: u64, shape: &[usize]) -> B::BoolTensorPrimitive {
        let mut random = Random::new(seed);
        let put = |values: Vec<bool>, shape: Vec<usize>| {
            let data = TensorData::new(values, shape).convert_dtype(self.bool.into());
            B::bool_from_data(data, &self.device)
        };
        let slice = |tensor, slices: &[Slice]| B::bool_slice(tensor, slices);
        self.arrange(
            shape,
            |_| random.below(2) == 1,
            put,
            |tensor, axes| B::bool_permute(tensor, axes),
            slice,
        )
    }

    /// Returns a tensor in the requested form.
    fn arrange<V: Copy, T>(
        &self,
        shape: &[usize],
        value: impl FnMut(usize) -> V,
        put: impl Fn(Vec<V>, Vec<usize>) -> T,
        permute: impl Fn(T, &[usize]) -> T,
        slice: impl Fn(T, &[Slice]) -> T,
    ) -> T {
        let count: usize = shape.iter().product();
        let values: Vec<V> = (0..count).map(value).collect();
        if self.form != Form::Strided || shape.is_empty() || count == 0 {
            return put(values, shape.to_vec());
        }
        // The dimensions are stored in reverse, with one more element at the front of the first.
        let rank = shape.len();
        let mut turned: Vec<usize> = shape.iter().rev().copied().collect();
        let inner: usize = turned[1..].iter().product();
        let mut stored = vec![values[0]; count + inner];
        for (place, &value) in values.iter().enumerate() {
            let (mut rest, mut target) = (place, 0);
            for (axis, &size) in shape.iter().enumerate().rev() {
                target += rest % size * shape[..axis].iter().product::<usize>();
                rest /= size;
            }
            stored[inner + target] = value;
        }
        turned[0] += 1;
        let tensor = slice(put(stored, turned), &[Slice::new(1, None, 1)]);
        let axes: Vec<usize> = (0..rank).rev().collect();
        permute(tensor, &axes)
    }
}

/// Returns the numbers below `count` in another order.
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut random = Random::new(seed);
    let mut places: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        places.swap(last, random.below(last + 1));
    }
    places
}

/// Converts ranges to Burn's slices.
pub fn ranges(ranges: &[(isize, isize)]) -> Vec<Slice> {
    ranges
        .iter()
        .map(|&(start, end)| Slice::new(start, Some(end), 1))
        .collect()
}

pub fn shape(sizes: &[usize]) -> Shape {
    Shape::from(sizes.to_vec())
}
