fn forward(&self, hidden: Tensor<3>) -> Tensor<3> {
    ::burn_kernels::__private::declare_site! {
        static SITE = { kernel : "npu_fused_rmsnorm", item : "forward", form :
        Form::Method, key : SemanticsKey::RmsNorm(RmsNormKey { offset : Offset::Zero,
        rounding : Rounding::Llama, scale : Scale::Weight, gating : Gating::None, groups
        : Groups::Many }), key_json :
        "{\"op\":\"rms_norm\",\"offset\":\"zero\",\"rounding\":\"llama\",\"scale\":\"weight\",\"gating\":\"none\",\"groups\":\"many\"}",
        layer : ::core::option::Option::None }
    }
    ::burn_kernels::__private::rms_norm(
        ::burn_kernels::__private::At::new(&SITE),
        hidden,
        || ::core::option::Option::Some(
            ::burn_kernels::__private::NormWeight::norm_weight(&self.w),
        ),
        ::burn_kernels::__private::Epsilon::epsilon(&self.eps),
        ::core::option::Option::Some(
            ::burn_kernels::__private::Count::count(&self.group_size),
        ),
        |hidden| self.forward_reference(hidden),
    )
}
/// The plain computation of [`Self::forward`], which the kernel `npu_fused_rmsnorm` is verified against.
fn forward_reference(&self, hidden: Tensor<3>) -> Tensor<3> {
    grouped(hidden, self.group_size) * self.w.val() + self.eps
}
