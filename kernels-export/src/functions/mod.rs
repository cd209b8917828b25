//! The list of functions.

mod attention;
mod experts;
mod linear;
mod loss;
mod norm;
mod rotation;
mod unit;

use crate::argument::Argument;
use crate::call::in_c;
use crate::tensor::{Made, Tensor};
use crate::tvm::packed;
use kernels_abi::{Any, DlManagedTensor};
use kernels_simd::keys::{
    Activation, ExpertLayout, Gating, HeadLayout, LossReduction, OutputLayout, Projections,
    RopeStyle, Rounding, TableLayout,
};
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::OnceLock;

/// The results of a function, or the argument that does not fit.
type Results<const N: usize> = Result<[Option<Made>; N], crate::call::Error>;

/// A function as callers see it.
#[derive(Clone, Copy, Debug)]
pub struct Described {
    /// The name.
    pub name: &'static str,
    /// A sentence that says what the function computes.
    pub documentation: &'static str,
    /// The name and the type of each argument.
    pub arguments: &'static [(&'static str, &'static str)],
    /// The names of the results.
    pub results: &'static [&'static str],
}

/// Makes the symbols of each function, and the list.
macro_rules! functions {
    ($($(#[doc = $doc:literal])+
        fn $name:ident($($argument:ident: $Type:ty),+) -> [$($result:ident),*] = $($path:ident)::+;)+) => {
        $(const _: () = {
            #[unsafe(export_name = concat!("burn_kernels_", stringify!($name)))]
            #[allow(clippy::too_many_arguments)] // As many as the list has.
            unsafe extern "C" fn in_c_types(
                $($argument: <$Type as Argument>::C,)+
                results: *mut *mut DlManagedTensor,
            ) -> c_int {
                let name = stringify!($name);
                let run = || {
                    $(
                        // SAFETY: the caller's arguments are those that the list names.
                        let $argument = unsafe { <$Type as Argument>::of_c($argument) }
                            .map_err(|error| error.of(name, Some(stringify!($argument))))?;
                    )+
                    $($path)::+($($argument),+).map_err(|error| error.of(name, None))
                };
                // SAFETY: the caller has place for the results that the list names.
                unsafe { in_c(name, results, run) }
            }

            #[unsafe(export_name = concat!("__tvm_ffi_", stringify!($name)))]
            unsafe extern "C" fn in_tvm_ffi(
                _: *mut c_void,
                arguments: *const Any,
                count: i32,
                result: *mut Any,
            ) -> c_int {
                let name = stringify!($name);
                let inputs = [$(stringify!($argument)),+].len();
                let run = |arguments: &[Any]| {
                    let mut next = arguments.iter();
                    $(
                        let $argument = next.next().expect("`packed` counts them");
                        // SAFETY: the caller's values are what their types say.
                        let $argument = unsafe { <$Type as Argument>::of_any($argument) }
                            .map_err(|error| error.of(name, Some(stringify!($argument))))?;
                    )+
                    $($path)::+($($argument),+).map_err(|error| error.of(name, None))
                };
                // SAFETY: the caller's.
                unsafe { packed(name, inputs, (arguments, count), result, run) }
            }
        };)+

        /// Every function: what `burn_kernels_functions` says.
        pub const FUNCTIONS: &[Described] = &[$(Described {
            name: stringify!($name),
            documentation: concat!($($doc),+),
            arguments: &[$((stringify!($argument), <$Type as Argument>::KIND)),+],
            results: &[$(stringify!($result)),*],
        }),+];
    };
}

functions! {
    /// RMSNorm, `y = x / sqrt(mean(x²) + eps) · (offset + weight)` over the last axis, or over groups of it. With a residual,
    /// that of `x + residual`, which is `sum`. `rstd` is kept for the gradient.
    fn rms_norm(x: Tensor, weight: Option<Tensor>, residual: Option<Tensor>, gate: Option<Tensor>, eps: f64, group_size: i64,
        offset: f64, rounding: Rounding, gating: Gating) -> [y, rstd, sum] = norm::rms_norm;
    /// The gradients of RMSNorm. `before` is added to that of `x`, which is `sum` if there was a residual.
    fn rms_norm_backward(x: Tensor, weight: Option<Tensor>, gate: Option<Tensor>, dy: Tensor, rstd: Tensor,
        before: Option<Tensor>, eps: f64, group_size: i64, offset: f64, rounding: Rounding, gating: Gating,
        wants_weight: bool) -> [dx, dweight, dgate] = norm::rms_norm_backward;
    /// LayerNorm over the last axis. `mean` and `rstd` are kept for the gradient.
    fn layer_norm(x: Tensor, weight: Tensor, bias: Option<Tensor>, eps: f64) -> [y, mean, rstd] = norm::layer_norm;
    /// The gradients of LayerNorm.
    fn layer_norm_backward(x: Tensor, weight: Tensor, dy: Tensor, mean: Tensor, rstd: Tensor, wants_weight: bool,
        wants_bias: bool) -> [dx, dweight, dbias] = norm::layer_norm_backward;
    /// A gated linear unit, `f(gate) · (up_offset + up)`.
    fn glu(gate: Tensor, up: Option<Tensor>, activation: Activation, projections: Projections, limit: Option<f64>,
        up_offset: f64, threshold: Option<f64>) -> [y] = unit::glu;
    /// The gradients of a gated linear unit.
    fn glu_backward(gate: Tensor, up: Option<Tensor>, dy: Tensor, activation: Activation, projections: Projections,
        limit: Option<f64>, up_offset: f64, threshold: Option<f64>) -> [dgate, dup] = unit::glu_backward;
    /// The rotary position embedding of queries and keys.
    fn rope(q: Tensor, k: Option<Tensor>, cos: Tensor, sin: Tensor, style: RopeStyle, layout: HeadLayout,
        table: TableLayout) -> [rotated_q, rotated_k] = rotation::rope;
    /// The gradients of the rotation, from those of its results.
    fn rope_backward(dq: Tensor, dk: Option<Tensor>, cos: Tensor, sin: Tensor, style: RopeStyle, layout: HeadLayout,
        table: TableLayout) -> [q, k] = rotation::rope_backward;
    /// RMSNorm of heads `[b, s, heads, d]` and their rotation.
    fn qk_norm_rope(x: Tensor, weight: Option<Tensor>, cos: Tensor, sin: Tensor, eps: f64, offset: f64, rounding: Rounding,
        together: bool, style: RopeStyle, layout: HeadLayout, table: TableLayout) -> [y] = rotation::qk_norm_rope;
    /// The gradients of norm and rotation.
    fn qk_norm_rope_backward(x: Tensor, weight: Option<Tensor>, cos: Tensor, sin: Tensor, dy: Tensor, eps: f64, offset: f64,
        rounding: Rounding, together: bool, style: RopeStyle, layout: HeadLayout, table: TableLayout, wants_weight: bool)
        -> [dx, dweight] = rotation::qk_norm_rope_backward;
    /// Attention of heads `[batch, heads, rows, width]`; the result has the layout that is named. A mask of bools,
    /// `[batch or 1, 1, queries, keys]`, has neighbouring keys in each row.
    fn attention(q: Tensor, k: Tensor, v: Tensor, bias: Option<Tensor>, sinks: Option<Tensor>, mask: Option<Tensor>,
        causal: bool, window: i64, scale: f64, cap: Option<f64>, layout: HeadLayout) -> [y, lse] = attention::forward;
    /// The gradients of attention, in the layout that is named. `dy` and `y` are `[batch, heads, rows, width]`.
    fn attention_backward(q: Tensor, k: Tensor, v: Tensor, bias: Option<Tensor>, sinks: Option<Tensor>, mask: Option<Tensor>,
        dy: Tensor, y: Tensor, lse: Tensor, causal: bool, window: i64, scale: f64, cap: Option<f64>, layout: HeadLayout,
        wants_bias: bool) -> [dq, dk, dv, dbias, dsinks] = attention::backward;
    /// A linear layer, `x · weight + bias`.
    fn linear(x: Tensor, weight: Tensor, bias: Option<Tensor>, layout: OutputLayout) -> [y] = linear::forward;
    /// The gradients of a linear layer.
    fn linear_backward(x: Tensor, weight: Tensor, dy: Tensor, layout: OutputLayout, wants_x: bool, wants_weight: bool,
        wants_bias: bool) -> [dx, dweight, dbias] = linear::backward;
    /// The cross-entropy of logits `[tokens, classes]`. `lse` is kept for the gradient.
    fn cross_entropy(logits: Tensor, targets: Tensor, ignore_index: i64, label_smoothing: f64, cap: Option<f64>, z_loss: f64,
        reduction: LossReduction) -> [loss, lse] = loss::cross_entropy;
    /// The gradient of the logits.
    fn cross_entropy_backward(logits: Tensor, targets: Tensor, lse: Tensor, dy: Tensor, ignore_index: i64,
        label_smoothing: f64, cap: Option<f64>, z_loss: f64, reduction: LossReduction) -> [dlogits]
        = loss::cross_entropy_backward;
    /// The cross-entropy of hidden states `[tokens, width]` and the weight of an output layer, `[classes, width]` or as the
    /// layout says, with the gradients for a gradient of the loss of 1, in f32.
    fn linear_cross_entropy(hidden: Tensor, weight: Tensor, bias: Option<Tensor>, targets: Tensor, layout: OutputLayout,
        ignore_index: i64, label_smoothing: f64, cap: Option<f64>, z_loss: f64, reduction: LossReduction, wants_hidden: bool,
        wants_weight: bool, wants_bias: bool) -> [loss, dhidden, dweight, dbias] = loss::linear_cross_entropy;
    /// The gradients of losses that are not reduced, for any gradient of these. Computes the logits again.
    fn linear_cross_entropy_backward(hidden: Tensor, weight: Tensor, bias: Option<Tensor>, targets: Tensor, dy: Tensor,
        layout: OutputLayout, ignore_index: i64, label_smoothing: f64, cap: Option<f64>, z_loss: f64,
        reduction: LossReduction, wants_hidden: bool, wants_weight: bool, wants_bias: bool) -> [dhidden, dweight, dbias]
        = loss::linear_cross_entropy_backward;
    /// A kept gradient of the linear cross-entropy times that of the loss, in the type of `like`.
    fn scaled(kept: Tensor, dy: Tensor, like: Tensor) -> [gradient] = loss::scaled;
    /// A step of AdamW in the memory of a parameter and its two moments.
    fn adam_w(parameter: Tensor, moment_1: Tensor, moment_2: Tensor, gradient: Tensor, learning_rate: f64, beta_1: f64,
        beta_2: f64, epsilon: f64, weight_decay: f64, step: i64) -> [] = unit::adam_w;
    /// Experts of stacked weights: the sum of each token's experts, weighted by `routing` `[tokens, choices]`. `experts` are
    /// their numbers. `kept` is for the gradient, if it is wanted.
    fn experts(x: Tensor, routing: Tensor, experts: Tensor, gate: Tensor, up: Option<Tensor>, down: Tensor,
        gate_bias: Option<Tensor>, up_bias: Option<Tensor>, down_bias: Option<Tensor>, activation: Activation,
        projections: Projections, layout: ExpertLayout, limit: Option<f64>, up_offset: f64, keep: bool) -> [y, kept]
        = experts::forward;
    /// The gradients of experts. Those of the weights are stacked as the weights are.
    fn experts_backward(x: Tensor, routing: Tensor, experts: Tensor, gate: Tensor, up: Option<Tensor>, down: Tensor,
        gate_bias: Option<Tensor>, up_bias: Option<Tensor>, down_bias: Option<Tensor>, dy: Tensor, kept: Tensor,
        activation: Activation, projections: Projections, layout: ExpertLayout, limit: Option<f64>, up_offset: f64,
        wants_x: bool, wants_routing: bool, wants_weights: bool)
        -> [dx, drouting, dgate, dup, ddown, dgate_bias, dup_bias, ddown_bias] = experts::backward;
}

/// Returns the functions in text, by which Python declares them: a line for each, of its name, its arguments with their
/// types, and its results.
#[unsafe(no_mangle)]
pub extern "C" fn burn_kernels_functions() -> *const c_char {
    static TEXT: OnceLock<CString> = OnceLock::new();
    let text = TEXT.get_or_init(|| {
        let line = |function: &Described| {
            let arguments = function.arguments.iter();
            let arguments: Vec<_> = arguments
                .map(|(name, kind)| format!("{name}:{kind}"))
                .collect();
            let results = function.results.join(",");
            format!("{} {} {results}\n", function.name, arguments.join(","))
        };
        let text = FUNCTIONS.iter().map(line).collect::<String>();
        CString::new(text).expect("names have no zeros")
    });
    text.as_ptr()
}
