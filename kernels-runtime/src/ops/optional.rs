use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType};

/// A tensor that some variants of an operation take and others don't. Backend extensions pass
/// `Option` through as it is, without turning the tensor in it into the backend's.
#[derive(ExtensionType)]
pub enum Optional<B: Backend> {
    /// There is none.
    None,
    /// There is one.
    Some(FloatTensor<B>),
}

impl<B: Backend> std::fmt::Debug for Optional<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Some(_) => "Some(..)",
        })
    }
}

impl<B: Backend> From<Option<FloatTensor<B>>> for Optional<B> {
    fn from(tensor: Option<FloatTensor<B>>) -> Self {
        tensor.map_or(Self::None, Self::Some)
    }
}

impl<B: Backend> Optional<B> {
    /// As the standard library's.
    pub fn into_option(self) -> Option<FloatTensor<B>> {
        match self {
            Self::None => None,
            Self::Some(tensor) => Some(tensor),
        }
    }
}
