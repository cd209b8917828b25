use crate::ops::Mismatch;
use crate::reason::Reason;
use burn_cann::ops::{Kind, Refusal};
use burn_cann::{DType, Spec};

/// The reason why CANN's operators do not compute a call, as a [`Reason`] that dispatch counts and in words.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Refused {
    /// The reason, as in reports and policies.
    pub reason: Reason,
    /// The operand or setting that is refused, and the values that are accepted.
    pub why: String,
}

/// The reason why a call was not computed.
#[derive(Clone, thiserror::Error)]
pub enum NpuError {
    /// The call was refused before CANN was called.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// CANN failed, or refused an operand.
    #[error(transparent)]
    Cann(#[from] burn_cann::Error),
}

impl Refused {
    pub(crate) fn new(reason: Reason, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { reason, why }
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        let reason = match (&refusal, refusal.kind()) {
            (Refusal::Processor { .. }, _) => Reason::Capability,
            (_, Kind::Platform) => Reason::CannotLoad,
            (_, Kind::Dtype) => Reason::Dtype,
            (_, Kind::Shape) => Reason::Shape,
            (_, Kind::Layout) => Reason::Layout,
            // An invalid parameter, which no operator computes.
            _ => Reason::Semantics,
        };
        Self::new(reason, refusal.to_string())
    }
}

impl From<Mismatch> for Refused {
    fn from(mismatch: Mismatch) -> Self {
        Self::new(Reason::Shape, mismatch.to_string())
    }
}

impl From<burn_cann::LayoutError> for Refused {
    fn from(error: burn_cann::LayoutError) -> Self {
        Refusal::from(error).into()
    }
}

impl From<burn_cann::LayoutError> for NpuError {
    fn from(error: burn_cann::LayoutError) -> Self {
        Self::Cann(error.into())
    }
}

/// Checks that all operands have the same type and that CANN's operators compute in it.
pub(crate) fn one_float<'a>(
    first: (&'a str, &'a Spec),
    others: impl IntoIterator<Item = (&'a str, &'a Spec)>,
) -> Result<DType, Refused> {
    let dtype = first.1.dtype;
    for (name, spec) in std::iter::once(first).chain(others) {
        if ![DType::F32, DType::F16, DType::BF16].contains(&spec.dtype) {
            let why = format!(
                "{name} is of type {}; CANN computes in f32, f16 and bf16",
                spec.dtype
            );
            return Err(Refused::new(Reason::Dtype, why));
        }
        if spec.dtype != dtype {
            let why = format!("{name} is of type {}, {} of {dtype}", spec.dtype, first.0);
            return Err(Refused::new(Reason::MixedDtypes, why));
        }
    }
    Ok(dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_operators_have_dispatch_s_reasons() {
        let soc = || "Ascend910A".to_owned();
        let of = |refusal: Refusal| {
            let words = refusal.to_string();
            let refused = Refused::from(refusal);
            assert_eq!(refused.to_string(), words);
            refused.reason
        };
        let processor = Refusal::Processor {
            what: "RmsNorm",
            soc: soc(),
        };
        assert_eq!(of(processor), Reason::Capability);
        let version = Refusal::Version {
            what: "it",
            needed: "9.0",
            found: "8.5".to_owned(),
        };
        assert_eq!(of(version), Reason::CannotLoad);
        let dtype = Refusal::Dtype {
            operand: "x",
            found: DType::F64,
            expected: "f32".to_owned(),
        };
        assert_eq!(of(dtype), Reason::Dtype);
        assert_eq!(of(Refusal::Empty { operand: "x" }), Reason::Shape);
        assert_eq!(of(Refusal::Strides { operand: "x" }), Reason::Layout);
        let value = Refusal::Value {
            what: "k",
            found: "0".to_owned(),
            expected: "positive",
        };
        assert_eq!(of(value), Reason::Semantics);
    }
}
