use serde::{Serialize, Serializer};

/// The gradients of an implementation.
///
/// In JSON `false`, `true` or `"reference"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gradient {
    /// It has none, and is never chosen for tensors with autodiff.
    None,
    /// It has its own, as a step of autodiff that it records.
    Kernel,
    /// Those of the reference: the implementation computes the results, and the backward pass runs the reference
    /// on the same operands under autodiff, in f32 for half types. The operands are kept until then. It takes the time of the reference,
    /// forward and backward, once for each result, and while it runs the memory of what the reference keeps.
    Reference,
}

impl Gradient {
    /// Whether there are gradients.
    pub const fn is_some(self) -> bool {
        !matches!(self, Self::None)
    }

    /// Its JSON.
    pub(crate) const fn json(self) -> &'static str {
        match self {
            Self::None => "false",
            Self::Kernel => "true",
            Self::Reference => "\"reference\"",
        }
    }
}

impl Serialize for Gradient {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Reference => serializer.serialize_str("reference"),
            own => serializer.serialize_bool(own.is_some()),
        }
    }
}
