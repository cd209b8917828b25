use serde::{Serialize, Serializer};

/// The gradients of an implementation.
///
/// The JSON form is `false`, `true` or `"reference"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gradient {
    /// No gradient. The implementation is never chosen for tensors with autodiff.
    None,
    /// The implementation's own gradient, as a step of autodiff that it records.
    Kernel,
    /// The gradients of the reference. The implementation computes the results, and the backward pass runs the
    /// reference on the same operands under autodiff, in f32 for half types. The operands are kept until then. The
    /// backward pass takes the time of the reference, forward and backward, once for each result. While it runs, it
    /// needs the memory of everything that the reference keeps.
    Reference,
}

impl Gradient {
    /// Returns `true` if there are gradients.
    pub const fn is_some(self) -> bool {
        !matches!(self, Self::None)
    }

    /// Returns the JSON form.
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
