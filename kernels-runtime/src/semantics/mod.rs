//! Semantics keys: every parameter that changes the maths of an operation.
//!
//! A kernel may replace a layer only if both have the same key. Keys are small, comparable and printable. They are
//! written into the built file with each annotated site.

mod custom;
mod dtypes;
mod read;

pub use crate::ops::moe::router::key::*;
pub use custom::CustomKey;
pub(crate) use dtypes::{compute_dtype, differ};

use crate::mode::Mode;
use crate::ops::operations;
use burn::tensor::DType;
use serde::Serialize;
use std::fmt;

/// Returns a printed key in the form of an attribute's settings, with `offset = 0` in place of `offset=0`.
///
/// ```
/// # extern crate kernels_runtime as burn_kernels;
/// use burn_kernels::semantics::{RmsNormKey, as_written};
///
/// let text = as_written(RmsNormKey::LLAMA);
/// assert_eq!(text, "rms_norm(offset = 0, rounding = llama)");
/// ```
pub fn as_written(key: impl fmt::Display) -> String {
    // Names and values contain no equals sign.
    key.to_string().replace('=', " = ")
}

/// The purpose of an optimiser's call.
pub(crate) const STEP: &str = "optimiser step";

/// The key of a built-in operation.
pub(crate) trait OperationKey: Copy + fmt::Display + Into<SemanticsKey> {
    /// Returns the key, if it belongs to this operation.
    fn of(key: &SemanticsKey) -> Option<Self>;
}

/// The rules for the dtypes of an operation's operands.
pub(crate) trait Dtypes {
    /// Returns `true` if kernels do not take operands of these dtypes together. Most take operands of one dtype.
    fn mixes(&self, dtypes: impl ExactSizeIterator<Item = DType>) -> bool {
        differ(dtypes)
    }
}

macro_rules! keys {
    (
        sites { $(
            #[doc = $doc:literal]
            $Op:ident {
                name: $name:ident, at: $($at:ident)::+, kernel: $Kernel:path, key: $Key:ident of $op:literal,
            }
        )+ }
        parts { $($parts:tt)+ }
    ) => {
        $(pub use crate::ops::$($at)::+::key::*;)+

        /// The identity of an operation: its name and every parameter that changes its result.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
        #[serde(tag = "op")]
        pub enum SemanticsKey {
            $(
                #[doc = $doc]
                #[serde(rename = $op)]
                $Op($Key),
            )+
            /// An operation of another crate.
            #[serde(untagged)]
            Custom(CustomKey),
        }

        impl SemanticsKey {
            /// Returns the operation's name, as in [`KernelSpec::op`](crate::registry::KernelSpec).
            pub const fn op(&self) -> &'static str {
                match self {
                    $(Self::$Op(_) => $op,)+
                    Self::Custom(key) => key.op(),
                }
            }
        }

        impl SemanticsKey {
            /// Returns `true` if kernels do not take operands of these dtypes together.
            #[inline]
            pub(crate) fn mixes(&self, dtypes: impl ExactSizeIterator<Item = DType>) -> bool {
                match self {
                    $(Self::$Op(key) => key.mixes(dtypes),)+
                    Self::Custom(_) => differ(dtypes),
                }
            }
        }

        impl fmt::Display for SemanticsKey {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$Op(key) => key.fmt(f),)+
                    Self::Custom(key) => key.fmt(f),
                }
            }
        }

        $(
            impl From<$Key> for SemanticsKey {
                fn from(key: $Key) -> Self {
                    Self::$Op(key)
                }
            }

            impl OperationKey for $Key {
                fn of(key: &SemanticsKey) -> Option<Self> {
                    match key {
                        SemanticsKey::$Op(key) => Some(*key),
                        _ => None,
                    }
                }
            }
        )+
    };
}
operations!(keys);

impl SemanticsKey {
    /// Returns `true` if gradients flow through the operation. An optimiser's step has none, because it works on
    /// tensors without autodiff.
    pub const fn is_differentiable(&self) -> bool {
        !matches!(self, Self::AdamW(_))
    }

    /// Returns the purpose of a call in words. An optimiser's step has the mode inference, although it is part of
    /// training.
    pub(crate) const fn purpose(&self, mode: Mode) -> &'static str {
        match (self.is_differentiable(), mode) {
            (false, _) => STEP,
            (true, Mode::Training) => "training",
            (true, Mode::Inference) => "inference",
        }
    }

    /// Returns the key as one of a given operation, which it must belong to. An implementation's limits are checked
    /// only for keys that it accepts, and the attribute gives a site a key of its operation.
    pub(crate) fn known<K: OperationKey>(&self) -> K {
        K::of(self).unwrap_or_else(|| unreachable!("{self} is the key of another operation"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_say_their_operation_in_json() {
        let keys = [
            SemanticsKey::RmsNorm(RmsNormKey::GEMMA),
            SemanticsKey::Glu(GluKey::SWIGLU),
            SemanticsKey::Rope(RopeKey::LLAMA),
            SemanticsKey::MoeExperts(MoeExpertsKey::QWEN3),
            SemanticsKey::MoeBlock(MoeBlockKey::QWEN2_MOE),
            SemanticsKey::Custom(CustomKey::new("soft_cap", &[("base", "tanh")])),
        ];
        for key in keys {
            let json = serde_json::to_value(key).unwrap();
            assert_eq!(json["op"], key.op());
            assert!(json.as_object().unwrap().len() > 1, "{json}");
        }
        let part = |key: usize| serde_json::to_value(keys[key]).unwrap()["part"].clone();
        assert_eq!((part(3), part(4)), ("experts".into(), "block".into()));
        let json = serde_json::to_string(&keys[5]).unwrap();
        assert_eq!(json, r#"{"op":"soft_cap","base":"tanh"}"#);
        let json = serde_json::to_string(&SemanticsKey::AdamW(AdamWKey)).unwrap();
        assert_eq!(json, r#"{"op":"adam_w"}"#);
    }

    #[test]
    fn a_step_is_no_inference() {
        let norm = SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
        for mode in [Mode::Training, Mode::Inference] {
            assert_eq!(norm.purpose(mode), mode.to_string());
            assert_eq!(SemanticsKey::AdamW(AdamWKey).purpose(mode), STEP);
        }
    }

    #[test]
    fn keys_print_the_parameters_that_are_not_usual() {
        let text = |key: SemanticsKey| key.to_string();
        assert_eq!(
            text(SemanticsKey::RmsNorm(RmsNormKey::GEMMA)),
            "rms_norm(offset=1, rounding=gemma)"
        );
        let rope = RopeKey {
            style: RopeStyle::Interleaved,
            width: RotaryWidth::Partial,
            layout: HeadLayout::Bsnd,
            table: TableLayout::Pairs,
            ..RopeKey::LLAMA
        };
        assert_eq!(
            text(SemanticsKey::Rope(rope)),
            "rope(style=interleaved, width=partial, layout=bsnd, table=pairs)"
        );
        let glu = GluKey {
            activation: Activation::QuickGelu,
            projections: Projections::Interleaved,
            clamp: Clamp::Limit,
            up_offset: Offset::One,
            topk: TopK::None,
        };
        assert_eq!(
            text(SemanticsKey::Glu(glu)),
            "glu(activation=quick_gelu, projections=interleaved, clamp=limit, up_offset=1)"
        );
        assert_eq!(
            text(SemanticsKey::MoeExperts(MoeExpertsKey::QWEN3)),
            "moe(activation=silu, projections=chunked, layout=linear)"
        );
        assert_eq!(
            text(SemanticsKey::MoeExperts(MoeExpertsKey::GPT_OSS)),
            "moe(activation=quick_gelu, projections=interleaved, layout=matmul, clamp=limit, \
             up_offset=1, bias=all)"
        );
    }
}
