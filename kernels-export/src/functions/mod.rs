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
use crate::made::Made;
use crate::numbers::{Beta, Epsilon, Finite, Limit, Part};
use crate::tensor::Tensor;
use crate::tvm::packed;
use attention::Attention;
use experts::Experts;
use kernels_abi::{Any, DlManagedTensor};
use kernels_simd::keys::{
    Activation, ExpertLayout, Gating, HeadLayout, LossReduction, OutputLayout, Projections,
    RopeStyle, Rounding, TableLayout,
};
use kernels_simd::rope as rotate;
use loss::{Loss, OutputLayer};
use norm::RmsNorm;
use rotation::{HeadNorm, Rotation};
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::OnceLock;
use unit::{AdamW, Glu};

/// The results of a function, or the argument that does not fit.
type Results<const N: usize> = Result<[Option<Made>; N], crate::call::Error>;

/// The symbol of a function by the convention of TVM-FFI.
pub type Packed = unsafe extern "C" fn(*mut c_void, *const Any, i32, *mut Any) -> c_int;

/// A function as callers see it.
#[derive(Clone, Copy, Debug)]
pub struct Described {
    /// The name.
    pub name: &'static str,
    /// A sentence that says what the function computes.
    pub documentation: &'static str,
    /// The name and the type of each argument.
    pub arguments: &'static [(&'static str, &'static str)],
    /// The names of the results. The gradient of an argument has its name with a `d` before it.
    pub results: &'static [&'static str],
    /// The symbol `__tvm_ffi_<name>`.
    pub packed: Packed,
}

/// Makes the symbols of each function, and the list.
macro_rules! functions {
    ($($(#[doc = $doc:literal])+
        fn $name:ident($($argument:ident: $Type:ty),+) -> [$($result:ident),*] = $run:expr;)+) => {
        /// Every function: what `burn_kernels_functions` says.
        pub const FUNCTIONS: &[Described] = &[$({
            const NAME: &str = stringify!($name);
            const RESULTS: &[&str] = &[$(stringify!($result)),*];
            const ARGUMENTS: &[(&str, &str)] = &[$((stringify!($argument), <$Type as Argument>::KIND)),+];

            #[allow(clippy::too_many_arguments)] // As many as the list has.
            fn run($($argument: $Type),+) -> Results<{ RESULTS.len() }> {
                $run
            }

            #[unsafe(export_name = concat!("burn_kernels_", stringify!($name)))]
            #[allow(clippy::too_many_arguments)] // As above.
            unsafe extern "C" fn in_c_types(
                $($argument: <$Type as Argument>::C,)+
                results: *mut *mut DlManagedTensor,
            ) -> c_int {
                let read = || {
                    $(
                        // SAFETY: the caller's arguments are those that the list names.
                        let $argument = unsafe { <$Type as Argument>::of_c($argument) }
                            .map_err(|error| error.of(NAME, Some(stringify!($argument))))?;
                    )+
                    run($($argument),+).map_err(|error| error.of(NAME, None))
                };
                // SAFETY: the caller has place for the results that the list names.
                unsafe { in_c(NAME, results, read) }
            }

            #[unsafe(export_name = concat!("__tvm_ffi_", stringify!($name)))]
            unsafe extern "C" fn in_tvm_ffi(
                _: *mut c_void,
                arguments: *const Any,
                count: i32,
                result: *mut Any,
            ) -> c_int {
                let read = |arguments: &[Any]| {
                    let mut next = arguments.iter();
                    $(
                        let $argument = next.next().expect("`packed` counts them");
                        // SAFETY: the caller's values are what their types say.
                        let $argument = unsafe { <$Type as Argument>::of_any($argument) }
                            .map_err(|error| error.of(NAME, Some(stringify!($argument))))?;
                    )+
                    run($($argument),+).map_err(|error| error.of(NAME, None))
                };
                // SAFETY: the caller's.
                unsafe { packed(NAME, (ARGUMENTS.len(), RESULTS), (arguments, count), result, read) }
            }

            Described {
                name: NAME,
                documentation: concat!($($doc),+),
                arguments: ARGUMENTS,
                results: RESULTS,
                packed: in_tvm_ffi,
            }
        }),+];
    };
}

functions! {
    /// RMSNorm, `y = x / sqrt(mean(x²) + eps) · (offset + weight)` over the last axis, or over groups of it. With a residual,
    /// that of `x + residual`, which is `sum`. `rstd` is kept for the gradient. A group size of 0 means the whole axis.
    fn rms_norm(x: Tensor, weight: Option<Tensor>, residual: Option<Tensor>, gate: Option<Tensor>, eps: Epsilon,
        group_size: usize, offset: Finite, rounding: Rounding, gating: Gating) -> [y, rstd, sum]
        = RmsNorm { x, weight, gate, eps, group_size, offset, rounding, gating }.forward(residual);
    /// The gradients of RMSNorm. If there was a residual, `x` is `sum`, and `dsum` is added to the gradient.
    fn rms_norm_backward(x: Tensor, weight: Option<Tensor>, gate: Option<Tensor>, dy: Tensor, rstd: Tensor,
        dsum: Option<Tensor>, eps: Epsilon, group_size: usize, offset: Finite, rounding: Rounding, gating: Gating,
        wants_weight: bool) -> [dx, dweight, dgate]
        = RmsNorm { x, weight, gate, eps, group_size, offset, rounding, gating }.backward(dy, rstd, dsum, wants_weight);
    /// LayerNorm over the last axis. `mean` and `rstd` are kept for the gradient.
    fn layer_norm(x: Tensor, weight: Tensor, bias: Option<Tensor>, eps: Epsilon) -> [y, mean, rstd]
        = norm::layer_norm(x, weight, bias, eps);
    /// The gradients of LayerNorm.
    fn layer_norm_backward(x: Tensor, weight: Tensor, dy: Tensor, mean: Tensor, rstd: Tensor, wants_weight: bool,
        wants_bias: bool) -> [dx, dweight, dbias]
        = norm::layer_norm_backward(x, weight, dy, [mean, rstd], [wants_weight, wants_bias]);
    /// A gated linear unit, `f(gate) · (up_offset + up)`.
    fn glu(gate: Tensor, up: Option<Tensor>, activation: Activation, projections: Projections, limit: Option<Limit>,
        up_offset: Finite, threshold: Option<Finite>) -> [y]
        = Glu { gate, up, activation, projections, limit, up_offset, threshold }.forward();
    /// The gradients of a gated linear unit.
    fn glu_backward(gate: Tensor, up: Option<Tensor>, dy: Tensor, activation: Activation, projections: Projections,
        limit: Option<Limit>, up_offset: Finite, threshold: Option<Finite>) -> [dgate, dup]
        = Glu { gate, up, activation, projections, limit, up_offset, threshold }.backward(dy);
    /// The rotary position embedding of queries and keys.
    fn rope(q: Tensor, k: Option<Tensor>, cos: Tensor, sin: Tensor, style: RopeStyle, layout: HeadLayout,
        table: TableLayout) -> [rotated_q, rotated_k]
        = Rotation { cos, sin, style, layout, table }.of([Some(q), k], rotate::forward);
    /// The gradients of the rotation.
    fn rope_backward(drotated_q: Tensor, drotated_k: Option<Tensor>, cos: Tensor, sin: Tensor, style: RopeStyle,
        layout: HeadLayout, table: TableLayout) -> [dq, dk]
        = Rotation { cos, sin, style, layout, table }.of([Some(drotated_q), drotated_k], rotate::backward);
    /// RMSNorm of heads `[b, s, heads, d]` and their rotation.
    fn qk_norm_rope(x: Tensor, weight: Option<Tensor>, cos: Tensor, sin: Tensor, eps: Epsilon, offset: Finite,
        rounding: Rounding, together: bool, style: RopeStyle, layout: HeadLayout, table: TableLayout) -> [y]
        = HeadNorm { x, weight, eps, offset, rounding, together, rotation: Rotation { cos, sin, style, layout, table } }
            .forward();
    /// The gradients of norm and rotation.
    fn qk_norm_rope_backward(x: Tensor, weight: Option<Tensor>, cos: Tensor, sin: Tensor, dy: Tensor, eps: Epsilon,
        offset: Finite, rounding: Rounding, together: bool, style: RopeStyle, layout: HeadLayout, table: TableLayout,
        wants_weight: bool) -> [dx, dweight]
        = HeadNorm { x, weight, eps, offset, rounding, together, rotation: Rotation { cos, sin, style, layout, table } }
            .backward(dy, wants_weight);
    /// Attention of heads `[batch, heads, rows, width]`; the result has the layout that is named. The last query sees the last
    /// key. A window is the largest number of keys that a query sees, 0 for all. A mask of bools,
    /// `[batch or 1, 1, queries, keys]`, has neighbouring keys in each row.
    fn attention(q: Tensor, k: Tensor, v: Tensor, bias: Option<Tensor>, sinks: Option<Tensor>, mask: Option<Tensor>,
        causal: bool, window: usize, scale: Finite, cap: Option<Limit>, layout: HeadLayout) -> [y, lse]
        = Attention { q, k, v, bias, sinks, mask, causal, window, scale, cap, layout }.forward();
    /// The gradients of attention, in the layout that is named. `dy` and `y` are `[batch, heads, rows, width]`.
    fn attention_backward(q: Tensor, k: Tensor, v: Tensor, bias: Option<Tensor>, sinks: Option<Tensor>, mask: Option<Tensor>,
        dy: Tensor, y: Tensor, lse: Tensor, causal: bool, window: usize, scale: Finite, cap: Option<Limit>,
        layout: HeadLayout, wants_bias: bool) -> [dq, dk, dv, dbias, dsinks]
        = Attention { q, k, v, bias, sinks, mask, causal, window, scale, cap, layout }.backward(dy, y, lse, wants_bias);
    /// A linear layer, `x · weight + bias`.
    fn linear(x: Tensor, weight: Tensor, bias: Option<Tensor>, layout: OutputLayout) -> [y]
        = linear::forward(x, weight, bias, layout);
    /// The gradients of a linear layer.
    fn linear_backward(x: Tensor, weight: Tensor, dy: Tensor, layout: OutputLayout, wants_x: bool, wants_weight: bool,
        wants_bias: bool) -> [dx, dweight, dbias]
        = linear::backward(x, weight, dy, layout, [wants_x, wants_weight, wants_bias]);
    /// The cross-entropy of logits `[tokens, classes]`. `lse` is kept for the gradient.
    fn cross_entropy(logits: Tensor, targets: Tensor, ignore_index: i64, label_smoothing: Part, cap: Option<Limit>,
        z_loss: Finite, reduction: LossReduction) -> [loss, lse]
        = Loss { targets, ignore_index, label_smoothing, cap, z_loss, reduction }.of_logits(logits);
    /// The gradient of the logits.
    fn cross_entropy_backward(logits: Tensor, targets: Tensor, lse: Tensor, dloss: Tensor, ignore_index: i64,
        label_smoothing: Part, cap: Option<Limit>, z_loss: Finite, reduction: LossReduction) -> [dlogits]
        = Loss { targets, ignore_index, label_smoothing, cap, z_loss, reduction }.gradient_of_logits(logits, lse, dloss);
    /// The cross-entropy of hidden states `[tokens, width]` and the weight of an output layer, `[classes, width]` or as the
    /// layout says, with the gradients for a gradient of the loss of 1, in f32, that of the weight as `[classes, width]`.
    fn linear_cross_entropy(hidden: Tensor, weight: Tensor, bias: Option<Tensor>, targets: Tensor, layout: OutputLayout,
        ignore_index: i64, label_smoothing: Part, cap: Option<Limit>, z_loss: Finite, reduction: LossReduction,
        wants_hidden: bool, wants_weight: bool, wants_bias: bool) -> [loss, dhidden, dweight, dbias]
        = OutputLayer {
            hidden, weight, bias, layout,
            loss: Loss { targets, ignore_index, label_smoothing, cap, z_loss, reduction },
        }.forward([wants_hidden, wants_weight, wants_bias]);
    /// The gradients of losses that are not reduced, for any gradient of these. Computes the logits again.
    fn linear_cross_entropy_backward(hidden: Tensor, weight: Tensor, bias: Option<Tensor>, targets: Tensor, dloss: Tensor,
        layout: OutputLayout, ignore_index: i64, label_smoothing: Part, cap: Option<Limit>, z_loss: Finite,
        reduction: LossReduction, wants_hidden: bool, wants_weight: bool, wants_bias: bool) -> [dhidden, dweight, dbias]
        = OutputLayer {
            hidden, weight, bias, layout,
            loss: Loss { targets, ignore_index, label_smoothing, cap, z_loss, reduction },
        }.backward(dloss, [wants_hidden, wants_weight, wants_bias]);
    /// A kept gradient of the linear cross-entropy times that of the loss, in the type of `like`.
    fn scaled(kept: Tensor, dloss: Tensor, like: Tensor) -> [gradient] = loss::scaled(kept, dloss, like);
    /// A step of AdamW in the memory of a parameter and its two moments. Steps are counted from 1.
    fn adam_w(parameter: Tensor, moment_1: Tensor, moment_2: Tensor, gradient: Tensor, learning_rate: Finite, beta_1: Beta,
        beta_2: Beta, epsilon: Epsilon, weight_decay: Finite, step: usize) -> []
        = AdamW { parameter, moment_1, moment_2, gradient, learning_rate, beta_1, beta_2, epsilon, weight_decay, step }.make();
    /// Experts of stacked weights: the sum of each token's experts, weighted by `routing` `[tokens, choices]`. `experts` are
    /// their numbers; one past the last stands for an expert elsewhere, which adds nothing. `kept` is for the gradient, if it
    /// is wanted.
    fn experts(x: Tensor, routing: Tensor, experts: Tensor, gate: Tensor, up: Option<Tensor>, down: Tensor,
        gate_bias: Option<Tensor>, up_bias: Option<Tensor>, down_bias: Option<Tensor>, activation: Activation,
        projections: Projections, layout: ExpertLayout, limit: Option<Limit>, up_offset: Finite, keep: bool) -> [y, kept]
        = Experts {
            x, routing, experts, weights: [Some(gate), up, Some(down), gate_bias, up_bias, down_bias],
            activation, projections, layout, limit, up_offset,
        }.forward(keep);
    /// The gradients of experts. Those of the weights are stacked as the weights are.
    fn experts_backward(x: Tensor, routing: Tensor, experts: Tensor, gate: Tensor, up: Option<Tensor>, down: Tensor,
        gate_bias: Option<Tensor>, up_bias: Option<Tensor>, down_bias: Option<Tensor>, dy: Tensor, kept: Tensor,
        activation: Activation, projections: Projections, layout: ExpertLayout, limit: Option<Limit>, up_offset: Finite,
        wants_x: bool, wants_routing: bool, wants_weights: bool)
        -> [dx, drouting, dgate, dup, ddown, dgate_bias, dup_bias, ddown_bias]
        = Experts {
            x, routing, experts, weights: [Some(gate), up, Some(down), gate_bias, up_bias, down_bias],
            activation, projections, layout, limit, up_offset,
        }.backward(dy, kept, [wants_x, wants_routing, wants_weights]);
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
