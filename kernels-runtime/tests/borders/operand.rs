//! Operands that tests change, and the expected outcomes.

use burn::backend::flex::FlexTensor;
use burn::tensor::{DType, TensorData};
use kernels_runtime::ops::Mismatch;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An operand of a call.
#[derive(Clone, Debug)]
pub struct Operand {
    pub name: &'static str,
    pub shape: Vec<usize>,
    pub dtype: DType,
    pub layout: Layout,
    /// The values of an operand of integers, which repeat.
    pub ints: Option<Vec<i64>>,
}

/// The layout of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    Contiguous,
    /// The last two axes are swapped in memory.
    Transposed,
    /// The elements are part of a larger tensor, with others before and after.
    Within,
}

pub fn float<const D: usize>(name: &'static str, shape: [usize; D]) -> Operand {
    Operand {
        name,
        shape: shape.to_vec(),
        dtype: DType::F32,
        layout: Layout::Contiguous,
        ints: None,
    }
}

pub fn ints<const D: usize>(name: &'static str, shape: [usize; D], values: &[i64]) -> Operand {
    Operand {
        dtype: DType::I64,
        ints: Some(values.to_vec()),
        ..float(name, shape)
    }
}

impl Operand {
    /// Returns the elements in row-major order, in the operand's dtype.
    fn data(&self) -> TensorData {
        self.data_within(0)
    }

    /// Returns the elements with `lines` lines of other numbers before and after.
    fn data_within(&self, lines: usize) -> TensorData {
        let mut shape = self.shape.clone();
        let len = shape.iter().product::<usize>();
        let around = lines * shape.iter().skip(1).product::<usize>();
        if lines > 0 {
            shape[0] += 2 * lines;
        }
        let placed = |i: usize| i.checked_sub(around).filter(|i| *i < len);
        let all = 0..len + 2 * around;
        if self.ints.is_some() {
            let number = |i| placed(i).map_or(99, |i| self.int(i));
            // U64 values don't go through i64, which can't hold the largest.
            if self.dtype == DType::U64 {
                let values: Vec<u64> = all.map(|i| number(i) as u64).collect();
                return TensorData::new(values, shape);
            }
            let values: Vec<i64> = all.map(number).collect();
            return TensorData::new(values, shape).convert_dtype(self.dtype);
        }
        // NaN, if the dtype has it, makes a read of these elements visible.
        let other = if self.dtype.is_float() {
            f64::NAN
        } else {
            99.0
        };
        let values: Vec<f64> = all
            .map(|i| placed(i).map_or(other, |i| self.float(i)))
            .collect();
        TensorData::new(values, shape).convert_dtype(self.dtype)
    }

    /// Returns a number that the dtype holds. In U64, negative numbers are the largest.
    fn int(&self, i: usize) -> i64 {
        let (least, most) = match self.dtype {
            DType::I32 => (i32::MIN.into(), i32::MAX.into()),
            DType::U8 => (0, u8::MAX.into()),
            _ => (i64::MIN, i64::MAX),
        };
        match self.ints.as_deref() {
            None | Some([]) => 0,
            Some(ints) => ints[i % ints.len()].clamp(least, most),
        }
    }

    /// Returns a positive number, which is also valid for a second moment or an rstd.
    fn float(&self, i: usize) -> f64 {
        let mut hasher = DefaultHasher::new();
        (self.name, i).hash(&mut hasher);
        (hasher.finish() % 1000) as f64 / 1000.0 + 0.25
    }

    pub fn tensor(&self) -> FlexTensor {
        let rank = self.shape.len();
        match self.layout {
            Layout::Transposed if rank > 1 => {
                let tensor = FlexTensor::from_data(self.data());
                let swapped = tensor.transpose(rank - 2, rank - 1).to_contiguous();
                swapped.transpose(rank - 2, rank - 1)
            }
            Layout::Within if rank > 0 => {
                FlexTensor::from_data(self.data_within(1)).narrow(0, 1, self.shape[0])
            }
            _ => FlexTensor::from_data(self.data()),
        }
    }

    /// Returns the same numbers in the widest dtype, contiguous.
    fn clean(&self) -> FlexTensor {
        if self.ints.is_none() {
            return FlexTensor::from_data(self.data().convert_dtype(DType::F64));
        }
        // A number above the largest i64 is out of range, and so is the largest.
        let len = self.shape.iter().product();
        let widest = |i| match self.dtype {
            DType::U64 => i64::try_from(self.int(i) as u64).unwrap_or(i64::MAX),
            _ => self.int(i),
        };
        let values: Vec<i64> = (0..len).map(widest).collect();
        FlexTensor::from_data(TensorData::new(values, self.shape.clone()))
    }

    /// Returns every change of this operand, with a description.
    pub fn changes(&self) -> Vec<(String, Self)> {
        let mut changes = Vec::new();
        let mut add = |what: String, change: &dyn Fn(&mut Self)| {
            let mut changed = self.clone();
            change(&mut changed);
            changes.push((format!("{}: {what}", self.name), changed));
        };
        for axis in 0..self.shape.len() {
            let size = self.shape[axis];
            for other in [size + 1, size.saturating_sub(1), 0, 1] {
                if other != size {
                    add(format!("axis {axis} is {other}"), &|o| {
                        o.shape[axis] = other
                    });
                }
            }
        }
        add("an axis more in front".into(), &|o| o.shape.insert(0, 1));
        add("an axis more behind".into(), &|o| o.shape.push(1));
        if !self.shape.is_empty() {
            add("the first axis missing".into(), &|o| {
                o.shape.remove(0);
            });
            add("the last axis missing".into(), &|o| {
                o.shape.pop();
            });
        }
        let types = [
            DType::F64,
            DType::F32,
            DType::F16,
            DType::BF16,
            DType::I64,
            DType::I32,
            DType::U64,
            DType::U8,
        ];
        for dtype in types {
            if dtype != self.dtype {
                add(format!("{dtype:?}"), &|o| o.dtype = dtype);
            }
        }
        for layout in [Layout::Transposed, Layout::Within] {
            add(format!("{layout:?}"), &|o| o.layout = layout);
        }
        if self.ints.is_some() {
            for value in [-1, 1_000_000, i64::MAX, i64::MIN] {
                add(format!("a number is {value}"), &|o| {
                    if let Some(first) = o.ints.as_mut().and_then(|ints| ints.first_mut()) {
                        *first = value;
                    }
                });
            }
        }
        changes
    }
}

/// A method of a kernel trait with its operands.
pub struct Case {
    pub name: String,
    pub operands: Vec<Operand>,
    pub run: Box<dyn Run>,
}

/// The method as a function of its operands, in order.
pub trait Run: Fn(Vec<FlexTensor>) -> Result<Vec<FlexTensor>, Mismatch> {}

impl<F: Fn(Vec<FlexTensor>) -> Result<Vec<FlexTensor>, Mismatch>> Run for F {}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The call was refused with this message.
    Refused(String),
    /// The call returned the right numbers.
    Right,
}

impl Case {
    pub fn new(
        name: impl Into<String>,
        operands: impl IntoIterator<Item = Operand>,
        run: impl Run + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            operands: operands.into_iter().collect(),
            run: Box::new(run),
        }
    }

    /// Calls the method with other operands.
    ///
    /// # Panics
    /// Panics unless the call is refused with a message or returns the right numbers.
    pub fn check(&self, operands: &[Operand]) -> Outcome {
        let tensors = operands.iter().map(Operand::tensor).collect();
        let called = catch_unwind(AssertUnwindSafe(|| (self.run)(tensors)));
        let results = match called {
            Ok(Ok(results)) => results,
            Ok(Err(mismatch)) => return self.refused(mismatch.to_string()),
            Err(panic) => return self.refused(said(panic)),
        };
        let clean = operands.iter().map(Operand::clean).collect();
        let expected = (self.run)(clean).expect("the same numbers in a wider type are taken");
        assert_eq!(results.len(), expected.len(), "{}", self.name);
        for (result, expected) in results.iter().zip(&expected) {
            assert_eq!(
                result.layout().shape(),
                expected.layout().shape(),
                "{}",
                self.name
            );
            let tolerance = match result.dtype() {
                DType::F64 => 1e-9,
                DType::F32 => 1e-4,
                DType::F16 => 2e-2,
                DType::BF16 => 1e-1,
                _ => 0.0,
            };
            let numbers = |tensor: &FlexTensor| {
                let data = tensor.clone().into_data();
                data.iter::<f64>().collect::<Vec<_>>()
            };
            for (result, expected) in numbers(result).into_iter().zip(numbers(expected)) {
                assert!(expected.is_finite(), "{}: {expected}", self.name);
                assert!(
                    (result - expected).abs() <= tolerance * (1.0 + expected.abs()),
                    "{}: {result}, but {expected} is right",
                    self.name
                );
            }
        }
        Outcome::Right
    }

    fn refused(&self, sentence: String) -> Outcome {
        const OPERATIONS: [&str; 20] = [
            "Attention: ",
            "Cross-entropy: ",
            "Linear cross-entropy: ",
            "Linear divergence: ",
            "RMSNorm: ",
            "AddRMSNorm: ",
            "LayerNorm: ",
            "Linear: ",
            "GLU: ",
            "RoPE: ",
            "QkNormRoPE: ",
            "Soft cap: ",
            "Causal convolution: ",
            "Gated delta rule: ",
            "AdamW: ",
            "router: ",
            "grouped matmul: ",
            "moe_permute: ",
            "moe_unpermute: ",
            "experts: ",
        ];
        let ours = OPERATIONS.iter().any(|name| sentence.starts_with(name))
            || sentence.starts_with("mixture of experts: ");
        assert!(ours, "{}: not a sentence of ours: {sentence}", self.name);
        Outcome::Refused(sentence)
    }
}

pub fn said(panic: Box<dyn std::any::Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast::<&str>().expect("a text")).to_owned(),
    }
}
