use crate::npu::backend::BASE;
use crate::npu::limits::ask;
use crate::ops::fused::{Made, OfDispatch, OpLaunch, run};
use crate::ops::glu::packing::{self, PackingGlu};
use crate::ops::glu::{Glu, Launch, Operands, Projected, Settings, npu};
use crate::ops::operands::checked;
use crate::reason::Reason;
use crate::registry::{self, FloatType, Gradient, Implementation};
use crate::semantics::{Clamp, GluKey, Projections, SemanticsKey, TopK};
use burn::backend::{DispatchTensor, Remote};

/// The fused operators, of a packed copy if gate and up are two tensors.
pub(crate) const PACKING: Implementation = Implementation {
    name: "aclnn-swiglu",
    accepts: |key| matches!(key, SemanticsKey::Glu(key) if npu::of_implementation(*key, true).is_ok()),
    limits: Some(limits),
    operators: Some(|key, float, _| operators(key.known(), true, float)),
    launch: registry::Launch::Glu(Launch(OpLaunch::by::<Glu>(
        const { &(packed as fn(OfDispatch<Glu>) -> Made<DispatchTensor>) },
    ))),
    ..BASE
};

/// Activation and product, in training.
pub(crate) const TRAINING: Implementation = Implementation {
    name: "aclnn-silu-mul",
    accepts: |key| matches!(key, SemanticsKey::Glu(key) if npu::of_implementation(*key, false).is_ok()),
    limits: Some(limits),
    operators: Some(|key, float, _| operators(key.known(), false, float)),
    launch: registry::Launch::Glu(Launch(OpLaunch::of::<Glu, Remote>())),
    ..BASE
};

/// The same without a gradient. It stands before [`PACKING`], because it moves less in inference, and training skips it.
pub(crate) const INFERENCE: Implementation = Implementation {
    gradient: Gradient::None,
    ..TRAINING
};

fn operators(key: GluKey, packs: bool, float: FloatType) -> Result<Vec<&'static str>, String> {
    let plan = npu::of_implementation(key, packs).map_err(|refused| refused.why)?;
    Ok(plan.forward(float != FloatType::F32))
}

fn limits(key: &SemanticsKey, tensors: &[&DispatchTensor]) -> Result<(), Reason> {
    let key: GluKey = key.known();
    // Any numbers in their ranges: they change no limit.
    let settings = Settings {
        limit: (key.clamp == Clamp::Limit).then_some(1.0),
        sparsity: (key.topk == TopK::Gaussian).then_some(0.5),
    };
    ask(tensors, |platform, mut specs| {
        let first = specs.one();
        let up = specs.one_if(key.projections == Projections::Separate);
        npu::decide(platform, &Operands::new(first, up, settings, key)?)
    })
}

/// Runs a unit by the fused operators.
fn packed(operands: OfDispatch<Glu>) -> Made<DispatchTensor> {
    let (settings, key) = (operands.settings(), operands.key());
    match operands.into_projected() {
        Projected::Separate { gate, up } => {
            run::<PackingGlu, Remote>(checked(packing::Operands::new(gate, up, key)))
        }
        packed => run::<Glu, Remote>(checked(Operands::of_projected(packed, settings, key))),
    }
}
