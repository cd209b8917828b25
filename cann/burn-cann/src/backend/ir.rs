//! Support for Burn's intermediate representation, which servers of remote devices need.

use burn_ir::{BackendIr, HandleKind, TensorHandle};

use super::CannBackend;
use super::tensor::{CannQTensor, CannTensor};

fn plain(handle: TensorHandle<HandleKind<CannBackend>>, wanted: &str) -> CannTensor {
    match handle.handle {
        HandleKind::Float(tensor) | HandleKind::Int(tensor) | HandleKind::Bool(tensor) => tensor,
        HandleKind::Quantized(_) => panic!("a quantised tensor where {wanted} is expected"),
    }
}

impl BackendIr for CannBackend {
    type Handle = HandleKind<Self>;

    fn float_tensor(handle: TensorHandle<Self::Handle>) -> CannTensor {
        plain(handle, "a float tensor")
    }

    fn int_tensor(handle: TensorHandle<Self::Handle>) -> CannTensor {
        plain(handle, "an int tensor")
    }

    fn bool_tensor(handle: TensorHandle<Self::Handle>) -> CannTensor {
        plain(handle, "a bool tensor")
    }

    fn quantized_tensor(handle: TensorHandle<Self::Handle>) -> CannQTensor {
        match handle.handle {
            HandleKind::Quantized(tensor) => tensor,
            other => panic!("{} where a quantised tensor is expected", other.name()),
        }
    }

    fn float_tensor_handle(tensor: CannTensor) -> Self::Handle {
        HandleKind::Float(tensor)
    }

    fn int_tensor_handle(tensor: CannTensor) -> Self::Handle {
        HandleKind::Int(tensor)
    }

    fn bool_tensor_handle(tensor: CannTensor) -> Self::Handle {
        HandleKind::Bool(tensor)
    }

    fn quantized_tensor_handle(tensor: CannQTensor) -> Self::Handle {
        HandleKind::Quantized(tensor)
    }
}
