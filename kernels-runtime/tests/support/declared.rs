//! Sites, declared as the attribute's expansions do.

/// Declares sites of functions, each as `NAME: "kernel", key;`.
macro_rules! sites {
    ($($name:ident: $kernel:literal, $key:expr;)*) => {
        $(kernels_runtime::__private::declare_site! {
            static $name = {
                kernel: $kernel,
                item: stringify!($name),
                form: Form::Function,
                key: $key,
                key_json: r#"{"op":"not read here"}"#,
                layer: None,
            }
        })*
    };
}
pub(crate) use sites;
