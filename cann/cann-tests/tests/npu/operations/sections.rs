//! Compares rotations by three positions a token on an NPU of the emulator with the reference in f64: the positions of
//! time, height and width differ, and so do the lengths of their sections.

use crate::npu::common::Scenario;
use burn::tensor::{Device, Distribution, FloatDType, Int, Tensor};
use burn_cann::backend;
use kernels_runtime::ops::qk_norm_rope;
use kernels_runtime::ops::rope::{fused_sections, reference_sections};
use kernels_runtime::semantics::*;

const WIDTH: usize = 16;

fn keys() -> impl Iterator<Item = RopeKey> {
    let layouts = [HeadLayout::Bnsd, HeadLayout::Bsnd];
    let widths = [RotaryWidth::Full, RotaryWidth::Partial];
    let sections = [Sections::Chunked, Sections::Interleaved];
    layouts.into_iter().flat_map(move |layout| {
        widths.into_iter().flat_map(move |width| {
            sections.into_iter().map(move |sections| RopeKey {
                layout,
                width,
                sections,
                ..RopeKey::LLAMA
            })
        })
    })
}

/// Queries, keys, cosines and sines.
type Tensors = [Tensor<4>; 4];

/// Returns random tensors on the host, in f64, rounded to the dtype, and the lengths of the sections.
fn inputs(key: RopeKey, dtype: FloatDType) -> (Tensors, [usize; 3]) {
    let [b, s] = [2, 5];
    let heads = |heads: usize| match key.layout {
        HeadLayout::Bnsd => [b, heads, s, WIDTH],
        HeadLayout::Bsnd => [b, s, heads, WIDTH],
    };
    let (columns, sections) = match key.width {
        RotaryWidth::Full => (WIDTH, [4, 3, 1]),
        RotaryWidth::Partial => (WIDTH / 2, [2, 1, 1]),
    };
    let tables = [3, b, s, columns];
    let random = |shape: [usize; 4]| -> Tensor<4> {
        let of = Distribution::Uniform(-1.0, 1.0);
        let numbers: Tensor<4> = Tensor::random(shape, of, &Device::flex());
        numbers.cast(dtype).cast(FloatDType::F64)
    };
    ([heads(4), heads(2), tables, tables].map(random), sections)
}

/// Returns the results and the gradients of all tensors.
fn computed(
    tensors: &Tensors,
    (device, dtype): (&Device, FloatDType),
    run: impl FnOnce(Tensors) -> (Tensor<4>, Tensor<4>),
) -> Vec<Vec<f64>> {
    let leaf = |tensor: &Tensor<4>| -> Tensor<4> {
        let dtype = burn::tensor::DType::from(dtype);
        Tensor::from_data(tensor.clone().into_data(), (device, dtype)).require_grad()
    };
    let values = |tensor: Tensor<4>| -> Vec<f64> { tensor.into_data().iter::<f64>().collect() };
    let leaves = tensors.each_ref().map(leaf);
    let (q, k) = run(leaves.clone());
    // Each element has another weight, so that a rotation by another position has other gradients.
    let weigh = |y: &Tensor<4>| {
        let weights = Tensor::<1, Int>::arange(1..y.shape().num_elements() as i64 + 1, device);
        let weights = weights.float().cast(y.dtype()).reshape(y.dims()) * (1.0 / 64.0);
        (y.clone() * weights).sum()
    };
    let grads = (weigh(&q) + weigh(&k)).backward();
    let gradients = leaves.map(|leaf| values(leaf.grad(&grads).expect("it is tracked")));
    [values(q), values(k)]
        .into_iter()
        .chain(gradients)
        .collect()
}

/// Compares results and gradients with the reference in f64 for every dtype, and the reference with what it would give if all
/// positions were that of time.
fn compare(
    key: RopeKey,
    what: &str,
    tolerance: f64,
    device: &Device,
    (run, exactly): (Run<'_>, Run<'_>),
) {
    let host = Device::flex().autodiff();
    for (dtype, bound) in [
        (FloatDType::F32, 1e-5),
        (FloatDType::F16, 4e-3),
        (FloatDType::BF16, 3e-2),
    ] {
        let (tensors, sections) = inputs(key, dtype);
        let bound = tolerance * bound;
        let on_host = |run: &dyn Fn(Tensors) -> (Tensor<4>, Tensor<4>)| {
            computed(&tensors, (&host, FloatDType::F64), run)
        };
        let found = computed(&tensors, (device, dtype), |tensors| run(tensors, sections));
        let exact = on_host(&|tensors| exactly(tensors, sections));
        let by_time = on_host(&|[q, k, cos, sin]| {
            let time = |table: Tensor<4>| table.clone().slice(0..1).expand(table.dims());
            exactly([q, k, time(cos), time(sin)], sections)
        });
        for (number, (found, exact)) in found.iter().zip(&exact).enumerate() {
            let norm =
                |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
            let apart = |other: &[f64]| norm(&mut other.iter().zip(exact).map(|(a, b)| a - b));
            assert_eq!(found.len(), exact.len());
            let (distance, size) = (apart(found), norm(&mut exact.iter().copied()));
            let what = format!("{what}, {dtype:?}, tensor {number}");
            assert!(distance <= bound * size, "{what}: {distance:e} of {size:e}");
            // The positions make a difference that the bound can see.
            assert!(apart(&by_time[number]) > 2.0 * bound * size, "{what}");
        }
    }
}

/// A rotation by sections.
type Run<'a> = &'a dyn Fn(Tensors, [usize; 3]) -> (Tensor<4>, Tensor<4>);

/// Runs with an NPU of the emulator.
fn with_an_npu(run: impl FnOnce(&Device)) {
    Scenario::new().run(|cann| {
        backend::install(cann.clone());
        run(&kernels_serving::npu::device(0).unwrap().autodiff());
        kernels_serving::npu::close();
        backend::close();
    });
}

#[test]
fn three_positions_beside_the_reference() {
    with_an_npu(|device| {
        for key in keys() {
            let run: Run<'_> = &|[q, k, cos, sin], sections| {
                fused_sections(q, k, cos, sin, sections, key).expect("a kernel")
            };
            let exactly: Run<'_> =
                &|[q, k, cos, sin], sections| reference_sections(q, k, cos, sin, sections, key);
            compare(key, &key.to_string(), 1.0, device, (run, exactly));
        }
    });
}

#[test]
fn three_positions_after_a_norm_beside_the_reference() {
    with_an_npu(|device| {
        for base in [
            QkNormRopeKey::QWEN3,
            QkNormRopeKey::GEMMA3,
            QkNormRopeKey::LLAMA,
        ] {
            for rope in keys() {
                let key = QkNormRopeKey {
                    layout: rope.layout,
                    width: rope.width,
                    sections: rope.sections,
                    ..base
                };
                let has_norm = key.norm != QkNorm::None;
                let settings = qk_norm_rope::Settings {
                    eps: has_norm.then_some(1e-6),
                };
                let projected = |q: Tensor<4>, k: Tensor<4>| {
                    // Numbers that every dtype has.
                    let weight = || {
                        let numbers = Tensor::<1, Int>::arange(1..WIDTH as i64 + 1, &q.device());
                        has_norm.then(|| numbers.float().cast(q.dtype()) * 0.125)
                    };
                    let [q_weight, k_weight] = [weight(), weight()];
                    qk_norm_rope::Projected {
                        q,
                        k,
                        q_weight,
                        k_weight,
                    }
                };
                let run: Run<'_> = &|[q, k, cos, sin], sections| {
                    let projected = projected(q, k);
                    qk_norm_rope::fused_sections(projected, [cos, sin], sections, settings, key)
                        .expect("a kernel")
                };
                let exactly: Run<'_> = &|[q, k, cos, sin], sections| {
                    let projected = projected(q, k);
                    qk_norm_rope::reference_sections(projected, [cos, sin], sections, settings, key)
                };
                // Projections are always in one layout. A norm rounds too.
                let of_inputs = RopeKey {
                    layout: HeadLayout::Bsnd,
                    ..rope
                };
                compare(of_inputs, &key.to_string(), 2.0, device, (run, exactly));
            }
        }
    });
}
