impl Layer for Norm {
    type Output = Tensor<3>;
    #[track_caller]
    fn forward(&self, x: Tensor<3>, gate: Tensor<3>) -> Self::Output {
        ::burn_kernels::__private::declare_site! {
            static SITE = ::burn_kernels::__private::SiteSpec { kernel :
            "npu_fused_rmsnorm", item : "Norm::forward", path :
            ::core::option::Option::None, module : ::core::module_path!(), krate :
            "models", crate_version : "1.2.3", file : "src/lib.rs", line : 7u32, form :
            ::burn_kernels::__private::Form::Impl, key :
            ::burn_kernels::__private::SemanticsKey::RmsNorm(::burn_kernels::__private::RmsNormKey
            { offset : ::burn_kernels::__private::Offset::Zero, rounding :
            ::burn_kernels::__private::Rounding::Llama, scale :
            ::burn_kernels::__private::Scale::None, gating :
            ::burn_kernels::__private::Gating::AfterNorm, groups :
            ::burn_kernels::__private::Groups::One, shift :
            ::burn_kernels::__private::Shift::None }), layer :
            ::core::option::Option::None, condition : ::core::option::Option::None },
            json :
            ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_rmsnorm\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
            ::core::module_path!(),
            "\",\"form\":\"impl\",\"item\":\"Norm::forward\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"rms_norm\",\"offset\":\"zero\",\"rounding\":\"llama\",\"scale\":\"none\",\"gating\":\"after_norm\",\"groups\":\"one\",\"shift\":\"none\"},\"layer\":null,\"condition\":null}")
        }
        ::burn_kernels::__private::rms_norm_gated(
            ::burn_kernels::__private::At::new(&SITE),
            x,
            gate,
            &|| ::core::option::Option::None,
            ::burn_kernels::__private::Epsilon::epsilon(&self.eps),
            ::core::option::Option::None,
            &mut |(mut x, gate): (Tensor<3>, Tensor<3>)| {
                let copy_of_self = ::burn_kernels::__private::detached!(self);
                ::burn_kernels::__private::begin();
                let _this = copy_of_self.get(self);
                {
                    x = x.clone() / (x.square().mean_dim(2) + _this.eps).sqrt();
                    x * silu(gate)
                }
            },
        )
    }
}
