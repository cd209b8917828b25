#[track_caller]
fn capped<const D: usize>(logits: Tensor<D>, softcap: f64) -> Tensor<D> {
    ::burn_kernels::__private::declare_site! {
        static SITE = ::burn_kernels::__private::SiteSpec { kernel : "npu_fused_softcap",
        item : "capped", path : ::core::option::Option::None, module :
        ::core::module_path!(), krate : "models", crate_version : "1.2.3", file :
        "src/lib.rs", line : 7u32, form : ::burn_kernels::__private::Form::Function, key
        :
        ::burn_kernels::__private::SemanticsKey::Softcap(::burn_kernels::__private::SoftcapKey
        {}), layer : ::core::option::Option::None, condition :
        ::core::option::Option::None }, json :
        ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_softcap\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
        ::core::module_path!(),
        "\",\"form\":\"function\",\"item\":\"capped\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"softcap\"},\"layer\":null,\"condition\":null}")
    }
    ::burn_kernels::__private::softcap(
        ::burn_kernels::__private::At::new(&SITE).instance(&|| ()),
        logits,
        ::burn_kernels::__private::Number::number(&softcap),
        &mut |logits| {
            ::burn_kernels::__private::begin();
            capped_reference::<D>(logits, softcap)
        },
    )
}
/// The plain computation of [`capped`], which the kernel `npu_fused_softcap` is verified against.
fn capped_reference<const D: usize>(logits: Tensor<D>, softcap: f64) -> Tensor<D> {
    (logits / softcap).tanh() * softcap
}
