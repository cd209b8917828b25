impl Layer for Norm {
    type Output = Tensor<3>;
    fn forward(&self, x: Tensor<3>, gate: Tensor<3>) -> Self::Output {
        ::burn_kernels::__private::declare_site! {
            static SITE = { kernel : "npu_fused_rmsnorm", item : "Norm::forward", form :
            Form::Impl, key : SemanticsKey::RmsNorm(RmsNormKey { offset : Offset::Zero,
            rounding : Rounding::Llama, scale : Scale::None, gating : Gating::AfterNorm,
            groups : Groups::One }), key_json :
            "{\"op\":\"rms_norm\",\"offset\":\"zero\",\"rounding\":\"llama\",\"scale\":\"none\",\"gating\":\"after_norm\",\"groups\":\"one\"}",
            layer : ::core::option::Option::None }
        }
        ::burn_kernels::__private::rms_norm_gated(
            ::burn_kernels::__private::At::new(&SITE),
            x,
            gate,
            || ::core::option::Option::None,
            ::burn_kernels::__private::Epsilon::epsilon(&self.eps),
            ::core::option::Option::None,
            |mut x, gate| {
                x = x.clone() / (x.square().mean_dim(2) + self.eps).sqrt();
                x * silu(gate)
            },
        )
    }
}
