//! Compares operations over CANN's operators with Hugging Face transformers' modules, by numbers that those computed.
//!
//! A result passes if its distance from the exact one, in the L2 norm, is at most twice the module's, or three times
//! with a gate. A composition rounds between operators: up to four times where a module rounds once.

use crate::npu::*;
use crate::passes::{forward, given};
use crate::support::Fixture;
use burn::tensor::IntDType;
use burn_cann::{DType, Stream, Tensor};
use kernels_runtime::npu::{OnNpu, Seen};
use kernels_runtime::ops::add_rms_norm::AddRmsNorm;
use kernels_runtime::ops::fused::{Backward, Given};
use kernels_runtime::ops::layer_norm::LayerNorm;
use kernels_runtime::ops::moe::experts::{self, Experts};
use kernels_runtime::ops::moe::router::{self, Router, Routing};
use kernels_runtime::ops::rms_norm::RmsNorm;
use kernels_runtime::ops::{add_rms_norm, glu, layer_norm, rms_norm, rope};
use kernels_runtime::semantics::*;

/// Returns the largest allowed distance from the exact result, relative to the module's.
fn slack(file_of_gates: bool) -> f64 {
    if file_of_gates { 3.0 } else { 2.0 }
}

/// A case of a fixture on a device.
struct Case<'a> {
    fixture: &'a Fixture,
    name: String,
    stream: &'a Stream,
}

impl Case<'_> {
    fn dtype(&self) -> DType {
        match self.name.rsplit('.').next() {
            Some("f32") => DType::F32,
            Some("f16") => DType::F16,
            Some("bf16") => DType::BF16,
            other => panic!("unknown type {other:?}"),
        }
    }

    fn put(&self, dtype: DType, input: &str, shape: &[usize]) -> Tensor {
        let values = self.fixture.values(&format!("{}.{input}", self.name));
        put_values(self.stream, dtype, &values, shape, Lie::Contiguous).0
    }

    /// Returns an input in the case's dtype, `[rows, n]`.
    fn rows(&self, input: &str, n: usize) -> Tensor {
        let values = self.fixture.values(&format!("{}.{input}", self.name));
        self.put(self.dtype(), input, &[values.len() / n, n])
    }

    fn vector(&self, input: &str) -> Tensor {
        let values = self.fixture.values(&format!("{}.{input}", self.name));
        self.put(self.dtype(), input, &[values.len()])
    }

    #[track_caller]
    fn near(&self, found: &Tensor, module: &str, exact: &str, result: &str) {
        let exact = self
            .fixture
            .values(&format!("{}.{exact}.{result}", self.name));
        let theirs = self
            .fixture
            .values(&format!("{}.{module}.{result}", self.name));
        let ours = crate::support::relative_error(&read(self.stream, found), &exact);
        let theirs = crate::support::relative_error(&theirs, &exact);
        let slack = slack(self.fixture.has(&format!("{}.gate", self.name)));
        assert!(
            ours <= slack * theirs + 2e-7,
            "{} {module} {result}: {ours:.2e} from the exact result, the module {theirs:.2e}",
            self.name,
        );
    }
}

/// Runs `each` for the cases of a fixture that have this input.
fn cases(file: &str, input: &str, each: impl Fn(&Case<'_>)) {
    on_the_emulator(|_, stream| {
        let fixture = Fixture::open(file);
        let names = fixture.cases(input);
        assert!(!names.is_empty());
        for name in names {
            each(&Case {
                fixture: &fixture,
                name,
                stream,
            });
        }
    });
}

/// Returns the last number of the shape in a case's name.
fn width(case: &str) -> usize {
    let shape = case
        .split('.')
        .find(|part| part.contains('x') && part.starts_with(char::is_numeric));
    shape.unwrap().rsplit('x').next().unwrap().parse().unwrap()
}

#[test]
fn norms() {
    cases("rmsnorm", "x", |case| {
        let n = width(&case.name);
        let eps = if [33, 1040].contains(&n) { 1e-5 } else { 1e-6 };
        let settings = rms_norm::Settings {
            eps,
            group_size: None,
        };
        let gemma = RmsNormKey {
            rounding: Rounding::Gemma,
            ..RmsNormKey::LLAMA
        };
        let bare = RmsNormKey {
            scale: Scale::None,
            ..gemma
        };
        for (module, exact, weight, key) in [
            ("llama", "ref.weight", Some("w"), RmsNormKey::LLAMA),
            ("olmo2", "ref.weight", Some("w"), gemma),
            ("gemma3n", "ref.weight", Some("w"), gemma),
            ("gemma2", "ref.one_plus", Some("w0"), RmsNormKey::GEMMA),
            ("llama4_l2", "ref.none", None, bare),
        ] {
            let x = Seen(case.rows("x", n));
            let given = weight.map(|name| Seen(case.vector(name)));
            let operands = rms_norm::Operands::new(x, given, None, settings, key).unwrap();
            let made = RmsNorm::forward(case.stream, &operands, None).unwrap();
            let dy = Seen(case.rows("dy", n));
            let given = Given::new(dy).saving(made.saved.into_iter().map(Seen));
            let wanted = vec![true; operands.tensors().count()];
            let backward = Backward::<RmsNorm, _>::new(operands, given, &wanted).unwrap();
            let found = RmsNorm::backward(case.stream, &backward).unwrap();
            case.near(&made.y, module, exact, "y");
            case.near(&found.x.unwrap(), module, exact, "dx");
            if let Some(d_weight) = &found.weight {
                case.near(d_weight, module, exact, "dw");
            }
        }
    });
}

#[test]
fn gated_norms() {
    cases("rmsnorm_gated", "x", |case| {
        let n = width(&case.name);
        let module = case.name.split('.').next().unwrap();
        let (gating, rounding, groups) = match module {
            "qwen3_next" => (Gating::AfterNorm, Rounding::Llama, 1),
            "mamba2" => (Gating::BeforeNorm, Rounding::Llama, 1),
            "zamba2" => (Gating::BeforeNorm, Rounding::Llama, 4),
            "falcon_h1_after" => (Gating::AfterNorm, Rounding::Gemma, 2),
            "falcon_h1_before" => (Gating::BeforeNorm, Rounding::Gemma, 2),
            other => panic!("unknown module {other}"),
        };
        let key = RmsNormKey {
            gating,
            rounding,
            groups: if groups > 1 {
                Groups::Many
            } else {
                Groups::One
            },
            ..RmsNormKey::LLAMA
        };
        let group_size = (groups > 1).then(|| n / groups);
        let settings = rms_norm::Settings {
            eps: 1e-6,
            group_size,
        };
        let [x, gate, dy] = ["x", "gate", "dy"].map(|name| Seen(case.rows(name, n)));
        let weight = Some(Seen(case.vector("weight")));
        let operands = rms_norm::Operands::new(x, weight, Some(gate), settings, key).unwrap();
        let made = RmsNorm::forward(case.stream, &operands, None).unwrap();
        let given = Given::new(dy).saving(made.saved.into_iter().map(Seen));
        let backward = Backward::<RmsNorm, _>::new(operands, given, &[true; 3]).unwrap();
        let found = RmsNorm::backward(case.stream, &backward).unwrap();
        case.near(&made.y, module, "ref", "y");
        case.near(&found.x.unwrap(), module, "ref", "dx");
        case.near(found.gate.as_ref().unwrap(), module, "ref", "dgate");
        case.near(found.weight.as_ref().unwrap(), module, "ref", "dw");
    });
}

/// The sum equals that of transformers bit for bit.
#[test]
fn sums_and_norms() {
    cases("add_rmsnorm", "x", |case| {
        let n = width(&case.name);
        let module = case.name.split('.').next().unwrap();
        let norm = sum_of(module);
        let settings = rms_norm::Settings {
            eps: 1e-6,
            group_size: (norm.groups == Groups::Many).then_some(n / 4),
        };
        let [x, residual, dy] = ["x", "residual", "dy"].map(|name| Seen(case.rows(name, n)));
        let weight = Some(Seen(case.vector("weight")));
        let gate = (norm.gating != Gating::None).then(|| Seen(case.rows("gate", n)));
        let key = AddRmsNormKey::of_norm(norm);
        let operands =
            add_rms_norm::Operands::new(x, residual, weight.clone(), gate.clone(), settings, key);
        let found = AddRmsNorm::forward(case.stream, &operands.unwrap(), None).unwrap();
        case.near(&found.y, module, "ref", "y");
        let sums = case.fixture.values(&format!("{}.{module}.sum", case.name));
        let sum = &found.others[0];
        assert_eq!(read(case.stream, sum), sums, "{}", case.name);
        let sum = Seen(sum.clone());
        let wanted = &[true; 3][..2 + usize::from(gate.is_some())];
        let norm = rms_norm::Operands::new(sum, weight, gate, settings, norm).unwrap();
        let given = Given::new(dy).saving(found.saved.into_iter().map(Seen));
        let norm = Backward::<RmsNorm, _>::new(norm, given, wanted).unwrap();
        let gradients = RmsNorm::backward(case.stream, &norm).unwrap();
        case.near(&gradients.weight.unwrap(), module, "ref", "d_weight");
    });
}

/// Returns the norm of a module of sums.
fn sum_of(module: &str) -> RmsNormKey {
    let llama = RmsNormKey::LLAMA;
    let gated = |gating, groups| RmsNormKey {
        gating,
        groups,
        ..llama
    };
    match module {
        "llama" => llama,
        "olmo2" => RmsNormKey {
            rounding: Rounding::Gemma,
            ..llama
        },
        "gemma2" => RmsNormKey::GEMMA,
        "qwen3_next" => gated(Gating::AfterNorm, Groups::One),
        "zamba2" => gated(Gating::BeforeNorm, Groups::Many),
        other => panic!("unknown module {other}"),
    }
}

#[test]
fn layer_norms() {
    cases("layernorm", "x", |case| {
        let n = width(&case.name);
        let module = case.name.split('.').next().unwrap();
        let shifted = module == "torch";
        let key = match shifted {
            true => LayerNormKey::GPT2,
            false => LayerNormKey::COHERE,
        };
        let [x, dy] = ["x", "dy"].map(|name| case.rows(name, n));
        let weight = Seen(case.vector("weight"));
        let bias = shifted.then(|| Seen(case.vector("bias")));
        let settings = layer_norm::Settings { eps: 1e-5 };
        let operands = layer_norm::Operands::new(Seen(x), weight, bias, settings, key).unwrap();
        let found = forward::<LayerNorm>(case.stream, &operands).unwrap();
        case.near(&found.y, module, "ref", "y");
        let wanted = &[true; 3][..2 + usize::from(shifted)];
        let operands = given::<LayerNorm, _>(operands, dy, found.saved, wanted).unwrap();
        let gradients = LayerNorm::backward(case.stream, &operands).unwrap();
        case.near(&gradients.x.unwrap(), module, "ref", "d_x");
        case.near(&gradients.weight.unwrap(), module, "ref", "d_weight");
        assert_eq!(gradients.bias.is_some(), shifted);
        if let Some(bias) = &gradients.bias {
            case.near(bias, module, "ref", "d_bias");
        }
    });
}

#[test]
fn gated_linear_units() {
    cases("glu", "b", |case| {
        let n = width(&case.name);
        let [gate, up, dy] = ["a", "b", "dy"].map(|name| Seen(case.rows(name, n)));
        let two = glu::Projected::Separate { gate, up };
        let two =
            glu::Operands::of_projected(two, glu::Settings::default(), GluKey::SWIGLU).unwrap();
        let y = glu::npu::forward(case.stream, &two).unwrap();
        let found = glu::npu::backward(case.stream, &two.backward(dy).unwrap()).unwrap();
        let glu::Projected::Separate { gate, up } = found else {
            panic!("two of two")
        };
        case.near(&y, "silu", "ref.silu", "y");
        case.near(&gate, "silu", "ref.silu", "da");
        case.near(&up, "silu", "ref.silu", "db");
    });
}

#[test]
fn rotary_embeddings() {
    cases("rope", "q", |case| {
        let kind = case.name.split('.').next().unwrap();
        let numbers = |letters: &str| -> Vec<usize> {
            let sizes = case.name.split('.').nth(1).unwrap();
            sizes
                .split(|c: char| letters.contains(c))
                .filter(|part| !part.is_empty())
                .map(|part| part.parse().unwrap())
                .collect()
        };
        let [b, heads, key_heads, s, d, rotated] = numbers("bhksdr")[..] else {
            panic!("{} has no sizes", case.name)
        };
        let key = rope_key(kind, rotated < d);
        let table = if key.table == TableLayout::Pairs {
            rotated / 2
        } else {
            rotated
        };
        let tables = |name: &str| {
            let values = case.fixture.values(&format!("{}.{name}", case.name));
            let shape = [values.len() / (s * table), s, table];
            let wide =
                kind == "rotate_half_f32_table_olmo2" || kind == "complex_interleaved_llama4";
            case.put(if wide { DType::F32 } else { case.dtype() }, name, &shape)
        };
        let (cos, sin) = (tables("cos"), tables("sin"));
        for (name, heads) in [("q", heads), ("k", key_heads)] {
            let shape = match key.layout {
                HeadLayout::Bnsd => [b, heads, s, d],
                HeadLayout::Bsnd => [b, s, heads, d],
            };
            let x = case.put(case.dtype(), name, &shape);
            let dy = case.put(case.dtype(), &format!("d_{name}_out"), &shape);
            let [x, dy] = [x, dy].map(|x| {
                let (cos, sin) = (Seen(cos.clone()), Seen(sin.clone()));
                rope::Operands::new(Seen(x), cos, sin, key).unwrap()
            });
            let y = rope::npu::forward(case.stream, &x).unwrap();
            let dx = rope::npu::backward(case.stream, &dy).unwrap();
            case.near(&y, "hf", "ref", &format!("{name}_out"));
            case.near(&dx, "hf", "ref", &format!("d_{name}"));
        }
    });
}

fn rope_key(kind: &str, partial: bool) -> RopeKey {
    let width = if partial {
        RotaryWidth::Partial
    } else {
        RotaryWidth::Full
    };
    let llama = RopeKey {
        width,
        ..RopeKey::LLAMA
    };
    match kind {
        "rotate_half" | "partial_rotate_half" | "rotate_half_f32_table_olmo2" => llama,
        "half_table_gpt_oss" => RopeKey {
            table: TableLayout::Pairs,
            ..llama
        },
        "interleaved_glm4" => RopeKey {
            style: RopeStyle::Interleaved,
            ..llama
        },
        "interleaved_to_half_dsv3" => RopeKey {
            style: RopeStyle::InterleavedToHalf,
            ..llama
        },
        "complex_interleaved_llama4" => RopeKey {
            style: RopeStyle::Interleaved,
            table: TableLayout::Pairs,
            layout: HeadLayout::Bsnd,
            ..llama
        },
        other => panic!("unknown module {other}"),
    }
}

#[test]
fn experts_of_qwen3_and_gpt_oss() {
    cases("experts", "x", |case| {
        let gpt_oss = case.name.starts_with("gpt_oss.");
        assert!(gpt_oss || case.name.starts_with("qwen3_moe."));
        let ints = |name: &str| -> Vec<i64> {
            let values = case.fixture.values(&format!("{}.{name}", case.name));
            values.into_iter().map(|value| value as i64).collect()
        };
        let indices = ints("indices");
        let x = case.rows("x", 32);
        let tokens = x.shape()[0];
        let k = indices.len() / tokens;
        let dtype = case.dtype();
        let indices = Seen(integers(case.stream, DType::I64, &indices, &[tokens, k]));
        let (key, limit, shapes) = match gpt_oss {
            true => (
                MoeExpertsKey::GPT_OSS,
                Some(7.0),
                [[8, 32, 20], [8, 10, 32]],
            ),
            false => (MoeExpertsKey::QWEN3, None, [[8, 20, 32], [8, 32, 10]]),
        };
        let put = |name: &str, shape: &[usize]| vec![Seen(case.put(dtype, name, shape))];
        let bias = |name: &str, features| match gpt_oss {
            true => put(name, &[8, features]),
            false => vec![],
        };
        let weights = vec![
            put("param.gate_up_proj", &shapes[0]),
            vec![],
            put("param.down_proj", &shapes[1]),
            bias("param.gate_up_proj_bias", 20),
            vec![],
            bias("param.down_proj_bias", 32),
        ];
        let settings = experts::Settings { key, limit };
        let wanted = experts::Each {
            x: true,
            routing: true,
            weights: weights
                .iter()
                .map(|group| vec![true; group.len()])
                .collect(),
        };
        let routing = Seen(case.rows("weights", k));
        let operands = experts::Operands::new(Seen(x), routing, weights, indices, settings);
        let operands = operands.unwrap();
        let made = Experts::forward(case.stream, &operands, Some(&wanted)).unwrap();
        let y = made.y;
        let given = Given {
            others: Default::default(),
            dy: Seen(case.rows("dy", 32)),
            saved: made.saved.into_iter().map(Seen).collect(),
            ints: [].into_iter().collect(),
        };
        let wanted = vec![true; operands.floats().count()];
        let operands = Backward::<Experts, _>::new(operands, given, &wanted).unwrap();
        let found = Experts::backward(case.stream, &operands).unwrap();
        if gpt_oss {
            for (group, name) in [(3, "d_gate_up_proj_bias"), (5, "d_down_proj_bias")] {
                let gradient = found.weights[group][0].as_ref().unwrap();
                case.near(gradient, "hf", "ref", name);
            }
        }
        case.near(&y, "hf", "ref", "y");
        case.near(found.x.as_ref().unwrap(), "hf", "ref", "dx");
        case.near(found.routing.as_ref().unwrap(), "hf", "ref", "d_weights");
        case.near(
            found.weights[0][0].as_ref().unwrap(),
            "hf",
            "ref",
            "d_gate_up_proj",
        );
        case.near(
            found.weights[2][0].as_ref().unwrap(),
            "hf",
            "ref",
            "d_down_proj",
        );
    });
}

/// Compares the choices and weights of transformers' routers, computed from their logits.
#[test]
fn routers() {
    cases("routers", "router_logits", |case| {
        let module = case.name.split('.').next().unwrap();
        let key = match module {
            "qwen2_moe_nonorm" => RouterKey::QWEN2_MOE,
            "qwen3_moe_norm" => RouterKey::QWEN3_MOE,
            "mixtral" => RouterKey::MIXTRAL,
            "gpt_oss" => RouterKey::GPT_OSS,
            // The scores of the others have a scale, a correction or groups, or are not in the fixture.
            _ => return,
        };
        let routing = Routing::new(key, 16, 4).unwrap();
        let logits = Seen(case.rows("router_logits", 16));
        let operands = router::Operands::new(logits, None, routing, IntDType::I64).unwrap();
        let made = Router::forward(case.stream, &operands, None).unwrap();
        let (weights, indices) = (made.y, &made.ints[0]);
        let theirs = |name: &str| case.fixture.values(&format!("{}.{name}", case.name));
        // Among equal logits, which are common in half types, a module may choose any expert.
        let values = theirs("router_logits");
        let chosen = |indices: &[f64]| -> Vec<f64> {
            let slots = indices.iter().enumerate();
            slots
                .map(|(slot, expert)| values[slot / 4 * 16 + *expert as usize])
                .collect()
        };
        let ours = read(case.stream, indices);
        assert_eq!(chosen(&ours), chosen(&theirs("indices")), "{}", case.name);
        // The module rounds where CANN does, or computes in f32.
        assert_close(
            &case.name,
            &read(case.stream, &weights),
            &theirs("weights"),
            case.dtype(),
        );
    });
}
