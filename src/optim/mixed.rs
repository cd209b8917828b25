use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{FloatDType, Tensor};

/// Returns a copy of a module whose parameters are rounded to `dtype`, to compute losses in that type while `module` keeps
/// what an optimiser adds up. Each parameter keeps its id, and requires a gradient if the module's does.
///
/// Steps of an optimiser are mostly too small for the eight bits of a number in bf16, and would be lost in it (Micikevicius
/// et al., *Mixed Precision Training*, arXiv:1710.03740). Train with the copy's gradients, as [`widened`] returns them:
///
/// ```
/// use burn::nn::LinearConfig;
/// use burn::optim::{AdamWConfig, GradientsParams};
/// use burn::tensor::{Device, FloatDType, Tensor};
/// use burn_kernels::optim::{InitFused, rounded, widened};
///
/// let device = Device::flex().autodiff();
/// let mut model = LinearConfig::new(4, 2).init(&device);
/// let mut optimiser = AdamWConfig::new().init_fused();
/// let x = Tensor::<2>::ones([3, 4], &device).cast(FloatDType::BF16);
///
/// let half = rounded(&model, FloatDType::BF16);
/// let loss = half.forward(x).square().mean();
/// let gradients = GradientsParams::from_grads(loss.backward(), &half);
/// model = optimiser.step(1e-3, model.clone(), widened(gradients, &model));
/// # assert_eq!(model.weight.dtype(), burn::tensor::DType::F32);
/// ```
pub fn rounded<M: Module>(module: &M, dtype: FloatDType) -> M {
    module.clone().map(&mut Rounding(dtype))
}

/// Returns the gradients of a [`rounded`] copy of `module` in the dtypes of the module's own parameters.
pub fn widened<M: Module>(gradients: GradientsParams, module: &M) -> GradientsParams {
    let mut widening = Widening {
        gradients,
        widened: GradientsParams::new(),
    };
    module.visit(&mut widening);
    widening.widened
}

struct Rounding(FloatDType);

impl ModuleMapper for Rounding {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        // A quantised weight has a type of its own, which is not rounded again.
        if !param.val().dtype().is_float() {
            return param;
        }
        // Records of the copy go through the parameter's mappers, which `Param::map` keeps.
        param.map(|tensor| {
            let is_trained = tensor.is_require_grad();
            let tensor = tensor.cast(self.0).detach();
            tensor.set_require_grad(is_trained)
        })
    }
}

struct Widening {
    gradients: GradientsParams,
    widened: GradientsParams,
}

impl ModuleVisitor for Widening {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.remove::<D>(param.id) {
            let dtype = FloatDType::from(param.val().dtype());
            self.widened.register(param.id, gradient.cast(dtype));
        }
    }
}
