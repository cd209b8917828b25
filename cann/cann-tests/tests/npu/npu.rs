//! Functions that compare operations over CANN's operators, on the emulator, with their references in f64.
//!
//! A [`Scenario`] is a process of its own, which ends with the emulator's report of everything that was not released.

#[allow(dead_code, reason = "the tests of burn-cann use the rest")]
#[path = "../../../burn-cann/tests/safe_runtime/common/mod.rs"]
pub mod common;

use burn::tensor::{Device as BurnDevice, Int, Tensor as Exact, TensorData};
use burn_cann::{DType, Device, Layout, Platform, Soc, Spec, Stream, Tensor, Version};
pub use common::maths::noise;
use common::{Scenario, maths};
use kernels_runtime::dispatch::Mode;
use kernels_runtime::dispatch::Reason;
use kernels_runtime::npu::Refused;
use kernels_runtime::ops::Mismatch;
use kernels_runtime::registry::{self, FloatType};
use kernels_runtime::semantics::SemanticsKey;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

/// The dtypes of CANN's operators.
pub const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// Runs `body` on device 0 of a separate emulator.
pub fn on_the_emulator(body: impl FnOnce(&Device, &Stream)) {
    on(Scenario::new(), body);
}

/// Does the same with settings of the emulator.
pub fn on(scenario: Scenario, body: impl FnOnce(&Device, &Stream)) {
    scenario.run(|cann| {
        let (device, stream) = common::device(cann);
        // The gradients of weights are then summed in a fixed order.
        device.set_deterministic(true).expect("an option of CANN's");
        body(&device, &stream);
        stream.synchronise().expect("nothing failed");
    });
}

/// The layout of a tensor in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    Contiguous,
    /// The tensor is a part of wider rows.
    Sliced,
    /// The first two axes are swapped.
    Turned,
}

pub const LIES: [Lie; 3] = [Lie::Contiguous, Lie::Sliced, Lie::Turned];

/// The exact values of a tensor.
#[derive(Clone, Debug)]
pub struct Held {
    pub values: Vec<f64>,
    pub shape: Vec<usize>,
}

impl Held {
    /// Returns the values as a Burn tensor in f64, with a gradient.
    pub fn exact<const D: usize>(&self) -> Exact<D> {
        self.plain().require_grad()
    }

    /// Returns the values as a Burn tensor in f64, without a gradient.
    pub fn plain<const D: usize>(&self) -> Exact<D> {
        let device = BurnDevice::flex().autodiff();
        let data = TensorData::new(self.values.clone(), self.shape.clone());
        Exact::from_data(data, (&device, burn::tensor::DType::F64))
    }
}

/// Returns a tensor of numbers between -1 and 1, rounded to `dtype`, with the exact values.
pub fn put(stream: &Stream, dtype: DType, shape: &[usize], seed: u64, lie: Lie) -> (Tensor, Held) {
    let values = noise(shape.iter().product(), seed);
    put_values(stream, dtype, &values, shape, lie)
}

/// Returns a tensor of these numbers, rounded to `dtype`, with the exact values.
pub fn put_values(
    stream: &Stream,
    dtype: DType,
    values: &[f64],
    shape: &[usize],
    lie: Lie,
) -> (Tensor, Held) {
    let layout = layout(shape, lie);
    let mut storage = vec![0.25; layout.reach()];
    for (place, value) in places(&layout).into_iter().zip(values) {
        storage[place] = *value;
    }
    let (tensor, rounded) = maths::tensor(stream, dtype, &storage, &[storage.len()]);
    let held = Held {
        values: places(&layout)
            .into_iter()
            .map(|place| rounded[place])
            .collect(),
        shape: shape.to_vec(),
    };
    let tensor = match layout.is_empty() {
        true => Tensor::empty(stream, dtype, shape).expect("of nothing"),
        false => tensor.with_layout(layout).expect("within its memory"),
    };
    (tensor, held)
}

/// Returns a tensor of these integers with this dtype.
pub fn integers(stream: &Stream, dtype: DType, values: &[i64], shape: &[usize]) -> Tensor {
    let values: Vec<f64> = values.iter().map(|value| *value as f64).collect();
    put_values(stream, dtype, &values, shape, Lie::Contiguous).0
}

/// Returns a Burn tensor of these integers.
pub fn exact_integers<const D: usize>(values: &[i64], shape: [usize; D]) -> Exact<D, Int> {
    let device = BurnDevice::flex().autodiff();
    Exact::from_data(TensorData::new(values.to_vec(), shape), &device)
}

fn layout(shape: &[usize], lie: Lie) -> Layout {
    match lie {
        Lie::Contiguous => Layout::contiguous(shape).unwrap(),
        Lie::Sliced => {
            let last = shape.len() - 1;
            let mut wide = shape.to_vec();
            wide[last] += 5;
            let wide = Layout::contiguous(wide).unwrap();
            wide.slice(last, 2..2 + shape[last]).unwrap()
        }
        Lie::Turned if shape.len() < 2 => Layout::strided(shape, [3], 1).unwrap(),
        Lie::Turned => {
            let mut turned = shape.to_vec();
            turned.swap(0, 1);
            Layout::contiguous(turned).unwrap().transpose(0, 1).unwrap()
        }
    }
}

/// Returns the places of the elements, in order.
fn places(layout: &Layout) -> Vec<usize> {
    let mut places = vec![layout.offset()];
    for (&size, &stride) in layout.shape().iter().zip(layout.strides()) {
        places = places
            .iter()
            .flat_map(|place| (0..size).map(move |index| place + index * stride))
            .collect();
    }
    places
}

/// Reads the elements of a tensor with any strides.
pub fn read(stream: &Stream, tensor: &Tensor) -> Vec<f64> {
    if tensor.spec().is_empty() {
        return Vec::new();
    }
    let all = Layout::contiguous([tensor.layout().reach()]).unwrap();
    let storage = tensor.with_layout(all).unwrap();
    maths::view(&maths::values(stream, &storage), tensor.layout())
}

/// Returns the elements of a Burn tensor.
pub fn elements<const D: usize>(tensor: Exact<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// Returns the gradient of a leaf.
pub fn gradient<const D: usize>(leaf: &Exact<D>, gradients: &burn::tensor::Gradients) -> Vec<f64> {
    elements(leaf.grad(gradients).expect("the leaf was used"))
}

/// Fails unless a tensor has this shape, this dtype and these values, as [`assert_close`] compares them.
#[track_caller]
pub fn assert_near(
    what: impl Debug,
    stream: &Stream,
    found: &Tensor,
    dtype: DType,
    shape: &[usize],
    expected: &[f64],
) {
    assert_eq!(found.shape(), shape, "{what:?}");
    assert_eq!(found.dtype(), dtype, "{what:?}");
    if shape.contains(&0) {
        assert!(expected.is_empty(), "{what:?}");
        return;
    }
    assert_close(what, &read(stream, found), expected, dtype);
}

/// Fails unless there are these values, each within the public precision standard of Ascend operators, and within a 64th
/// of it in f32. The standard is a part of the value and of the largest one, which is at most 1 for this, and at least a
/// 64th: operands are around 1, so that a gradient that is smaller is what is left of terms that cancel.
#[track_caller]
pub fn assert_close(what: impl Debug, found: &[f64], expected: &[f64], dtype: DType) {
    assert_eq!(found.len(), expected.len(), "{what:?}");
    assert!(!found.is_empty(), "{what:?}: there is nothing to compare");
    let part = match dtype {
        DType::F32 => 2f64.powi(-16),
        DType::F16 => 2f64.powi(-9),
        _ => 2f64.powi(-6),
    };
    let largest = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found - expected).abs();
        let allowed = part * (largest.clamp(2f64.powi(-6), 1.0) + expected.abs());
        // Written so that NaN and infinity fail, also expected ones.
        let within = error <= allowed && error.is_finite();
        assert!(
            within,
            "{what:?} in {dtype}, element {place}: {found}, expected {expected}, off by {error:e} of {allowed:e}"
        );
    }
}

/// Fails as [`assert_close`] does for the gradient of what a norm normalises. Its terms are as large as `rstd`, and cancel
/// where a row has one element.
#[track_caller]
pub fn assert_close_in_terms(
    what: impl Debug,
    found: &[f64],
    expected: &[f64],
    dtype: DType,
    rstd: &[f64],
) {
    let largest = |most: f64, rstd: &f64| most.max(*rstd);
    let terms = rstd.iter().fold(1.0, largest);
    assert!(
        rstd.iter().all(|rstd| rstd.is_finite()),
        "{what:?}: {rstd:?}"
    );
    let parts = |values: &[f64]| -> Vec<f64> { values.iter().map(|x| x / terms).collect() };
    assert_close(what, &parts(found), &parts(expected), dtype);
}

/// Fails unless these values are, in the L2 norm, within a few roundings of `dtype`, which accumulate over the
/// operators of a composition. This is the tolerance of the CPU's kernels.
#[track_caller]
pub fn assert_close_on_the_whole(what: impl Debug, found: &[f64], expected: &[f64], dtype: DType) {
    assert_eq!(found.len(), expected.len(), "{what:?}");
    assert!(!found.is_empty(), "{what:?}: there is nothing to compare");
    let allowed = match dtype {
        DType::F32 => 1e-6,
        DType::F16 => 3e-3,
        _ => 2.4e-2,
    };
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let error = norm(&mut found.iter().zip(expected).map(|(a, b)| a - b));
    let size = norm(&mut expected.iter().copied());
    // Written so that NaN and infinity fail, also expected ones.
    let within = error <= allowed * size && error.is_finite();
    assert!(within, "{what:?} in {dtype}: off by {error:e} of {size:e}");
}

/// Fails unless plans name the operators of a call of an implementation, in order. The call makes at most `others` more,
/// over vectors.
#[track_caller]
pub fn assert_named(
    (kernel, implementation): (&str, &str),
    key: impl Into<SemanticsKey>,
    (dtype, mode): (DType, Mode),
    made: &[String],
    others: usize,
) {
    let float = match dtype {
        DType::F16 => FloatType::F16,
        DType::BF16 => FloatType::Bf16,
        _ => FloatType::F32,
    };
    let key = key.into();
    let all = registry::kernel(kernel)
        .expect("it is linked")
        .implementations;
    let mut ours = all
        .iter()
        .filter(|one| one.name == implementation && (one.accepts)(&key));
    let operators = ours
        .next_back()
        .expect("it takes the key")
        .operators
        .expect("it names them");
    let named = operators(&key, float, mode).expect("it takes the key");
    let mut rest = made.iter();
    let are_made = named.iter().all(|named| rest.any(|made| made == named));
    assert!(are_made, "{key}: {named:?} of {made:?}");
    assert!(
        made.len() <= named.len() + others,
        "{key}: {named:?} of {made:?}"
    );
}

/// A record of calls of CANN's functions; for operators, of phase two.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Call {
    function: String,
    phase: String,
}

impl tracing::field::Visit for Call {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn Debug) {
        let text = format!("{value:?}").trim_matches('"').to_owned();
        match field.name() {
            "function" => self.function = text,
            "phase" => self.phase = text,
            _ => {}
        }
    }
}

impl tracing::Subscriber for Calls {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("burn_cann") && metadata.is_span()
    }

    fn new_span(&self, attributes: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        let mut call = Call::default();
        attributes.record(&mut call);
        if call.phase != "1" {
            self.0.lock().unwrap().push(call.function);
        }
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// CANN's functions that wait for the device.
const WAITS: [&str; 8] = [
    "aclrtSynchronizeStream",
    "aclrtSynchronizeStreamWithTimeout",
    "aclrtSynchronizeDevice",
    "aclrtSynchronizeDeviceWithTimeout",
    "aclrtSynchronizeEvent",
    "aclrtSynchronizeEventWithTimeout",
    "aclrtMemcpy",
    "aclrtMemset",
];

/// Returns the result of `work`, and the operators that it put on a stream. Fails if it waited for the device or copied
/// between host and device.
#[track_caller]
pub fn without_waiting<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    let (result, calls) = at_most_uploading(work);
    assert!(
        !calls.iter().any(|call| call == "aclrtMemcpyAsync"),
        "it copied between host and device: {calls:?}"
    );
    (result, calls)
}

/// Returns the result of `work`, and the operators and copies that it put on a stream. Fails if it waited for the
/// device. What it copied can only have come from the host, because the host waits for a copy to itself.
#[track_caller]
pub fn at_most_uploading<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    let calls = Calls::default();
    let result = tracing::subscriber::with_default(calls.clone(), work);
    let calls = std::mem::take(&mut *calls.0.lock().unwrap());
    let waits: Vec<_> = calls
        .iter()
        .filter(|call| WAITS.contains(&call.as_str()))
        .collect();
    assert!(waits.is_empty(), "it waited: {waits:?} in {calls:?}");
    let work = |call: &String| call.starts_with("aclnn") || call == "aclrtMemcpyAsync";
    (result, calls.into_iter().filter(work).collect())
}

/// Returns a processor and toolkit for decisions.
pub fn platform() -> Platform {
    Platform {
        soc: Soc::from_name("Ascend910B1"),
        version: Version::new("8.5.0"),
        vector_cores: Some(48),
    }
}

/// Returns the first Ascend 910, whose limits are unchecked.
pub fn other_processor() -> Platform {
    Platform {
        soc: Soc::from_name("Ascend910A"),
        ..platform()
    }
}

pub fn spec(dtype: DType, shape: &[usize]) -> Spec {
    Spec::contiguous(dtype, shape).unwrap()
}

/// Fails unless the decision is a refusal with this reason and these words.
#[track_caller]
pub fn refused<T: Debug>(decision: Result<T, Refused>, reason: Reason, words: &str) {
    let refused = decision.expect_err("it is refused");
    assert_eq!(refused.reason, reason, "{refused}");
    assert!(refused.to_string().contains(words), "{refused}");
}

/// Fails unless operands are refused as mismatched, with these words.
#[track_caller]
pub fn mismatched<T: Debug>(operands: Result<T, Mismatch>, words: &str) {
    let mismatch = operands.expect_err("they don't go together");
    assert!(mismatch.to_string().contains(words), "{mismatch}");
}
