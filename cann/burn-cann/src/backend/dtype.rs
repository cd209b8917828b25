//! Conversions between the dtypes of Burn and CANN.

use burn_backend::{BoolStore, DType as Burn};

use super::error::{Error, Result};
use crate::DType;

/// Returns the dtype in which CANN stores elements of a dtype of Burn. `Flex32` is f32 here, as on the host.
pub(super) fn device(dtype: Burn) -> Result<DType> {
    Ok(match dtype {
        Burn::F64 => DType::F64,
        Burn::F32 | Burn::Flex32 => DType::F32,
        Burn::F16 => DType::F16,
        Burn::BF16 => DType::BF16,
        Burn::I64 => DType::I64,
        Burn::I32 => DType::I32,
        Burn::I16 => DType::I16,
        Burn::I8 => DType::I8,
        Burn::U64 => DType::U64,
        Burn::U32 => DType::U32,
        Burn::U16 => DType::U16,
        Burn::U8 => DType::U8,
        Burn::Bool(BoolStore::Native | BoolStore::U8) => DType::Bool,
        Burn::Bool(BoolStore::U32) => {
            let instead = "truth values of one byte (BoolStore::Native)";
            return Err(Error::Dtype { dtype, instead });
        }
        Burn::QFloat(_) => {
            let instead = "floats, or use the operations on quantised tensors,";
            return Err(Error::Dtype { dtype, instead });
        }
    })
}

/// Returns the dtype that tensors of `dtype` report.
pub(super) fn canonical(dtype: Burn) -> Burn {
    match dtype {
        Burn::Flex32 => Burn::F32,
        other => other,
    }
}

/// Returns the dtype of Burn that is stored as `dtype`. Booleans are native ones.
pub fn burn(dtype: DType) -> Burn {
    match dtype {
        DType::F64 => Burn::F64,
        DType::F32 => Burn::F32,
        DType::F16 => Burn::F16,
        DType::BF16 => Burn::BF16,
        DType::I64 => Burn::I64,
        DType::I32 => Burn::I32,
        DType::I16 => Burn::I16,
        DType::I8 => Burn::I8,
        DType::U64 => Burn::U64,
        DType::U32 => Burn::U32,
        DType::U16 => Burn::U16,
        DType::U8 => Burn::U8,
        DType::Bool => Burn::Bool(BoolStore::Native),
    }
}
