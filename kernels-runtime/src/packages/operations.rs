//! The operations that functions of packages may compute.

use super::On;
use super::run::held;
use crate::ops::fused::FusedOp;
use crate::ops::glu::{self, Glu};
use crate::ops::layer_norm::{self, LayerNorm};
use crate::ops::rms_norm::{self, RmsNorm};
use crate::ops::softcap::{self, Softcap};
use crate::registry::Launch;
use crate::semantics::{
    Clamp, Gating, Groups, Projections, Scale, SemanticsKey, Shift, SoftcapKey, TopK,
};
use kernels_packages::Bound;
use smallvec::{SmallVec, smallvec};

/// A number of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    /// The call has none.
    Absent,
    Int(i64),
    Float(f64),
}

/// An operation that functions of packages may compute. It has single tensors, one result, and no tensors of integers.
pub(super) trait Bindable: FusedOp {
    /// The names of the tensors that the forward pass keeps for the backward pass, in order.
    const KEPT: &'static [&'static str];
    /// The names of the numbers.
    const NUMBERS: &'static [&'static str];

    /// Returns the numbers of a call, in order.
    fn numbers(numbers: &Self::Numbers) -> SmallVec<[Number; 2]>;

    /// Returns the key of a call.
    fn key(numbers: &Self::Numbers) -> SemanticsKey;

    /// Returns a flag for each float tensor: true if calls with this key have it.
    fn has(key: &SemanticsKey) -> SmallVec<[bool; 5]>;

    /// Returns a flag for each number: true if results of calls with this key depend on it.
    fn has_numbers(key: &SemanticsKey) -> SmallVec<[bool; 2]>;
}

/// The description of such an operation.
pub(super) struct Operation {
    /// The name, as keys have it.
    pub(super) name: &'static str,
    /// The id of the linked kernel.
    pub(super) kernel: &'static str,
    /// True if functions on NPUs may compute it.
    pub(super) on_npus: bool,
    /// Returns the launch of a function of a package, which is named first, for its key.
    pub(super) launch:
        fn(&'static str, &Bound, &'static SemanticsKey, On) -> Result<Launch, String>,
}

/// All of them.
pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        name: RmsNorm::NAME,
        kernel: RmsNorm::KERNEL,
        on_npus: true,
        launch: |name, bound, key, on| {
            let launch = held::<RmsNorm>(name, bound, key, on)?;
            Ok(Launch::RmsNorm(rms_norm::Launch(launch)))
        },
    },
    Operation {
        name: LayerNorm::NAME,
        kernel: LayerNorm::KERNEL,
        on_npus: true,
        launch: |name, bound, key, on| {
            let launch = held::<LayerNorm>(name, bound, key, on)?;
            Ok(Launch::LayerNorm(layer_norm::Launch(launch)))
        },
    },
    Operation {
        name: Glu::NAME,
        kernel: Glu::KERNEL,
        on_npus: true,
        launch: |name, bound, key, on| {
            Ok(Launch::Glu(glu::Launch(held::<Glu>(name, bound, key, on)?)))
        },
    },
    Operation {
        name: Softcap::NAME,
        kernel: Softcap::KERNEL,
        on_npus: false,
        launch: |name, bound, key, on| {
            let launch = held::<Softcap>(name, bound, key, on)?;
            Ok(Launch::Softcap(softcap::Launch(launch)))
        },
    },
];

impl Bindable for RmsNorm {
    const KEPT: &'static [&'static str] = &["rstd"];
    const NUMBERS: &'static [&'static str] = &["eps", "group_size"];

    fn numbers((settings, _): &Self::Numbers) -> SmallVec<[Number; 2]> {
        // A group is a part of an axis in memory.
        let in_memory = |size: usize| i64::try_from(size).expect("a size below 2^63");
        let size = settings.group_size.map(in_memory);
        smallvec![
            Number::Float(settings.eps),
            size.map_or(Number::Absent, Number::Int),
        ]
    }

    fn key((_, key): &Self::Numbers) -> SemanticsKey {
        (*key).into()
    }

    fn has(key: &SemanticsKey) -> SmallVec<[bool; 5]> {
        let key = key.known::<crate::semantics::RmsNormKey>();
        smallvec![
            true,
            key.scale == Scale::Weight,
            key.gating != Gating::None,
            key.shift == Shift::Bias,
        ]
    }

    fn has_numbers(key: &SemanticsKey) -> SmallVec<[bool; 2]> {
        let key = key.known::<crate::semantics::RmsNormKey>();
        smallvec![true, key.groups == Groups::Many]
    }
}

impl Bindable for LayerNorm {
    const KEPT: &'static [&'static str] = &["mean", "rstd"];
    const NUMBERS: &'static [&'static str] = &["eps"];

    fn numbers((settings, _): &Self::Numbers) -> SmallVec<[Number; 2]> {
        smallvec![Number::Float(settings.eps)]
    }

    fn key((_, key): &Self::Numbers) -> SemanticsKey {
        (*key).into()
    }

    fn has(key: &SemanticsKey) -> SmallVec<[bool; 5]> {
        let key = key.known::<crate::semantics::LayerNormKey>();
        smallvec![true, true, key.shift == Shift::Bias]
    }

    fn has_numbers(_: &SemanticsKey) -> SmallVec<[bool; 2]> {
        smallvec![true]
    }
}

impl Bindable for Glu {
    const KEPT: &'static [&'static str] = &[];
    const NUMBERS: &'static [&'static str] = &["limit", "sparsity"];

    fn numbers((settings, _): &Self::Numbers) -> SmallVec<[Number; 2]> {
        let numbers = [settings.limit, settings.sparsity].into_iter();
        numbers
            .map(|number| number.map_or(Number::Absent, Number::Float))
            .collect()
    }

    fn key((_, key): &Self::Numbers) -> SemanticsKey {
        (*key).into()
    }

    fn has(key: &SemanticsKey) -> SmallVec<[bool; 5]> {
        let key = key.known::<crate::semantics::GluKey>();
        smallvec![true, key.projections == Projections::Separate]
    }

    fn has_numbers(key: &SemanticsKey) -> SmallVec<[bool; 2]> {
        let key = key.known::<crate::semantics::GluKey>();
        smallvec![key.clamp == Clamp::Limit, key.topk == TopK::Gaussian]
    }
}

impl Bindable for Softcap {
    const KEPT: &'static [&'static str] = &[];
    const NUMBERS: &'static [&'static str] = &["cap"];

    fn numbers((cap,): &Self::Numbers) -> SmallVec<[Number; 2]> {
        smallvec![Number::Float(*cap)]
    }

    fn key(_: &Self::Numbers) -> SemanticsKey {
        SoftcapKey {}.into()
    }

    fn has(_: &SemanticsKey) -> SmallVec<[bool; 5]> {
        smallvec![true]
    }

    fn has_numbers(_: &SemanticsKey) -> SmallVec<[bool; 2]> {
        smallvec![true]
    }
}
