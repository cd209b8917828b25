//! The dtype of stored weights.

use burn::tensor::{DType, FloatDType};

use super::fields::Fields;
use crate::ModelError;

/// A floating-point type in which checkpoints store weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoredDtype {
    /// IEEE half precision, 16 bits.
    F16,
    /// bfloat16, the upper half of an `f32`.
    BF16,
    /// IEEE single precision, 32 bits.
    F32,
    /// IEEE double precision, 64 bits.
    F64,
}

impl StoredDtype {
    const ALL: [Self; 4] = [Self::F16, Self::BF16, Self::F32, Self::F64];

    /// Returns the name in `config.json`.
    pub fn config_name(self) -> &'static str {
        match self {
            Self::F16 => "float16",
            Self::BF16 => "bfloat16",
            Self::F32 => "float32",
            Self::F64 => "float64",
        }
    }

    /// Returns the stored type of a tensor's dtype, if there is one.
    pub fn from_dtype(dtype: DType) -> Option<Self> {
        match dtype {
            DType::F16 => Some(Self::F16),
            DType::BF16 => Some(Self::BF16),
            DType::F32 => Some(Self::F32),
            DType::F64 => Some(Self::F64),
            _ => None,
        }
    }

    /// Returns the tensor dtype that holds this type exactly.
    pub fn float_dtype(self) -> FloatDType {
        match self {
            Self::F16 => FloatDType::F16,
            Self::BF16 => FloatDType::BF16,
            Self::F32 => FloatDType::F32,
            Self::F64 => FloatDType::F64,
        }
    }

    /// Reads `dtype` (`transformers` 5) or `torch_dtype` (4).
    pub(super) fn parse(fields: Fields<'_>) -> Result<Option<Self>, ModelError> {
        let new = Self::parse_field(fields, "dtype")?;
        let old = Self::parse_field(fields, "torch_dtype")?;
        match (new, old) {
            (Some(new), Some(old)) if new != old => {
                let problem = format!("contradicts `dtype`, which is {}", new.config_name());
                Err(fields.error("torch_dtype", problem))
            }
            (new, old) => Ok(new.or(old)),
        }
    }

    fn parse_field(fields: Fields<'_>, name: &str) -> Result<Option<Self>, ModelError> {
        let Some(text) = fields.string(name)? else {
            return Ok(None);
        };
        let plain = text.strip_prefix("torch.").unwrap_or(text);
        let found = Self::ALL
            .into_iter()
            .find(|known| known.config_name() == plain);
        if found.is_none() {
            let known = Self::ALL.map(Self::config_name).join(", ");
            return Err(fields.error(
                name,
                format!("`{text}` is not supported; supported: {known}"),
            ));
        }
        Ok(found)
    }
}
