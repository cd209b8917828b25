//! The steps of mixtures that are decided and counted without an annotated item.

use crate::dispatch::Step;
use crate::semantics::{MoeBlockKey, MoeExpertsKey, SemanticsKey};

const EXPERTS: SemanticsKey = SemanticsKey::MoeExperts(MoeExpertsKey::QWEN3);

pub(super) static ROUTE: Step = Step::of_moe("route", SemanticsKey::MoeBlock(MoeBlockKey::MIXTRAL));
pub(super) static PERMUTE: Step = Step::of_moe("moe_permute", EXPERTS);
pub(super) static UNPERMUTE: Step = Step::of_moe("moe_unpermute", EXPERTS);
pub(super) static SHARD: Step = Step::of_moe("experts::sharded", EXPERTS);
/// A product of experts with adapters.
pub(super) static PRODUCT: Step = Step::of_moe("experts::adapted::grouped_matmul", EXPERTS);
/// The unit of experts with adapters.
pub(super) static UNIT: Step = Step::of_moe("experts::adapted::glu", EXPERTS);

pub(crate) static STEPS: [&Step; 6] = [&ROUTE, &PERMUTE, &UNPERMUTE, &SHARD, &PRODUCT, &UNIT];
