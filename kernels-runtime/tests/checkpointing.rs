//! Tests what a forward pass keeps for its gradients. It has a process of its own, because what other tests leave in the
//! buffers of threads counts among the few bytes that it allows.
#![cfg(feature = "cpu")]

#[path = "../../tests/comparison/mod.rs"]
mod comparison;
#[path = "../../tests/counting/mod.rs"]
mod counting;

use burn::tensor::{Device, Distribution, Int, Tensor};
use comparison::relative;
use counting::Since;
use kernels_runtime::ops::attention::Lengths;
use kernels_runtime::ops::moe::experts::{self, Projection, Weights};
use kernels_runtime::ops::{
    add_rms_norm, attention, cross_entropy, glu, layer_norm, linear, linear_cross_entropy,
    qk_norm_rope, rms_norm, rope, softcap,
};
use kernels_runtime::semantics::*;

const TOKENS: usize = 256;
const WIDTH: usize = 256;
const HEADS: usize = 4;
const CLASSES: usize = 1024;
const EXPERTS: usize = 4;
/// The bytes of a tensor with a row of `WIDTH` for each token.
const ROWS: isize = (TOKENS * WIDTH * 4) as isize;
/// The bytes that nodes of the graph and statistics of rows may take.
const BESIDE: isize = 48 << 10;

/// The parameters that a case uses, in the order of use.
struct Parameters(Vec<Tensor<2>>);

impl Parameters {
    fn new(device: &Device) -> Self {
        let numbers = Distribution::Uniform(-0.1, 0.1);
        let square = |_| Tensor::random([WIDTH, WIDTH], numbers, device).require_grad();
        Self((0..4).map(square).collect())
    }

    /// Projects the input. A product is kept, not computed again.
    fn projected(&self, x: &Tensor<2>, number: usize) -> Tensor<2> {
        x.clone().matmul(self.0[number].clone())
    }

    fn heads(&self, x: &Tensor<2>, number: usize) -> Tensor<4> {
        let heads = [1, TOKENS, HEADS, WIDTH / HEADS];
        self.projected(x, number).reshape(heads)
    }
}

/// The parameters that are not projections, made before anything is counted.
struct Others {
    row: Tensor<1>,
    head: Tensor<1>,
    classes: Tensor<2>,
    experts: [Tensor<3>; 3],
    table: Tensor<3>,
    targets: Tensor<1, Int>,
    chosen: Tensor<2, Int>,
}

impl Others {
    fn new(device: &Device) -> Self {
        let numbers = Distribution::Uniform(-0.1, 0.1);
        let vector = |width| Tensor::random([width], numbers, device).require_grad();
        let stack = |_: usize| {
            let stack: Tensor<3> = Tensor::random([EXPERTS, WIDTH, WIDTH], numbers, device);
            stack.require_grad()
        };
        Self {
            row: vector(WIDTH),
            head: vector(WIDTH / HEADS),
            classes: Tensor::random([CLASSES, WIDTH], numbers, device).require_grad(),
            experts: std::array::from_fn(stack),
            table: Tensor::random([1, TOKENS, WIDTH / HEADS], numbers, device),
            targets: Tensor::arange(0..TOKENS as i64, device),
            chosen: Tensor::<1, Int>::arange(0..TOKENS as i64, device)
                .remainder_scalar(EXPERTS as i64)
                .reshape([TOKENS, 1]),
        }
    }
}

/// Runs an operation on projections of `x`, fused or not. Returns its results as rows.
type Case = fn(&Tensor<2>, &Parameters, &Others, bool) -> Vec<Tensor<2>>;

/// The names of operations, with the tensors of `ROWS` that a fused one keeps with gradient checkpointing: its operands,
/// and results that are not computed again.
const CASES: [(&str, isize, Case); 13] = [
    ("SwiGLU", 2, |x, parameters, _, is_fused| {
        let inputs = glu::Inputs::Separate {
            gate: parameters.projected(x, 0),
            up: parameters.projected(x, 1),
        };
        let (settings, key) = (glu::Settings::default(), GluKey::SWIGLU);
        vec![match is_fused {
            true => glu::fused(inputs, settings, key).expect("a kernel"),
            false => glu::reference(inputs, settings, key),
        }]
    }),
    ("packed SwiGLU", 2, |x, parameters, _, is_fused| {
        let [gate, up] = [0, 1].map(|number| parameters.0[number].clone());
        let inputs = glu::Inputs::Packed(x.clone().matmul(Tensor::cat(vec![gate, up], 1)));
        let settings = glu::Settings::default();
        let key = GluKey {
            projections: Projections::Chunked,
            ..GluKey::SWIGLU
        };
        vec![match is_fused {
            true => glu::fused(inputs, settings, key).expect("a kernel"),
            false => glu::reference(inputs, settings, key),
        }]
    }),
    ("RMSNorm", 1, |x, parameters, others, is_fused| {
        let inputs = rms_norm::Inputs {
            x: parameters.projected(x, 0),
            weight: Some(others.row.clone()),
            gate: None,
        };
        let (settings, key) = (
            rms_norm::Settings {
                eps: 1e-6,
                group_size: None,
            },
            RmsNormKey::LLAMA,
        );
        vec![match is_fused {
            true => rms_norm::fused(inputs, settings, key).expect("a kernel"),
            false => rms_norm::reference(inputs, settings, key),
        }]
    }),
    (
        "a sum and its RMSNorm",
        1,
        |x, parameters, others, is_fused| {
            let inputs = add_rms_norm::Inputs {
                x: parameters.projected(x, 0),
                residual: parameters.projected(x, 1),
                weight: Some(others.row.clone()),
                gate: None,
            };
            let settings = rms_norm::Settings {
                eps: 1e-6,
                group_size: None,
            };
            let key = AddRmsNormKey::of_norm(RmsNormKey::LLAMA);
            let (y, sum) = match is_fused {
                true => add_rms_norm::fused(inputs, settings, key).expect("a kernel"),
                false => add_rms_norm::reference(inputs, settings, key),
            };
            vec![y, sum]
        },
    ),
    ("LayerNorm", 1, |x, parameters, others, is_fused| {
        let inputs = layer_norm::Inputs {
            x: parameters.projected(x, 0),
            weight: others.row.clone(),
            bias: Some(others.row.clone()),
        };
        let (settings, key) = (layer_norm::Settings { eps: 1e-5 }, LayerNormKey::GPT2);
        vec![match is_fused {
            true => layer_norm::fused(inputs, settings, key).expect("a kernel"),
            false => layer_norm::reference(inputs, settings, key),
        }]
    }),
    ("soft capping", 1, |x, parameters, _, is_fused| {
        let x = parameters.projected(x, 0);
        vec![match is_fused {
            true => softcap::fused(x, 0.05).expect("a kernel"),
            false => softcap::reference(x, 0.05),
        }]
    }),
    ("Linear", 2, |x, parameters, others, is_fused| {
        let inputs = linear::Inputs {
            x: parameters.projected(x, 0),
            weight: parameters.0[1].clone(),
            bias: Some(others.row.clone()),
        };
        vec![match is_fused {
            true => linear::fused(inputs, LinearKey::BURN).expect("a kernel"),
            false => linear::reference(inputs, LinearKey::BURN),
        }]
    }),
    ("RoPE", 4, |x, parameters, others, is_fused| {
        let [q, k] = [0, 1].map(|number| parameters.heads(x, number));
        let (cos, sin) = (others.table.clone(), others.table.clone());
        let key = RopeKey {
            layout: HeadLayout::Bsnd,
            ..RopeKey::LLAMA
        };
        let (q, k) = match is_fused {
            true => rope::fused(q, k, cos, sin, key).expect("a kernel"),
            false => rope::reference(q, k, cos, sin, key),
        };
        [q, k].map(rows).to_vec()
    }),
    ("norm and RoPE", 4, |x, parameters, others, is_fused| {
        let [q, k] = [0, 1].map(|number| parameters.heads(x, number));
        let inputs = qk_norm_rope::Inputs {
            q,
            k,
            q_weight: Some(others.head.clone()),
            k_weight: Some(others.head.clone()),
            cos: others.table.clone(),
            sin: others.table.clone(),
        };
        let settings = qk_norm_rope::Settings { eps: Some(1e-6) };
        let key = QkNormRopeKey {
            layout: HeadLayout::Bsnd,
            ..QkNormRopeKey::QWEN3
        };
        let (q, k) = match is_fused {
            true => qk_norm_rope::fused(inputs, settings, key).expect("a kernel"),
            false => qk_norm_rope::reference(inputs, settings, key),
        };
        [q, k].map(rows).to_vec()
    }),
    ("attention", 4, |x, parameters, _, is_fused| {
        let [q, k, v] = [0, 1, 2].map(|number| parameters.heads(x, number));
        let inputs = attention::Inputs {
            q,
            k,
            v,
            bias: None,
            sinks: None,
            lengths: Lengths::default(),
        };
        let settings = attention::Settings::default();
        let key = AttentionKey {
            layout: HeadLayout::Bsnd,
            ..AttentionKey::CAUSAL
        };
        vec![rows(match is_fused {
            true => attention::fused(inputs, settings, key).expect("a kernel"),
            false => attention::reference(inputs, settings, key),
        })]
    }),
    ("experts", 4, |x, parameters, others, is_fused| {
        let [gate, up, down] = others.experts.clone().map(Projection::new);
        let weights = Weights::separate(gate, up, down);
        let x = parameters.projected(x, 0);
        let routing = Tensor::ones([TOKENS, 1], &x.device());
        let chosen = others.chosen.clone();
        let key = MoeExpertsKey {
            projections: Projections::Separate,
            ..MoeExpertsKey::QWEN3
        };
        vec![match is_fused {
            true => experts::fused(x, chosen, routing, weights, None, key).expect("a kernel"),
            false => experts::reference(x, chosen, routing, weights, None, key),
        }]
    }),
    ("cross-entropy", 5, |x, parameters, others, is_fused| {
        let hidden = parameters.projected(x, 0);
        let inputs = cross_entropy::Inputs {
            logits: hidden.matmul(others.classes.clone().transpose()),
            targets: others.targets.clone(),
        };
        let settings = cross_entropy::Settings::default();
        let key = CrossEntropyKey::MEAN;
        let loss = match is_fused {
            true => cross_entropy::fused(inputs, settings, key).expect("a kernel"),
            false => cross_entropy::reference(inputs, settings, key),
        };
        vec![loss.unsqueeze()]
    }),
    (
        "linear cross-entropy",
        6,
        |x, parameters, others, is_fused| {
            let inputs = linear_cross_entropy::Inputs {
                hidden: parameters.projected(x, 0),
                weight: others.classes.clone(),
                bias: None,
                targets: others.targets.clone(),
            };
            let settings = linear_cross_entropy::Settings::default();
            let key = LinearCrossEntropyKey::MEAN;
            let loss = match is_fused {
                true => linear_cross_entropy::fused(inputs, settings, key).expect("a kernel"),
                false => linear_cross_entropy::reference(inputs, settings, key),
            };
            vec![loss.unsqueeze()]
        },
    ),
];

fn rows(heads: Tensor<4>) -> Tensor<2> {
    heads.reshape([TOKENS, WIDTH])
}

/// With gradient checkpointing, a fused operation keeps no more than its reference: Burn computes what is cheap again, and
/// so do the kernels. The gradients are the same.
#[test]
fn a_fused_operation_keeps_no_more_than_its_reference() {
    let plain = Device::flex().autodiff();
    let checkpointing = plain.clone().gradient_checkpointing();
    for (name, most, case) in CASES {
        let mut gradients = Vec::new();
        for (device, is_checkpointing) in [(&plain, false), (&checkpointing, true)] {
            device.seed(1);
            let x: Tensor<2> =
                Tensor::random([TOKENS, WIDTH], Distribution::Uniform(-1.0, 1.0), device);
            let (parameters, others) = (Parameters::new(device), Others::new(device));
            let mut run = |is_fused| {
                let since = Since::now();
                let results = case(&x, &parameters, &others, is_fused);
                // The last product needs the results for its gradient.
                let last = |y: Tensor<2>| match y.dims()[1] == WIDTH {
                    true => y.matmul(parameters.0[3].clone()),
                    false => y,
                };
                let losses = results.into_iter().map(|y| last(y).sum());
                let loss = losses.reduce(|sum, loss| sum + loss).expect("a result");
                let kept = since.held();
                let grads = loss.backward();
                gradients.push(parameters.0[0].grad(&grads).expect("a gradient"));
                kept
            };
            // The first calls create threads and their buffers.
            run(true);
            run(false);
            let [fused, reference] = [run(true), run(false)];
            println!("{name}, checkpointing {is_checkpointing}: {fused} and {reference} bytes");
            if is_checkpointing {
                assert!(fused <= reference + BESIDE, "{name}: {fused}, {reference}");
                assert!(fused <= most * ROWS + BESIDE, "{name}: {fused}");
            }
        }
        for gradient in &gradients {
            let numbers = |tensor: &Tensor<2>| tensor.to_data().iter::<f64>().collect::<Vec<_>>();
            let error = relative(&numbers(gradient), &numbers(&gradients[0]));
            assert!(error < 1e-5, "{name}: {error:e}");
        }
    }
}
