/// A norm.
#[derive(Module, Debug)]
pub struct Norm {
    beta: Param<Tensor<1>>,
    gamma: Param<Tensor<1>>,
    layer_norm_eps: f64,
}
impl Norm {
    /**Layer normalisation over the last dimension, `y = (x − mean(x)) / √(var(x) + ε) · weight + bias`, with the variance that divides by `n`.

`x` is `[.., n]` and `weight` and `bias` are `[n]`; the result has the shape and dtype of `x`. It is computed in `f32` (`f64` for `f64`) and rounded once.

Runs the kernel `npu_fused_layernorm` (`shift = bias`) where the device has it, else [`Self::forward_reference`].*/
    #[track_caller]
    pub fn forward<const D: usize>(
        &self,
        x: ::burn_kernels::__private::burn::tensor::Tensor<D>,
    ) -> ::burn_kernels::__private::burn::tensor::Tensor<D> {
        ::burn_kernels::__private::declare_site! {
            static SITE = ::burn_kernels::__private::SiteSpec { kernel :
            "npu_fused_layernorm", item : "Norm::forward", path :
            ::core::option::Option::None, module : ::core::module_path!(), krate :
            "models", crate_version : "1.2.3", file : "src/lib.rs", line : 7u32, form :
            ::burn_kernels::__private::Form::Struct, key :
            ::burn_kernels::__private::SemanticsKey::LayerNorm(::burn_kernels::__private::LayerNormKey
            { shift : ::burn_kernels::__private::Shift::Bias }), layer :
            ::core::option::Option::Some("LayerNorm"), condition :
            ::core::option::Option::None }, json :
            ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_layernorm\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
            ::core::module_path!(),
            "\",\"form\":\"struct\",\"item\":\"Norm::forward\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"layer_norm\",\"shift\":\"bias\"},\"layer\":\"LayerNorm\",\"condition\":null}")
        }
        ::burn_kernels::__private::layer_norm(
            ::burn_kernels::__private::At::new(&SITE),
            x,
            ::burn_kernels::__private::NormParameters::new(&self.gamma)
                .bias(&self.beta)
                .bias_first(),
            ::burn_kernels::__private::Epsilon::epsilon(&self.layer_norm_eps),
            &mut |x| {
                let copy = ::burn_kernels::__private::detached!(self);
                ::burn_kernels::__private::begin();
                copy.get(self).forward_reference(x)
            },
        )
    }
    ///The plain computation of [`Self::forward`], which the kernel `npu_fused_layernorm` is verified against.
    pub fn forward_reference<const D: usize>(
        &self,
        x: ::burn_kernels::__private::burn::tensor::Tensor<D>,
    ) -> ::burn_kernels::__private::burn::tensor::Tensor<D> {
        ::burn_kernels::__private::layer_norm_reference(
            x,
            ::burn_kernels::__private::NormParameters::new(&self.gamma)
                .bias(&self.beta)
                .bias_first(),
            ::burn_kernels::__private::Epsilon::epsilon(&self.layer_norm_eps),
            ::burn_kernels::__private::LayerNormKey {
                shift: ::burn_kernels::__private::Shift::Bias,
            },
        )
    }
}
