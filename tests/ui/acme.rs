//! A kernel of another crate, as small as one can be: soft capping, `y = cap · tanh(x / cap)`.
#![allow(dead_code)] // Each case uses a part.

pub mod soft_cap {
    use burn::tensor::Tensor;
    use burn_kernels::kernel::{
        self, CapabilityRange, CustomKey, DeviceKinds, FloatType, Gradient, Implementation,
        KernelSpec, Launch, SemanticsKey, Tensors, Visitor, declare_kernel,
    };

    pub const ID: &str = "acme_soft_cap";
    pub const KEY: CustomKey = CustomKey::new("soft_cap", &[("function", "tanh")]);

    declare_kernel! {
        pub static KERNEL = KernelSpec {
            id: ID,
            op: KEY.op(),
            version: 1,
            summary: "Soft capping, for the attribute's tests",
            implementations: &[Implementation {
                device: DeviceKinds::CPU,
                name: "acme",
                dtypes: &[FloatType::F32],
                gradient: Gradient::Kernel,
                deterministic: true,
                fusion_barrier: false,
                capability: CapabilityRange::ANY,
                accepts: |key| matches!(key, SemanticsKey::Custom(key) if *key == KEY),
                limits: None,
                operators: None,
                launch: Launch::Custom,
            }],
        };
    }

    #[derive(Clone, Debug)]
    pub struct Operands<const D: usize> {
        pub x: Tensor<D>,
        pub cap: f64,
    }

    impl<const D: usize> Tensors for Operands<D> {
        fn visit(&mut self, visitor: &mut impl Visitor) {
            visitor.tensor("x", &mut self.x);
        }
    }

    impl<const D: usize> kernel::Operands for Operands<D> {
        type Output = Tensor<D>;

        fn reference(self) -> Tensor<D> {
            self.x.div_scalar(self.cap).tanh().mul_scalar(self.cap)
        }

        /// The same by another formula: `tanh(a) = 1 - 2 / (exp(2a) + 1)`.
        fn launch(self, _: &'static Implementation) -> Tensor<D> {
            let e = (self.x * (2.0 / self.cap)).exp();
            ((e + 1.0).recip() * -2.0 + 1.0) * self.cap
        }
    }
}
