#[track_caller]
fn forward(&self, hidden: Tensor<3>) -> Tensor<3> {
    ::burn_kernels::__private::declare_site! {
        static SITE = ::burn_kernels::__private::SiteSpec { kernel : "npu_fused_rmsnorm",
        item : "forward", path :
        ::core::option::Option::Some(::burn_kernels::__private::PathInside(|| { fn here()
        {} ::core::any::type_name_of_val(& here) })), module : ::core::module_path!(),
        krate : "models", crate_version : "1.2.3", file : "src/lib.rs", line : 7u32, form
        : ::burn_kernels::__private::Form::Method, key :
        ::burn_kernels::__private::SemanticsKey::RmsNorm(::burn_kernels::__private::RmsNormKey
        { offset : ::burn_kernels::__private::Offset::Zero, rounding :
        ::burn_kernels::__private::Rounding::Llama, scale :
        ::burn_kernels::__private::Scale::Weight, gating :
        ::burn_kernels::__private::Gating::None, groups :
        ::burn_kernels::__private::Groups::Many, shift :
        ::burn_kernels::__private::Shift::None }), layer : ::core::option::Option::None,
        condition : ::core::option::Option::None }, json :
        ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_rmsnorm\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
        ::core::module_path!(),
        "\",\"form\":\"method\",\"item\":\"forward\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"rms_norm\",\"offset\":\"zero\",\"rounding\":\"llama\",\"scale\":\"weight\",\"gating\":\"none\",\"groups\":\"many\",\"shift\":\"none\"},\"layer\":null,\"condition\":null}")
    }
    ::burn_kernels::__private::rms_norm(
        ::burn_kernels::__private::At::new(&SITE).instance(&|| ()),
        hidden,
        &|| ::core::option::Option::Some(
            ::burn_kernels::__private::NormWeight::norm_weight(&self.w),
        ),
        ::burn_kernels::__private::Epsilon::epsilon(&self.eps),
        ::core::option::Option::Some(
            ::burn_kernels::__private::Count::count(&self.group_size),
        ),
        &mut |hidden| {
            let copy_of_self = ::burn_kernels::__private::detached!(self);
            ::burn_kernels::__private::begin();
            copy_of_self.get(self).forward_reference(hidden)
        },
    )
}
/// The plain computation of [`Self::forward`], which the kernel `npu_fused_rmsnorm` is verified against.
fn forward_reference(&self, hidden: Tensor<3>) -> Tensor<3> {
    grouped(hidden, self.group_size) * self.w.val() + self.eps
}
