pub struct Norm {
    weight: Param<Tensor<1>>,
    eps: f64,
}
#[allow(warnings)]
impl Norm {
    pub fn forward<const D: usize>(
        &self,
        x: ::burn_kernels::__private::burn::tensor::Tensor<D>,
    ) -> ::burn_kernels::__private::burn::tensor::Tensor<D> {
        loop {}
    }
    pub fn forward_reference<const D: usize>(
        &self,
        x: ::burn_kernels::__private::burn::tensor::Tensor<D>,
    ) -> ::burn_kernels::__private::burn::tensor::Tensor<D> {
        loop {}
    }
}
::core::compile_error! {
    "`offset` cannot be `2`\nit takes `0` or `1`"
}
