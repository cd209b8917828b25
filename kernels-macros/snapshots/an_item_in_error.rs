pub struct Norm {
    weight: Param<Tensor<1>>,
    eps: f64,
}
::core::compile_error! {
    "`offset` cannot be `2`\nit takes `0` or `1`"
}
