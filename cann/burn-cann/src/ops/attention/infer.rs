//! Attention of an inference call (`aclnnFusedInferAttentionScore`, version 3, and version 4 with sinks): few queries
//! over the keys and values of a cache.
//!
//! The cache may have room for more keys than there are. The operator reads the keys of each sequence where they lie,
//! and none of the others. It has no gradient and returns no statistics.

use super::super::aclnn::aclnn;
use super::super::{Checked, Refusal, check, create};
use super::{Axes, Mask, Settings, check_scale};
use crate::call::Constant;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::soc::{Family, Platform};
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// The keys of a cache that queries may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held<'a> {
    /// The number of keys of each sequence: one number for each, or one for all.
    pub lengths: &'a [usize],
    /// The number of keys behind those of all sequences, or none if the keys of all sequences begin at the first.
    pub behind: Option<usize>,
}

/// CANN's number for computing precisely, without a repair of rows that see no key.
const PRECISE: i64 = 0;

const MOST_BATCHES: usize = 65_536;
const MOST_HEADS: usize = 256;
const MOST_TOKENS: usize = 20_971_520;
const WIDEST: usize = 512;
/// The most elements of all heads of a token in the order BSND.
const WIDEST_TOKEN: usize = 65_534;
const ALIGNED: usize = 16;
/// The widths of heads beside sinks.
const BESIDE_SINKS: [usize; 2] = [64, 128];

/// Returns `true` if the toolkit has the operator, with sinks or without.
pub fn has_infer(device: &Device, with_sinks: bool) -> bool {
    let area = &device.cann().sys().attention;
    if with_sinks {
        area.aclnnFusedInferAttentionScoreV4GetWorkspaceSize
            .get()
            .is_ok()
            && area.aclnnFusedInferAttentionScoreV4.get().is_ok()
    } else {
        area.aclnnFusedInferAttentionScoreV3GetWorkspaceSize
            .get()
            .is_ok()
            && area.aclnnFusedInferAttentionScoreV3.get().is_ok()
    }
}

/// Checks the operands of [`infer`] and returns the spec of its result.
///
/// All tensors have the same dtype, f16 or bf16, and the order BNSD or BSND, and are contiguous. There are at most 65,536
/// sequences of 20,971,520 tokens, and 256 heads. The width of heads is a multiple of 16 up to 512, and that of values
/// is the same. The documents of CANN disagree on other widths. The older ones exclude Atlas A3, which is therefore
/// refused before CANN 9.1.
///
/// Each sequence has a key, and no more keys than the cache. Keys behind those of the sequences are taken beside one
/// query, without sinks. A mask is taken beside more than one query, and not [`Mask::Full`].
///
/// Sinks are bf16 `[heads]`, with heads of 64 or 128 elements, in CANN 8.5 and later.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_infer(
    platform: &Platform,
    [q, k, v]: [&Spec; 3],
    sinks: Option<&Spec>,
    mask: Mask<&Spec>,
    held: Held<'_>,
    settings: Settings,
) -> Checked<Spec> {
    check_platform(platform)?;
    for operand in [("q", q), ("k", k), ("v", v)] {
        check::dtype(operand, &[DType::F16, DType::BF16])?;
        check::dtype(operand, &[q.dtype])?;
        check::not_empty(operand)?;
        check::rank(operand, 4, 4)?;
        check::contiguous(operand)?;
    }
    let sizes = sizes([q, k, v], settings)?;
    check_scale(settings.scale)?;
    held.check(sizes, sinks.is_some())?;
    check_mask(mask, held, sizes)?;
    if let Some(sinks) = sinks {
        check_sinks(platform, q, sinks, sizes)?;
    }
    Ok(Spec::contiguous(q.dtype, q.shape())?)
}

fn check_platform(platform: &Platform) -> Checked<()> {
    check::processor(platform, "FusedInferAttentionScore")?;
    let is_a3 = platform.soc.family() == Family::Ascend910C;
    if is_a3 && !platform.version.at_least(9, 1) {
        return Err(Refusal::Version {
            what: "FusedInferAttentionScore on Atlas A3",
            needed: "9.1",
            found: platform.version.to_string(),
        });
    }
    Ok(())
}

/// The sizes of a call.
#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    heads: usize,
    queries: usize,
    keys: usize,
    width: usize,
}

fn sizes([q, k, v]: [&Spec; 3], settings: Settings) -> Checked<Sizes> {
    let Settings { axes, heads, .. } = settings;
    if !matches!(axes, Axes::Bnsd | Axes::Bsnd) {
        return Err(Refusal::Value {
            what: "the order of the dimensions",
            found: format!("{axes:?}"),
            expected: "Bnsd or Bsnd",
        });
    }
    let [batch, found, queries, width] = axes.sizes("q", q, 0)?;
    if found != heads {
        return Err(Refusal::Value {
            what: "heads",
            found: heads.to_string(),
            expected: "the number of heads of q",
        });
    }
    let [key_batch, groups, keys, key_width] = axes.sizes("k", k, 0)?;
    if key_batch != batch || key_width != width || !heads.is_multiple_of(groups) {
        let expected = format!("{batch} batches, a divisor of {heads} heads, and width {width}");
        return Err(check::wrong_shape(("k", k), expected));
    }
    check::shape(("v", v), k.shape())?;
    check::at_most("the batch", batch, MOST_BATCHES)?;
    check::at_most("the number of heads", heads, MOST_HEADS)?;
    check::at_most("the number of tokens", queries.max(keys), MOST_TOKENS)?;
    check::at_most("the width of a head", width, WIDEST)?;
    if axes == Axes::Bsnd {
        check::at_most(
            "the elements of all heads of a token",
            heads * width,
            WIDEST_TOKEN,
        )?;
    }
    if !width.is_multiple_of(ALIGNED) {
        let expected = "heads whose width is a multiple of 16";
        return Err(check::wrong_shape(("q", q), expected));
    }
    Ok(Sizes {
        batch,
        heads,
        queries,
        keys,
        width,
    })
}

impl Held<'_> {
    fn check(self, sizes: Sizes, with_sinks: bool) -> Checked<()> {
        let Self { lengths, behind } = self;
        if lengths.len() != 1 && lengths.len() != sizes.batch {
            return Err(self.refusal("one length for all sequences, or one for each"));
        }
        if behind.is_some() && (sizes.queries > 1 || with_sinks) {
            return Err(self.refusal("no keys behind, but with one query and without sinks"));
        }
        let most = sizes.keys.checked_sub(behind.unwrap_or(0));
        let fits = |length: &usize| *length > 0 && most.is_some_and(|most| *length <= most);
        match lengths.iter().all(fits) {
            true => Ok(()),
            false => Err(self.refusal("keys in each sequence, and no more than there are")),
        }
    }

    fn refusal(self, expected: &'static str) -> Refusal {
        Refusal::Value {
            what: "the keys of the sequences",
            found: format!("{self:?}"),
            expected,
        }
    }
}

/// Checks a mask, which leaves every query a key.
fn check_mask(mask: Mask<&Spec>, held: Held<'_>, sizes: Sizes) -> Checked<()> {
    let Sizes {
        batch,
        heads,
        queries,
        keys,
        ..
    } = sizes;
    if mask == Mask::None {
        return Ok(());
    }
    let refused = |expected| Refusal::Value {
        what: "the mask",
        found: format!("{mask:?}"),
        expected,
    };
    if queries == 1 {
        return Err(refused(
            "none beside one query, for which CANN ignores its kind",
        ));
    }
    if matches!(mask, Mask::Full(_)) {
        return Err(refused("none or that of causal_mask"));
    }
    mask.check([batch, heads, queries, keys])?;
    for length in held.lengths {
        mask.check_band([queries, *length])?;
        if matches!(mask, Mask::ToLast(_)) && queries > *length {
            return Err(held.refusal("as many keys as queries in each sequence, or more"));
        }
    }
    Ok(())
}

fn check_sinks(platform: &Platform, q: &Spec, sinks: &Spec, sizes: Sizes) -> Checked<()> {
    if !platform.version.at_least(8, 5) {
        return Err(Refusal::Version {
            what: "FusedInferAttentionScore with sinks",
            needed: "8.5",
            found: platform.version.to_string(),
        });
    }
    check::dtype(("q, beside sinks,", q), &[DType::BF16])?;
    check::dtype(("sinks", sinks), &[DType::BF16])?;
    check::shape(("sinks", sinks), &[sizes.heads])?;
    check::contiguous(("sinks", sinks))?;
    if !BESIDE_SINKS.contains(&sizes.width) {
        let expected = "heads of 64 or 128 elements beside sinks";
        return Err(check::wrong_shape(("q", q), expected));
    }
    Ok(())
}

/// Computes `softmax(scale · q·kᵀ)·v` over the keys that are held, with a sink for each head of queries if there are
/// sinks. The result has the shape of `q`. CANN does not define the result of a query that sees no key.
///
/// # Errors
///
/// Returns an error if [`check_infer`] refuses the operands, if the toolkit lacks the operator, or if a call fails.
pub fn infer(
    stream: &Stream,
    [q, k, v]: [&Tensor; 3],
    sinks: Option<&Tensor>,
    mask: Mask<&Tensor>,
    held: Held<'_>,
    settings: Settings,
) -> Result<Tensor> {
    let device = stream.device();
    let specs = [q, k, v].map(Tensor::spec);
    let result = check_infer(
        device.platform(),
        specs,
        sinks.map(Tensor::spec),
        mask.map(Tensor::spec),
        held,
        settings,
    )?;
    let groups = settings.axes.sizes("k", k.spec(), 0)?[1] as i64;
    let made = Tensor::like(stream, &result)?;
    let padding = held.behind.map(|behind| {
        let behind = i64::try_from(behind).unwrap_or(i64::MAX);
        create::full(stream, DType::I64, [1], behind)
    });
    let padding = padding.transpose()?;
    let (padding, y) = (padding.as_ref(), &made);
    let (mode, [before, behind]) = (mask.mode(), mask.band());
    let (keys, values, mask) = (vec![k.clone()], vec![v.clone()], mask.tensor());
    let layout = settings.axes.text().as_ptr().cast_mut();
    let heads = settings.heads as i64;
    let (none, no_ints) = (std::ptr::null(), std::ptr::null());
    let Some(sinks) = sinks else {
        return aclnn!(
            stream, attention.aclnnFusedInferAttentionScoreV3GetWorkspaceSize,
            aclnnFusedInferAttentionScoreV3,
            tensors [q, keys: list, values: list, mask, padding, y],
            constants [lengths: ints = Constant::sizes(held.lengths)],
            attributes [],
            call(
                q, keys, values, none, mask, no_ints, lengths, none, none, none, none, none, none,
                none, none, none, padding, none, none, none, none, none, none, no_ints, none, none,
                none, heads, settings.scale, before, behind, layout, groups, mode, PRECISE, 0, 0,
                false, 0, 0, y, none,
            ),
            made.clone(),
        );
    };
    aclnn!(
        stream, attention.aclnnFusedInferAttentionScoreV4GetWorkspaceSize,
        aclnnFusedInferAttentionScoreV4,
        tensors [q, keys: list, values: list, mask, padding, sinks, y],
        constants [lengths: ints = Constant::sizes(held.lengths)],
        attributes [],
        call(
            q, keys, values, none, mask, no_ints, lengths, none, none, none, none, none, none,
            none, none, none, padding, none, none, none, none, none, none, no_ints, none, none,
            none, none, sinks, heads, settings.scale, before, behind, layout, groups, mode,
            PRECISE, 0, 0, false, 0, 0, 0, y, none,
        ),
        made.clone(),
    )
}
