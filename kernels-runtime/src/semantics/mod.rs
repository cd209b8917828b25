//! Semantics keys: every parameter that changes the maths of an operation.
//!
//! A kernel may stand in for a layer only if both carry the same key. Keys are small, comparable
//! and printable; they are written into the built file beside each annotated site.

mod custom;
mod dtypes;

pub use crate::ops::moe::router::key::*;
pub use custom::CustomKey;
pub(crate) use dtypes::{compute_dtype, differ};

use crate::ops::operations;
use burn::tensor::DType;
use serde::Serialize;
use std::fmt;

/// The key of a built-in operation.
pub(crate) trait OperationKey: Copy + fmt::Display + Into<SemanticsKey> {
    /// The key, if it is one of this operation.
    fn of(key: &SemanticsKey) -> Option<Self>;
}

/// The dtypes that the operands of an operation may have together.
pub(crate) trait Dtypes {
    /// Whether a kernel takes no operands of these dtypes together. Most take one dtype.
    fn mixes(&self, dtypes: impl ExactSizeIterator<Item = DType>) -> bool {
        differ(dtypes)
    }
}

macro_rules! keys {
    (
        sites { $(
            #[doc = $doc:literal]
            $Op:ident {
                name: $name:ident, at: $($at:ident)::+, kernel: $Kernel:ident, key: $Key:ident of $op:literal,
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
            /// The operation's name, as kernels state it in
            /// [`KernelSpec::op`](crate::registry::KernelSpec).
            pub const fn op(&self) -> &'static str {
                match self {
                    $(Self::$Op(_) => $op,)+
                    Self::Custom(key) => key.op(),
                }
            }
        }

        impl SemanticsKey {
            /// Whether a kernel takes no operands of these dtypes together.
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
    /// Whether gradients flow through the operation. An optimiser's step has none: it works on what
    /// autodiff has left behind.
    pub const fn is_differentiable(&self) -> bool {
        !matches!(self, Self::AdamW(_))
    }

    /// The key of an operation that it is known to be one of: an implementation's limits are asked of the
    /// keys that it accepts, and the attribute gives a site the key of its operation.
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
