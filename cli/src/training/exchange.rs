//! What ranks exchange besides the sums of gradients: digests of weights, the kernels that they run, the load of experts,
//! and the parts of a divided optimiser.

pub mod balance;
pub mod early;
pub mod kernels;
pub mod sharded;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;
use sha2::{Digest, Sha256};

/// Returns a digest of all parameters of a model.
///
/// # Errors
/// Returns an error if the device fails.
pub fn digest<M: Module>(model: &M) -> anyhow::Result<[u8; 32]> {
    struct Bits {
        digest: Sha256,
        failure: Option<anyhow::Error>,
    }
    impl ModuleVisitor for Bits {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            match param.val().without_autodiff().try_into_data() {
                Ok(data) => self.digest.update(data.as_bytes()),
                Err(error) => self.failure = Some(error.into()),
            }
        }
    }
    let mut bits = Bits {
        digest: Sha256::new(),
        failure: None,
    };
    model.visit(&mut bits);
    match bits.failure {
        Some(error) => Err(error),
        None => Ok(bits.digest.finalize().into()),
    }
}

#[cfg(test)]
mod tests;
