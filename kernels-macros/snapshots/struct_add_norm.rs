/// A sum and its norm.
#[derive(Module, Debug)]
pub struct AddNorm {
    weight: Param<Tensor<1>>,
    eps: f64,
}
impl AddNorm {
    /**The sum `s = x + residual` and its root mean square normalisation over the last dimension, `y = s / √(mean(s²) + ε) · weight`. Returns `(y, s)`.

`x` and `residual` are `[.., n]` and `weight` is `[n]`; both results have the shape and dtype of `x`. The mean is taken in `f32` (`f64` for `f64`).

Runs the kernel `npu_fused_add_rmsnorm` (`offset = 0`, `rounding = llama`, `scale = weight`, `gating = none`, `groups = one`) where the device has it, else [`Self::forward_reference`].*/
    #[track_caller]
    pub fn forward<const D: usize>(
        &self,
        x: ::burn_kernels::__private::burn::tensor::Tensor<D>,
        residual: ::burn_kernels::__private::burn::tensor::Tensor<D>,
    ) -> (
        ::burn_kernels::__private::burn::tensor::Tensor<D>,
        ::burn_kernels::__private::burn::tensor::Tensor<D>,
    ) {
        ::burn_kernels::__private::declare_site! {
            static SITE = ::burn_kernels::__private::SiteSpec { kernel :
            "npu_fused_add_rmsnorm", item : "AddNorm::forward", path :
            ::core::option::Option::None, module : ::core::module_path!(), krate :
            "models", crate_version : "1.2.3", file : "src/lib.rs", line : 7u32, form :
            ::burn_kernels::__private::Form::Struct, key :
            ::burn_kernels::__private::SemanticsKey::AddRmsNorm(::burn_kernels::__private::AddRmsNormKey
            { offset : ::burn_kernels::__private::Offset::Zero, rounding :
            ::burn_kernels::__private::Rounding::Llama, scale :
            ::burn_kernels::__private::Scale::Weight, gating :
            ::burn_kernels::__private::Gating::None, groups :
            ::burn_kernels::__private::Groups::One }), layer :
            ::core::option::Option::None, condition : ::core::option::Option::None },
            json :
            ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_add_rmsnorm\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
            ::core::module_path!(),
            "\",\"form\":\"struct\",\"item\":\"AddNorm::forward\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"add_rms_norm\",\"offset\":\"zero\",\"rounding\":\"llama\",\"scale\":\"weight\",\"gating\":\"none\",\"groups\":\"one\"},\"layer\":null,\"condition\":null}")
        }
        ::burn_kernels::__private::add_rms_norm(
            ::burn_kernels::__private::At::new(&SITE),
            x,
            residual,
            &|| ::core::option::Option::Some(
                ::burn_kernels::__private::NormWeight::norm_weight(&self.weight),
            ),
            ::burn_kernels::__private::Epsilon::epsilon(&self.eps),
            ::core::option::Option::None,
            &mut |(x, residual)| {
                let copy = ::burn_kernels::__private::detached!(self);
                ::burn_kernels::__private::begin();
                copy.get(self).forward_reference(x, residual)
            },
        )
    }
    ///The plain computation of [`Self::forward`], which the kernel `npu_fused_add_rmsnorm` is verified against.
    pub fn forward_reference<const D: usize>(
        &self,
        x: ::burn_kernels::__private::burn::tensor::Tensor<D>,
        residual: ::burn_kernels::__private::burn::tensor::Tensor<D>,
    ) -> (
        ::burn_kernels::__private::burn::tensor::Tensor<D>,
        ::burn_kernels::__private::burn::tensor::Tensor<D>,
    ) {
        ::burn_kernels::__private::add_rms_norm_reference(
            x,
            residual,
            ::core::option::Option::Some(
                ::burn_kernels::__private::NormWeight::norm_weight(&self.weight),
            ),
            ::burn_kernels::__private::Epsilon::epsilon(&self.eps),
            ::core::option::Option::None,
            ::burn_kernels::__private::AddRmsNormKey {
                offset: ::burn_kernels::__private::Offset::Zero,
                rounding: ::burn_kernels::__private::Rounding::Llama,
                scale: ::burn_kernels::__private::Scale::Weight,
                gating: ::burn_kernels::__private::Gating::None,
                groups: ::burn_kernels::__private::Groups::One,
            },
        )
    }
}
