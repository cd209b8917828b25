//! Tests of implementations without a gradient of their own, which set `gradient: Gradient::Reference`.

use crate::counting::alone;
use crate::declared::sites;
use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor};
use kernels_runtime::__private::{At, custom};
use kernels_runtime::declare_kernel;
use kernels_runtime::kernel::{
    self, CapabilityRange, CustomKey, DeviceKinds, FloatType, Gradient, Implementation, KernelSpec,
    Launch, Tensors, Visitor, verify,
};
use kernels_runtime::live::{self, Sampling};
use std::cell::Cell;

const KEY: CustomKey = CustomKey::new("gate_and_sum", &[]);

const BASE: Implementation = Implementation {
    device: DeviceKinds::CPU,
    name: "forward-only",
    dtypes: &FloatType::ALL,
    gradient: Gradient::Reference,
    deterministic: true,
    fusion_barrier: false,
    capability: CapabilityRange::ANY,
    accepts: |key| key.op() == "gate_and_sum",
    limits: None,
    operators: None,
    launch: Launch::Custom,
};

declare_kernel! {
    /// A kernel with a forward pass only.
    pub static KERNEL = KernelSpec {
        id: "acme_gate_and_sum",
        op: KEY.op(),
        version: 1,
        summary: "x * sigmoid(z) and the sum of its rows, forward alone",
        implementations: &[BASE, Implementation { name: "wrong", ..BASE }],
    };
}

sites! {
    SITE: "acme_gate_and_sum", SemanticsKey::Custom(KEY);
}

/// The operation `y = x · σ(z)` and `s = Σ y` of each row: two results of two operands.
#[derive(Clone)]
struct GateAndSum {
    x: Tensor<2>,
    z: Tensor<2>,
}

impl Tensors for GateAndSum {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("x", &mut self.x);
        visitor.tensor("z", &mut self.z);
    }
}

/// The same operation with the first result only.
#[derive(Clone)]
struct Gate(GateAndSum);

impl Tensors for Gate {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        self.0.visit(visitor);
    }
}

impl kernel::Operands for Gate {
    type Output = Tensor<2>;

    fn reference(self) -> Tensor<2> {
        self.0.reference().0
    }

    fn launch(self, implementation: &'static Implementation) -> Tensor<2> {
        self.0.launch(implementation).0
    }
}

thread_local! {
    /// The number of times that the reference ran.
    static REFERENCES: Cell<usize> = const { Cell::new(0) };
}

fn gate_and_sum(x: Tensor<2>, z: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
    let y = x * burn::tensor::activation::sigmoid(z);
    (y.clone(), y.sum_dim(1))
}

impl kernel::Operands for GateAndSum {
    type Output = (Tensor<2>, Tensor<2>);

    fn reference(self) -> Self::Output {
        REFERENCES.set(REFERENCES.get() + 1);
        gate_and_sum(self.x, self.z)
    }

    fn launch(self, implementation: &'static Implementation) -> Self::Output {
        // The operands are without autodiff, or the composition below would have gradients itself.
        assert!(!self.x.is_autodiff() && !self.z.is_autodiff());
        let wrong = if implementation.name == "wrong" {
            1.5
        } else {
            1.0
        };
        // It rounds each result once, as kernels do.
        let dtype = self.x.dtype();
        let wide = if dtype == DType::F64 {
            FloatDType::F64
        } else {
            FloatDType::F32
        };
        let (y, sum) = gate_and_sum(self.x.cast(wide), self.z.cast(wide));
        let round = |tensor: Tensor<2>| tensor.cast(FloatDType::from(dtype));
        (round(y * wrong), round(sum))
    }
}

fn operands(shape: [usize; 2], dtype: DType, device: &Device) -> GateAndSum {
    let random = || {
        let numbers = Tensor::<2>::random(shape, Distribution::Normal(0.0, 1.0), device);
        numbers.cast(FloatDType::from(dtype)).detach()
    };
    GateAndSum {
        x: random(),
        z: random(),
    }
}

fn tracked(operands: GateAndSum) -> GateAndSum {
    GateAndSum {
        x: operands.x.require_grad(),
        z: operands.z.require_grad(),
    }
}

#[test]
fn gradients_are_those_of_the_reference_for_each_dtype_and_shape() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    device.seed(7);
    for dtype in [DType::F64, DType::F32, DType::BF16, DType::F16] {
        for shape in [[4, 7], [1, 1], [3, 64]] {
            let operands = tracked(operands(shape, dtype, &device));
            let strided = GateAndSum {
                x: operands.x.clone().transpose(),
                z: operands.z.clone().transpose(),
            };
            for operands in [operands, strided] {
                verify(&KERNEL.implementations[0], &Gate(operands.clone())).unwrap();
                // The gradients of several results are added in the operands' dtype, in which they may cancel.
                if [DType::F64, DType::F32].contains(&dtype) {
                    verify(&KERNEL.implementations[0], &operands).unwrap();
                }
            }
        }
    }
    let of = operands([4, 7], DType::F32, &device);
    let said = verify(&KERNEL.implementations[1], &tracked(of)).unwrap_err();
    assert!(said.to_string().contains("wrong"), "{said}");
}

/// Returns the gradients of `x` and `z` for both results or for the first only.
fn gradients(
    (y, sum): (Tensor<2>, Tensor<2>),
    of: &GateAndSum,
    both: bool,
) -> [Option<Tensor<2>>; 2] {
    let loss = (y * 3.0).sum();
    let loss = if both { loss + (sum * 0.5).sum() } else { loss };
    let gradients = loss.backward();
    [of.x.grad(&gradients), of.z.grad(&gradients)]
}

#[test]
fn a_site_trains_with_it_and_the_reference_runs_backward_alone() {
    let _alone = alone();
    let _unchecked = live::scope(Sampling::off());
    let device = Device::flex().autodiff();
    let of = tracked(operands([4, 7], DType::F32, &device));
    for both in [true, false] {
        let before = REFERENCES.get();
        let count = || REFERENCES.get() - before;
        let results = custom(At::new(&SITE), of.clone(), |_| panic!("the body ran"));
        assert_eq!(count(), 0);
        let found = gradients(results, &of, both);
        // The reference runs once for each result that has a gradient.
        assert_eq!(count(), if both { 2 } else { 1 });
        let expected = gradients(gate_and_sum(of.x.clone(), of.z.clone()), &of, both);
        for (found, expected) in found.into_iter().zip(expected) {
            let (found, expected) = (found.unwrap().into_data(), expected.unwrap().into_data());
            found.assert_approx_eq::<f32>(&expected, burn::tensor::Tolerance::absolute(1e-6));
        }
    }
}

#[test]
fn operands_that_are_not_tracked_get_no_gradient() {
    let _alone = alone();
    let _unchecked = live::scope(Sampling::off());
    let device = Device::flex().autodiff();
    let plain = operands([2, 3], DType::F32, &device);
    let of = GateAndSum {
        x: plain.x.clone().require_grad(),
        ..plain.clone()
    };
    let results = custom(At::new(&SITE), of.clone(), |_| panic!("the body ran"));
    let [x, z] = gradients(results, &of, true);
    assert!(x.is_some() && z.is_none());
    // With autodiff enabled and nothing tracked, nothing is recorded.
    let (y, _) = custom(At::new(&SITE), plain.clone(), |_| panic!("the body ran"));
    assert!(y.is_autodiff() && !y.is_tracked());
    // Without autodiff only the forward pass runs.
    let inner = operands([2, 3], DType::F32, &Device::flex());
    let (y, _) = custom(At::new(&SITE), inner, |_| panic!("the body ran"));
    assert!(!y.is_autodiff());
}
