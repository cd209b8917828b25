/// A norm.
#[derive(Module, Debug)]
pub struct Norm {
    weight: Param<Tensor<1>>,
    eps: f64,
}
impl Norm {
    /**Root mean square normalisation over the last dimension, `y = x / √(mean(x²) + ε) · (1 + weight)`.

`x` is `[.., n]` and `weight` is `[n]`; the result has the shape and dtype of `x`. The mean is taken in `f32` (`f64` for `f64`).

Runs the kernel `npu_fused_rmsnorm` (`offset = 1`, `rounding = gemma`, `scale = weight`, `gating = none`, `groups = one`, `shift = none`) where the device has it, else [`Self::forward_reference`].*/
    #[track_caller]
    pub fn forward<const D: usize>(
        &self,
        x: ::burn_kernels::__private::burn::tensor::Tensor<D>,
    ) -> ::burn_kernels::__private::burn::tensor::Tensor<D> {
        ::burn_kernels::__private::declare_site! {
            static SITE = ::burn_kernels::__private::SiteSpec { kernel :
            "npu_fused_rmsnorm", item : "Norm::forward", path :
            ::core::option::Option::None, module : ::core::module_path!(), krate :
            "models", crate_version : "1.2.3", file : "src/lib.rs", line : 7u32, form :
            ::burn_kernels::__private::Form::Struct, key :
            ::burn_kernels::__private::SemanticsKey::RmsNorm(::burn_kernels::__private::RmsNormKey
            { offset : ::burn_kernels::__private::Offset::One, rounding :
            ::burn_kernels::__private::Rounding::Gemma, scale :
            ::burn_kernels::__private::Scale::Weight, gating :
            ::burn_kernels::__private::Gating::None, groups :
            ::burn_kernels::__private::Groups::One, shift :
            ::burn_kernels::__private::Shift::None }), layer :
            ::core::option::Option::Some("RMSNorm"), condition :
            ::core::option::Option::None }, json :
            ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_rmsnorm\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
            ::core::module_path!(),
            "\",\"form\":\"struct\",\"item\":\"Norm::forward\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"rms_norm\",\"offset\":\"one\",\"rounding\":\"gemma\",\"scale\":\"weight\",\"gating\":\"none\",\"groups\":\"one\",\"shift\":\"none\"},\"layer\":\"RMSNorm\",\"condition\":null}")
        }
        ::burn_kernels::__private::rms_norm(
            ::burn_kernels::__private::At::new(&SITE),
            x,
            &|| ::core::option::Option::Some(
                ::burn_kernels::__private::NormWeight::norm_weight(&self.weight),
            ),
            ::burn_kernels::__private::Epsilon::epsilon(&self.eps),
            ::core::option::Option::None,
            &mut |x| {
                let copy = ::burn_kernels::__private::detached!(self);
                ::burn_kernels::__private::begin();
                copy.get(self).forward_reference(x)
            },
        )
    }
    ///The plain computation of [`Self::forward`], which the kernel `npu_fused_rmsnorm` is verified against.
    pub fn forward_reference<const D: usize>(
        &self,
        x: ::burn_kernels::__private::burn::tensor::Tensor<D>,
    ) -> ::burn_kernels::__private::burn::tensor::Tensor<D> {
        ::burn_kernels::__private::rms_norm_reference(
            x,
            ::core::option::Option::Some(
                ::burn_kernels::__private::NormWeight::norm_weight(&self.weight),
            ),
            ::burn_kernels::__private::Epsilon::epsilon(&self.eps),
            ::core::option::Option::None,
            ::burn_kernels::__private::RmsNormKey {
                offset: ::burn_kernels::__private::Offset::One,
                rounding: ::burn_kernels::__private::Rounding::Gemma,
                scale: ::burn_kernels::__private::Scale::Weight,
                gating: ::burn_kernels::__private::Gating::None,
                groups: ::burn_kernels::__private::Groups::One,
                shift: ::burn_kernels::__private::Shift::None,
            },
        )
    }
}
