//! What CANN's operators take, asked before a call is sent: of the tensors only types and shapes are
//! known there. How they lie is not; what CANN takes contiguous only is copied on the device.

use super::{Refused, Seen};
use crate::reason::Reason;
use crate::remote::with_platform;
use burn::backend::{DispatchTensor, TensorMetadata};
use burn_cann::{DType, Platform, Soc, Spec, Version};
use smallvec::SmallVec;

const SOC: &str = "soc";
const CANN: &str = "cann";
const VECTOR_CORES: &str = "vector_cores";

/// A platform, as a server declares it.
pub(crate) fn facts(platform: &Platform) -> Vec<(String, String)> {
    let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut facts = vec![fact(SOC, platform.soc.name())];
    facts.extend(platform.version.text().map(|text| fact(CANN, text)));
    let cores = platform.vector_cores.map(|cores| cores.to_string());
    facts.extend(cores.map(|cores| fact(VECTOR_CORES, &cores)));
    facts
}

/// Undoes [`facts`], once for each device: what is asked on every call has it parsed.
pub(crate) fn platform(facts: &[(String, String)]) -> Platform {
    let fact = |name: &str| {
        let found = facts.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    };
    Platform {
        soc: fact(SOC).map_or_else(Soc::unknown, Soc::from_name),
        version: fact(CANN).map_or_else(Version::unknown, Version::new),
        vector_cores: fact(VECTOR_CORES).and_then(|cores| cores.parse().ok()),
    }
}

/// What `decide` says of tensors of these types and shapes on the first one's device.
///
/// It is asked on every call, cached decisions included: a few integers are compared, and the table of remote
/// devices is read once. Up to four tensors of up to five dimensions nothing is allocated here, and nothing by what
/// operations decide where they take the call; but for experts and grouped products, whose weights are put into
/// lists. Burn copies the address of the server when it names a tensor's device. A refusal allocates its words.
pub(crate) fn ask<T>(
    tensors: &[&DispatchTensor],
    decide: impl FnOnce(&Platform, Specs) -> Result<T, Refused>,
) -> Result<(), Reason> {
    let specs = tensors.iter().map(|tensor| spec(tensor));
    let specs = specs.collect::<Result<SmallVec<[_; 4]>, _>>()?;
    let specs = Specs(specs.into_iter());
    let decided = with_platform(tensors[0], |platform| decide(platform, specs));
    match decided.ok_or(Reason::CannotLoad)? {
        Ok(_) => Ok(()),
        Err(refused) => {
            tracing::debug!("refused by CANN's operators: {refused}");
            Err(refused.reason)
        }
    }
}

/// The tensors of a call, one after the other.
pub(crate) struct Specs(smallvec::IntoIter<[Spec; 4]>);

impl Specs {
    /// Takes the next one.
    pub(crate) fn one(&mut self) -> Seen<Spec> {
        self.next().expect("as many operands as the key has")
    }

    /// Takes the next one if the key has it.
    pub(crate) fn one_if(&mut self, there: bool) -> Option<Seen<Spec>> {
        there.then(|| self.one())
    }
}

impl Iterator for Specs {
    type Item = Seen<Spec>;

    fn next(&mut self) -> Option<Seen<Spec>> {
        self.0.next().map(Seen)
    }
}

fn spec(tensor: &DispatchTensor) -> Result<Spec, Reason> {
    contiguous(
        dtype(tensor.dtype()).ok_or(Reason::Dtype)?,
        tensor.shape().as_slice(),
    )
}

fn contiguous(dtype: DType, shape: &[usize]) -> Result<Spec, Reason> {
    Spec::contiguous(dtype, shape).map_err(|_| Reason::Shape)
}

/// CANN's name of a type of Burn's.
pub(crate) fn dtype(dtype: burn::tensor::DType) -> Option<DType> {
    use burn::tensor::DType as Burn;
    Some(match dtype {
        Burn::F64 => DType::F64,
        Burn::F32 => DType::F32,
        Burn::F16 => DType::F16,
        Burn::BF16 => DType::BF16,
        Burn::I64 => DType::I64,
        Burn::I32 => DType::I32,
        _ => return None,
    })
}

/// Integers of this shape, as specs of experts' indices.
pub(crate) fn indices(shape: &[usize]) -> Result<Spec, Refused> {
    Ok(Spec::contiguous(DType::I32, shape)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platform_is_told_and_understood() {
        let told = Platform {
            soc: Soc::from_name("Ascend910B3"),
            version: Version::new("8.5.0"),
            vector_cores: Some(40),
        };
        let understood = platform(&facts(&told));
        assert_eq!(understood.soc, told.soc);
        assert_eq!(understood.version.text(), told.version.text());
        assert_eq!(understood.vector_cores, told.vector_cores);
        let unknown = platform(&[]);
        assert_eq!((unknown.soc, unknown.vector_cores), (Soc::unknown(), None));
    }
}
