use crate::common::{assert_paths, assert_same, assert_site, device};
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Distribution, Int, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::policy::{Policy, scope};

// A function of its tensors, with what Burn's loss computes.
#[fused_kernel("npu_fused_cross_entropy")]
fn mean_loss(logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    let device = logits.device();
    CrossEntropyLossConfig::new()
        .init(&device)
        .forward(logits, targets)
}

// Numbers in the attribute, one of them negative, and a constant.
const SMOOTHING: f64 = 0.125;

#[fused_kernel("npu_fused_cross_entropy", reduction = none, ignore_index = -1, label_smoothing = SMOOTHING)]
fn each(logits: Tensor<2>, labels: Tensor<1, Int>) -> Tensor<1> {
    let ignored = labels.clone().equal_elem(-1);
    let classes = labels.mask_fill(ignored.clone(), 0);
    let logs = log_softmax(logits, 1);
    let chosen = logs.clone().gather(1, classes.unsqueeze_dim(1)) * (1.0 - SMOOTHING);
    let losses = -(chosen + logs.mean_dim(1) * SMOOTHING).squeeze_dim::<1>(1);
    losses.mask_fill(ignored, 0.0)
}

// A method whose numbers are fields, one of them a literal.
#[derive(Module, Debug)]
struct Capped {
    softcap: f64,
}

#[fused_kernel("npu_fused_cross_entropy", reduction = sum, cap = tanh, z_loss = 0.01, method = loss)]
impl Capped {
    fn loss(&self, logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
        let logits = (logits / self.softcap).tanh() * self.softcap;
        let lse = logits.clone().exp().sum_dim(1).log();
        let chosen = logits.gather(1, targets.unsqueeze_dim(1));
        (lse.clone() - chosen + lse.square() * 0.01).sum()
    }
}

// A struct of what belongs to the loss itself: the macro writes the rest.
#[fused_kernel("npu_fused_cross_entropy", label_smoothing = 0.1)]
#[derive(Module, Debug)]
struct Loss {
    ignore_index: i64,
}

// Hidden states and the table of embeddings.
#[fused_kernel("npu_fused_linear_cross_entropy")]
fn tied(hidden: Tensor<2>, embedding: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    mean_loss(hidden.matmul(embedding.swap_dims(0, 1)), targets)
}

// A layer's weight and bias, as Burn's `Linear` has them.
#[fused_kernel("npu_fused_linear_cross_entropy", layout = input_major, shift = bias)]
fn linear(x: Tensor<2>, weight: Tensor<2>, bias: Tensor<1>, target: Tensor<1, Int>) -> Tensor<1> {
    mean_loss(x.matmul(weight) + bias.unsqueeze(), target)
}

pub fn main() {
    let random =
        |shape: [usize; 2]| Tensor::<2>::random(shape, Distribution::Uniform(-1.0, 1.0), &device());
    let logits = random([4, 7]);
    let (hidden, weight) = (random([4, 3]), random([7, 3]));
    let bias: Tensor<1> = Tensor::random([7], Distribution::Uniform(-1.0, 1.0), &device());
    let targets = || Tensor::<1, Int>::from_ints([0, 6, 2, 2], &device());
    let some = || Tensor::<1, Int>::from_ints([0, -1, 2, 2], &device());
    let capped = Capped { softcap: 2.0 };
    let loss = Loss { ignore_index: 2 };
    let all = || {
        [
            mean_loss(logits.clone(), targets()),
            each(logits.clone(), some()),
            capped.loss(logits.clone(), targets()),
            loss.forward(logits.clone(), targets()),
            tied(hidden.clone(), weight.clone(), targets()),
            linear(
                hidden.clone(),
                weight.clone().swap_dims(0, 1),
                bias.clone(),
                targets(),
            ),
        ]
    };
    let fused = all();
    let plain = {
        let _off = scope(Policy::reference());
        all()
    };
    for (fused, plain) in fused.into_iter().zip(plain) {
        assert_same(fused, plain);
    }
    for (name, key) in [
        ("cross_entropy::mean_loss", "cross_entropy(reduction=mean)"),
        ("cross_entropy::each", "cross_entropy(reduction=none)"),
        (
            "cross_entropy::Capped::loss",
            "cross_entropy(reduction=sum, cap=tanh)",
        ),
        (
            "cross_entropy::Loss::forward",
            "cross_entropy(reduction=mean)",
        ),
        (
            "cross_entropy::tied",
            "linear_cross_entropy(reduction=mean)",
        ),
        (
            "cross_entropy::linear",
            "linear_cross_entropy(reduction=mean, layout=input_major, shift=bias)",
        ),
    ] {
        assert_site(name, key);
    }
    assert_paths(
        "cross_entropy::tied",
        &["fused", "reference: switched off by the policy"],
    );
    let plain = loss.forward_reference(logits.clone(), targets());
    assert_same(loss.forward(logits, targets()), plain);
}
