//! Operands that tests change, and what must come of them.

use burn::backend::flex::FlexTensor;
use burn::tensor::{DType, TensorData};
use kernels_runtime::ops::Mismatch;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One operand of a call.
#[derive(Clone, Debug)]
pub struct Operand {
    pub name: &'static str,
    pub shape: Vec<usize>,
    pub dtype: DType,
    pub layout: Layout,
    /// The numbers of an operand of integers, which repeat.
    pub ints: Option<Vec<i64>>,
}

/// The layout of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    Contiguous,
    /// The last two axes are exchanged in memory.
    Transposed,
    /// There are other elements before and behind.
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
    /// Row-major, in the operand's type.
    fn data(&self) -> TensorData {
        let len = self.shape.iter().product();
        let value = |i: usize| match &self.ints {
            Some(values) if values.is_empty() => 0.0,
            Some(values) => values[i % values.len()] as f64,
            None => {
                let mut hasher = DefaultHasher::new();
                (self.name, i).hash(&mut hasher);
                // Positive, so that it may be a second moment or rstd too.
                (hasher.finish() % 1000) as f64 / 1000.0 + 0.25
            }
        };
        let values: Vec<f64> = (0..len).map(value).collect();
        if let Some(ints) = &self.ints {
            // Past f64, which would round the largest.
            // As the type can hold them.
            let (least, most) = match self.dtype {
                DType::I64 => (i64::MIN, i64::MAX),
                DType::I32 => (i32::MIN.into(), i32::MAX.into()),
                _ => (0, u8::MAX.into()),
            };
            let number = |i: usize| ints.get(i % ints.len().max(1)).copied().unwrap_or(0);
            let values: Vec<i64> = (0..len).map(|i| number(i).clamp(least, most)).collect();
            return TensorData::new(values, self.shape.clone()).convert_dtype(self.dtype);
        }
        TensorData::new(values, self.shape.clone()).convert_dtype(self.dtype)
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
                let mut larger = self.clone();
                larger.layout = Layout::Contiguous;
                larger.shape[0] += 2;
                let row: usize = self.shape[1..].iter().product();
                // NaN, where the type has it: reading it shows.
                let around = if self.dtype.is_float() {
                    f64::NAN
                } else {
                    99.0
                };
                let around = vec![around; row];
                let inner = self.data().convert_dtype(DType::F64);
                let inner = inner.try_into_vec::<f64>().expect("of this type");
                let values = [around.clone(), inner, around].concat();
                let data = TensorData::new(values, larger.shape).convert_dtype(self.dtype);
                FlexTensor::from_data(data).narrow(0, 1, self.shape[0])
            }
            _ => FlexTensor::from_data(self.data()),
        }
    }

    /// The same numbers in the widest type, contiguous.
    fn clean(&self) -> FlexTensor {
        let widest = if self.ints.is_some() {
            DType::I64
        } else {
            DType::F64
        };
        FlexTensor::from_data(self.data().convert_dtype(widest))
    }

    /// Every change of this operand, with what it is.
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

/// One method of a kernel trait with its operands.
pub struct Case {
    pub name: String,
    pub operands: Vec<Operand>,
    pub run: Box<dyn Run>,
}

/// The method, on the operands in turn.
pub trait Run: Fn(Vec<FlexTensor>) -> Result<Vec<FlexTensor>, Mismatch> {}

impl<F: Fn(Vec<FlexTensor>) -> Result<Vec<FlexTensor>, Mismatch>> Run for F {}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was refused, with this sentence.
    Refused(String),
    /// It gave the right numbers.
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

    /// The call with other operands.
    ///
    /// # Panics
    /// It gave anything but a refusal with a sentence or the right numbers.
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
        const OPERATIONS: [&str; 9] = [
            "RMSNorm: ",
            "GLU: ",
            "RoPE: ",
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
