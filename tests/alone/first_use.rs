//! Tests mistakes of new users that compile. The first use finds them in every build, without any setting for
//! verification. `cargo test --release` runs the same tests.

use crate::counting::alone;
use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig, RmsNormConfig};
use burn::tensor::activation::{gelu, silu};
use burn::tensor::{Device, Distribution, FloatDType, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::report;
use burn_kernels::{live, nn, policy};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Declares a gated MLP with a body of its own.
macro_rules! mlp {
    ($name:ident, |$gate:ident, $up:ident| $hidden:expr) => {
        #[derive(Module, Debug)]
        struct $name {
            gate_proj: Linear,
            up_proj: Linear,
            down_proj: Linear,
        }

        #[fused_kernel("npu_fused_swiglu")]
        impl $name {
            fn forward(&self, x: Tensor<3>) -> Tensor<3> {
                let $gate = self.gate_proj.forward(x.clone());
                let $up = self.up_proj.forward(x);
                self.down_proj.forward($hidden)
            }
        }

        impl $name {
            fn new(device: &Device, dtype: FloatDType) -> Self {
                let linear = |inputs, outputs| {
                    let layer = LinearConfig::new(inputs, outputs).with_bias(false);
                    let mut layer = layer.init(device);
                    let weight = layer.weight.val().cast(dtype);
                    layer.weight = Param::from_tensor(weight.detach());
                    layer
                };
                Self {
                    gate_proj: linear(32, 80),
                    up_proj: linear(32, 80),
                    down_proj: linear(80, 32),
                }
            }
        }
    };
}

mlp!(Mlp, |gate, up| silu(gate) * up);
mlp!(MlpSwapped, |gate, up| gate * silu(up));
mlp!(MlpSwappedHalf, |gate, up| gate * silu(up));
mlp!(MlpOfGelu, |gate, up| bent(gate) * up);

/// A gated MLP whose body does not train its last projection.
#[derive(Module, Debug)]
struct MlpFrozen {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

#[fused_kernel("npu_fused_swiglu")]
impl MlpFrozen {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let hidden = silu(self.gate_proj.forward(x.clone())) * self.up_proj.forward(x);
        hidden.matmul(
            self.down_proj
                .weight
                .val()
                .detach()
                .set_require_grad(false)
                .unsqueeze(),
        )
    }
}

/// A gated MLP whose body trains its last projection twice as fast: its results and the gradient of its input are right.
#[derive(Module, Debug)]
struct MlpHasty {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

#[fused_kernel("npu_fused_swiglu")]
impl MlpHasty {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let hidden = silu(self.gate_proj.forward(x.clone())) * self.up_proj.forward(x);
        let weight = self.down_proj.weight.val();
        let fixed = weight.clone().detach();
        hidden.matmul((weight * 2.0 - fixed).unsqueeze())
    }
}

/// Calls `gelu`. A body that calls it directly does not compile.
fn bent(gate: Tensor<3>) -> Tensor<3> {
    gelu(gate)
}

#[fused_kernel("npu_fused_swiglu")]
fn unit_swapped(gate: Tensor<3>, up: Tensor<3>) -> Tensor<3> {
    gate * silu(up)
}

/// Declares an RMSNorm with a body of its own.
macro_rules! norm {
    ($name:ident($($setting:tt)*), |$x:ident, $weight:ident, $eps:ident| $y:expr) => {
        #[derive(Module, Debug)]
        struct $name {
            weight: Param<Tensor<1>>,
            variance_epsilon: f64,
        }

        #[fused_kernel("npu_fused_rmsnorm" $($setting)*)]
        impl $name {
            fn forward(&self, $x: Tensor<3>) -> Tensor<3> {
                let ($weight, $eps) = (self.weight.val().unsqueeze(), self.variance_epsilon);
                $y
            }
        }

        impl $name {
            fn new(device: &Device, dtype: FloatDType) -> Self {
                let weight = random([64], device) * 0.3 + 1.0;
                Self {
                    weight: Param::from_tensor(weight.cast(dtype).detach()),
                    variance_epsilon: 1e-6,
                }
            }
        }
    };
}

/// Returns `x̂` in f32.
fn normed(x: Tensor<3>, eps: f64) -> Tensor<3> {
    let x = x.cast(FloatDType::F32);
    let mean_square = x.clone().square().mean_dim(2);
    x / (mean_square + eps).sqrt()
}

/// Rounds before the weight, as Llama does.
fn llama(x: Tensor<3>, weight: Tensor<3>, eps: f64) -> Tensor<3> {
    let dtype = FloatDType::from(x.dtype());
    normed(x, eps).cast(dtype) * weight
}

/// Rounds after the weight, as Gemma does.
fn gemma(x: Tensor<3>, weight: Tensor<3>, eps: f64) -> Tensor<3> {
    let dtype = FloatDType::from(x.dtype());
    (normed(x, eps) * weight.cast(FloatDType::F32)).cast(dtype)
}

norm!(Norm(), |x, weight, eps| llama(x, weight, eps));
norm!(NormOfGemma(, rounding = gemma), |x, weight, eps| gemma(x, weight, eps));
norm!(NormOtherEps(), |x, weight, eps| llama(
    x,
    weight,
    eps * 10.0
));
norm!(NormOfOffset(), |x, weight, eps| llama(x, weight + 1.0, eps));
norm!(NormRoundedLate(), |x, weight, eps| gemma(x, weight, eps));
norm!(NormRoundedEarly(, rounding = gemma), |x, weight, eps| llama(x, weight, eps));

/// Rotates neighbours, while the attribute says halves.
#[fused_kernel("npu_fused_rope", style = half)]
fn rotate_neighbours(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let turn = |x: Tensor<4>| {
        let [b, h, s, d] = x.dims();
        let pairs = x.clone().reshape([b, h, s, d / 2, 2]);
        let (x1, x2) = (pairs.clone().narrow(4, 0, 1), pairs.clone().narrow(4, 1, 1));
        let turned = Tensor::cat(vec![-x2, x1], 4).reshape([b, h, s, d]);
        x * cos.clone().unsqueeze_dim(1) + turned * sin.clone().unsqueeze_dim(1)
    };
    (turn(q), turn(k))
}

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

/// Returns the message of the first use.
fn said<T>(call: impl FnOnce() -> T) -> String {
    live::reset();
    let panic = catch_unwind(AssertUnwindSafe(call)).err();
    let panic = panic.expect("the first use is refused");
    let said = *panic.downcast::<String>().expect("a message");
    assert!(said.contains("odd one out") && said.contains("BURN_KERNELS_VERIFY=first,-"));
    assert!(said.contains("rows from the first to the last"), "{said}");
    said
}

#[test]
fn mistakes_of_new_users_are_found() {
    let _alone = alone();
    let (f32, bf16, f16) = (FloatDType::F32, FloatDType::BF16, FloatDType::F16);
    for device in [Device::flex(), Device::flex().autodiff()] {
        device.seed(20);
        // The inputs are as small as in an untrained model: SiLU is nearly a straight line there.
        let x = |dtype| random([2, 9, 32], &device).cast(dtype) * 0.02;
        let swapped = said(|| MlpSwapped::new(&device, f32).forward(x(f32)));
        assert!(swapped.contains("MlpSwapped::forward failed: the annotated body"));
        said(|| MlpSwappedHalf::new(&device, bf16).forward(x(bf16)));
        if device.is_autodiff() {
            let Mlp {
                gate_proj,
                up_proj,
                down_proj,
            } = Mlp::new(&device, f32);
            let frozen = MlpFrozen {
                gate_proj,
                up_proj,
                down_proj,
            };
            let frozen = said(|| frozen.forward(x(f32)));
            assert!(frozen.contains("d_weight [80, 32] is missing"), "{frozen}");
            for dtype in [f32, bf16, f16] {
                let Mlp {
                    gate_proj,
                    up_proj,
                    down_proj,
                } = Mlp::new(&device, dtype);
                let hasty = MlpHasty {
                    gate_proj,
                    up_proj,
                    down_proj,
                };
                let hasty = said(|| hasty.forward(x(dtype)));
                assert!(hasty.contains("d_weight [80, 32]"), "{hasty}");
            }
        }
        // In bf16, a GELU of smaller inputs is within the rounding of SiLU.
        said(|| MlpOfGelu::new(&device, bf16).forward(x(bf16) * 4.0));
        for dtype in [f32, bf16, f16] {
            let operand = || random([3, 5, 24], &device).cast(dtype) * 0.01;
            said(|| unit_swapped(operand(), operand()));
        }

        let x = |dtype| random([3, 7, 64], &device).cast(dtype);
        for dtype in [f32, bf16, f16] {
            let other = said(|| NormOtherEps::new(&device, dtype).forward(x(dtype)));
            assert!(other.contains("are those of eps = 1e-5,"), "{other}");
            said(|| NormOfOffset::new(&device, dtype).forward(x(dtype)));
        }
        for dtype in [bf16, f16] {
            let late = said(|| NormRoundedLate::new(&device, dtype).forward(x(dtype)));
            assert!(late.contains("in the order of `gemma`"), "{late}");
            let early = said(|| NormRoundedEarly::new(&device, dtype).forward(x(dtype)));
            assert!(early.contains("in the order of `llama`"), "{early}");
        }

        let angles = random([1, 6, 8], &device) * 3.0;
        let angles = Tensor::cat(vec![angles.clone(), angles], 2);
        let rotated = said(|| {
            let (q, k) = (
                random([2, 4, 6, 16], &device),
                random([2, 2, 6, 16], &device),
            );
            rotate_neighbours(q, k, angles.clone().cos(), angles.clone().sin())
        });
        assert!(rotated.contains("rope(style=half)"), "{rotated}");
    }
    right_bodies_pass();
}

fn right_bodies_pass() {
    for device in [Device::flex(), Device::flex().autodiff()] {
        for dtype in [FloatDType::F32, FloatDType::BF16, FloatDType::F16] {
            for size in [1.0, 0.02] {
                live::reset();
                let x = |shape| random(shape, &device).cast(dtype) * size;
                Mlp::new(&device, dtype).forward(x([2, 9, 32]));
                Norm::new(&device, dtype).forward(x([3, 7, 64]));
                NormOfGemma::new(&device, dtype).forward(x([3, 7, 64]));
                let checked = live::report().rows;
                assert_eq!(checked.len(), 3, "{}", live::report());
                for row in checked {
                    assert_eq!((row.checked, row.skipped), (1, 0), "{row:?}");
                }
            }
        }
    }
}

/// The activation of a generic layer.
trait Bend {
    fn bend(gate: Tensor<2>) -> Tensor<2>;
}

enum Right {}

enum Wrong {}

impl Bend for Right {
    fn bend(gate: Tensor<2>) -> Tensor<2> {
        silu(gate)
    }
}

impl Bend for Wrong {
    fn bend(gate: Tensor<2>) -> Tensor<2> {
        gelu(gate)
    }
}

struct Unit<T>(PhantomData<T>);

impl<T: Bend> Unit<T> {
    #[fused_kernel("npu_fused_swiglu")]
    fn unit(&self, gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
        T::bend(gate) * up
    }
}

#[fused_kernel("npu_fused_swiglu")]
fn bent_by<const WRONG: bool>(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    let gate = match WRONG {
        true => Wrong::bend(gate),
        false => Right::bend(gate),
    };
    gate * up
}

/// A generic item is one site, whose body may be right for one type and wrong for another.
#[test]
fn each_instance_of_a_generic_body_is_checked() {
    let _alone = alone();
    live::reset();
    let x = || random([3, 24], &Device::flex());
    for _ in 0..2 {
        Unit::<Right>(PhantomData).unit(x(), x());
        bent_by::<false>(x(), x());
    }
    let rows = live::report().rows;
    let checked: Vec<_> = rows.iter().map(|row| row.checked).collect();
    assert_eq!(checked, [1, 1], "{}", live::report());
    type Call = fn(Tensor<2>, Tensor<2>) -> Tensor<2>;
    let wrong: Call = |gate, up| Unit::<Wrong>(PhantomData).unit(gate, up);
    for call in [wrong, bent_by::<true>] {
        let panic = catch_unwind(AssertUnwindSafe(|| call(x(), x())));
        let panic = panic.expect_err("the first use of this instance is refused");
        let said = *panic.downcast::<String>().expect("a message");
        assert!(said.contains("failed: the annotated body"), "{said}");
    }
    live::reset();
}

#[derive(Module, Debug)]
struct Plain {
    weight: Param<Tensor<1>>,
}

#[derive(Module, Debug)]
struct Outer<T: Module> {
    weight: Param<Tensor<1>>,
    inner: T,
}

impl Plain {
    #[fused_kernel("npu_fused_rmsnorm", eps = 1e-6)]
    fn norm(&self, x: Tensor<2>) -> Tensor<2> {
        let mean_square = x.clone().square().mean_dim(1);
        x / (mean_square + 1e-6).sqrt() * self.weight.val().unsqueeze()
    }
}

impl<T: Module> Outer<T> {
    #[fused_kernel("npu_fused_rmsnorm", eps = 1e-6)]
    fn norm(&self, x: Tensor<2>) -> Tensor<2> {
        let mean_square = x.clone().square().mean_dim(1);
        x / (mean_square + 1e-6).sqrt() * self.weight.val().unsqueeze()
    }
}

/// Returns a layer of each type, with weights of four elements.
fn layers() -> (Plain, Outer<Plain>) {
    let weight = || Param::from_tensor(Tensor::ones([4], &Device::flex()));
    let a = || Plain { weight: weight() };
    let b = Outer {
        weight: weight(),
        inner: a(),
    };
    (a(), b)
}

/// The name of a site.
const PLAIN: &str = concat!(module_path!(), "::Plain::norm");

#[test]
fn methods_of_two_types_are_two_sites() {
    let _alone = alone();
    report::reset();
    let (a, b) = layers();
    let x = || Tensor::<2>::ones([3, 4], &Device::flex());
    let policy = "all,-Plain::norm".parse().expect("a policy with a pattern");
    let _scope = policy::scope(policy);
    let _ = (a.norm(x()), b.norm(x()), b.inner.norm(x()));
    let report = report::report();
    let paths = |site: &str| -> Vec<(bool, u64)> {
        let rows = report.rows.iter().filter(|row| row.site == site);
        rows.filter_map(|row| Some((row.call.as_ref()?.implementation.is_some(), row.calls)))
            .collect()
    };
    assert_eq!(paths(PLAIN), [(false, 2)]);
    assert_eq!(paths(concat!(module_path!(), "::Outer::norm")), [(true, 1)]);

    // A table of a plan has this program's sites, and layers of the library only if the program calls them.
    let plan = burn_kernels::dispatch::plan(&Device::flex()).expect("a plan");
    let table = plan.to_string();
    assert!(table.contains("::Plain::norm"), "{table}");
    assert!(!table.contains("burn_kernels::nn"), "{table}");
    assert!(table.contains("`{:#}` lists them"), "{table}");
    assert!(format!("{plan:#}").contains("burn_kernels::nn"));
}

#[test]
fn operands_that_do_not_fit_name_the_layer_and_the_line_of_the_call() {
    let _alone = alone();
    let (a, _) = layers();
    let wide = Tensor::<2>::ones([3, 5], &Device::flex());
    let line = line!() + 1;
    let panic = catch_unwind(AssertUnwindSafe(|| a.norm(wide))).expect_err("5 is not 4");
    let said = panic.downcast_ref::<String>().expect("a sentence");
    let expected = format!("called at {}:{line}:", file!());
    assert!(said.contains(&format!("in `{PLAIN}`")), "{said}");
    assert!(said.contains(&expected), "{said}");
}

#[fused_kernel("npu_fused_attention", part = layer)]
#[derive(Module, Debug)]
struct Attention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    num_heads: usize,
    num_kv_heads: usize,
}

trait Layer {
    fn forward(&self, x: Tensor<3>) -> Tensor<3>;
}

/// A gated MLP whose body stays where it is written.
#[derive(Module, Debug)]
struct InTrait {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

#[fused_kernel("npu_fused_swiglu")]
impl Layer for InTrait {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let gate = silu(self.gate_proj.forward(x.clone()));
        self.down_proj.forward(gate * self.up_proj.forward(x))
    }
}

/// One layer of each kind, whose parameters threads share.
struct Shared {
    attention: Attention,
    mlp: Mlp,
    in_trait: InTrait,
    own_norm: Norm,
    norm: nn::RmsNorm,
    one: nn::Linear,
    two: nn::Linear,
}

impl Shared {
    fn new(device: &Device) -> Self {
        let linear = |outputs| LinearConfig::new(64, outputs).with_bias(false).init(device);
        let Mlp {
            gate_proj,
            up_proj,
            down_proj,
        } = Mlp::new(device, FloatDType::F32);
        Self {
            attention: Attention {
                q_proj: linear(64),
                k_proj: linear(32),
                v_proj: linear(32),
                o_proj: linear(64),
                num_heads: 4,
                num_kv_heads: 2,
            },
            mlp: Mlp::new(device, FloatDType::F32),
            in_trait: InTrait {
                gate_proj,
                up_proj,
                down_proj,
            },
            own_norm: Norm::new(device, FloatDType::F32),
            norm: RmsNormConfig::new(64).init(device).into(),
            one: linear(64).into(),
            two: LinearConfig::new(64, 64).init(device).into(),
        }
    }
}

/// Burn merges the graphs of threads that share a leaf, and may then let two of them wait for each other. It does so only
/// if something else went backward through the leaf before, which a check must not do.
#[test]
fn threads_that_train_one_model_never_wait_for_each_other() {
    type Forward = fn(&Shared, Tensor<3>) -> Tensor<3>;
    let kinds: [(&str, usize, Forward); 6] = [
        ("a sum of linear layers", 64, |m, x| {
            m.two.forward(x.clone()) + m.one.forward(x)
        }),
        ("attention", 64, |m, x| {
            m.attention.forward(m.attention.forward(x))
        }),
        ("a gated MLP", 32, |m, x| m.mlp.forward(m.mlp.forward(x))),
        ("a method of a trait", 32, |m, x| {
            m.in_trait.forward(x.clone()) + m.in_trait.forward(x)
        }),
        ("norms", 64, |m, x| {
            m.norm.forward(x.clone()) + m.own_norm.forward(x)
        }),
        ("all of them", 64, |m, x| {
            let y = m.attention.forward(m.norm.forward(x.clone())) + x;
            let y = m.two.forward(m.own_norm.forward(y.clone())) + m.one.forward(y);
            let [left, right] = [0, 32].map(|at| y.clone().narrow(2, at, 32));
            m.mlp.forward(left) + m.in_trait.forward(right)
        }),
    ];
    let (_alone, device) = (alone(), Device::flex().autodiff());
    for (name, width, forward) in kinds {
        let shared = Arc::new(Shared::new(&device));
        let loss = {
            let device = device.clone();
            move || {
                forward(&shared, random([2, 7, width], &device))
                    .square()
                    .mean()
            }
        };
        // The checks of the first calls are here.
        drop(loss().backward());
        let (done, all) = mpsc::channel();
        for thread in 0..4 {
            let (loss, done) = (loss.clone(), done.clone());
            std::thread::spawn(move || {
                for _ in 0..100 {
                    let loss = loss();
                    // One thread only watches the loss.
                    if thread > 0 {
                        drop(loss.backward());
                    }
                }
                done.send(()).expect("the test waits");
            });
        }
        for _ in 0..4 {
            let waited = all.recv_timeout(Duration::from_secs(60));
            assert!(waited.is_ok(), "{name}: the threads wait for each other");
        }
    }
}
