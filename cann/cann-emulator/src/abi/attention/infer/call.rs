//! The arguments of a call of either version, and their checks.

use std::ffi::c_char;

use super::super::layout::layout;
use super::lengths::{take_key_lengths, take_query_lengths};
use super::mask::take_mask;
use super::tensors::take_tensors;
use crate::abi::prelude::*;
use crate::ops::attention::Sizes;

/// The layouts that are emulated.
const LAYOUTS: &[&str] = &["BSND", "BNSD"];

/// The arguments, by their meaning.
pub(super) struct Call {
    pub(super) query: *const aclTensor,
    pub(super) key: *const aclTensorList,
    pub(super) value: *const aclTensorList,
    /// The names of arguments that are not emulated, and whether they were given.
    pub(super) absent: Vec<(&'static str, bool)>,
    pub(super) mask: *const aclTensor,
    /// The lengths of the sequences of queries and of keys.
    pub(super) lengths: [*const aclIntArray; 2],
    /// The number of keys behind those of all sequences, NULL if keys begin at the first.
    pub(super) padding: *const aclTensor,
    /// The sinks, or NULL. Version 3 has no such argument.
    pub(super) sinks: Option<*const aclTensor>,
    pub(super) output: *const aclTensor,
    /// The logarithms of the sums, if they are wanted.
    pub(super) lse: Option<*const aclTensor>,
    pub(super) attributes: Attributes,
}

/// The arguments that are not tensors.
pub(super) struct Attributes {
    pub(super) heads: i64,
    pub(super) groups: i64,
    pub(super) scale: f64,
    pub(super) before: i64,
    pub(super) behind: i64,
    pub(super) layout: *const c_char,
    pub(super) mode: i64,
    pub(super) precision: i64,
    /// The numbers that must be zero, because what they set is not emulated.
    pub(super) zeros: Vec<(&'static str, i64)>,
}

/// The interpretation of a call's operands.
pub(super) struct Plan {
    pub(super) layout: String,
    pub(super) sizes: Sizes,
    pub(super) scale: f32,
    /// The sparse mode. It is 0 for one query, which has none.
    pub(super) mode: i64,
    /// The numbers of keys before and behind the diagonal of a band.
    pub(super) band: [i64; 2],
    /// True if rows without visible keys are set to zero.
    pub(super) repairs: bool,
    /// The number of queries of each sequence.
    pub(super) queries: Vec<usize>,
    /// The number of keys of each sequence.
    pub(super) keys: Vec<usize>,
    pub(super) with_mask: bool,
    pub(super) with_padding: bool,
    pub(super) with_sinks: bool,
    pub(super) with_lse: bool,
}

impl Call {
    /// Takes and checks all arguments, in the order of the signature.
    ///
    /// # Safety
    ///
    /// The layout's text must end with a zero byte.
    pub(super) unsafe fn take(&self, operands: &mut Operands) -> Outcome<Plan> {
        self.check_absent()?;
        // SAFETY: the caller guarantees the text.
        let layout = unsafe { layout(self.attributes.layout, LAYOUTS) }?;
        let (query, sizes) = take_tensors(self, operands, &layout)?;
        let [queries, keys] = self.lengths;
        let mut plan = Plan {
            layout,
            sizes,
            scale: self.attributes.scale as f32,
            mode: if sizes.queries == 1 {
                0
            } else {
                self.attributes.mode
            },
            band: [self.attributes.before, self.attributes.behind],
            repairs: self.repairs(sizes)?,
            queries: take_query_lengths(operands, queries, sizes)?,
            keys: take_key_lengths(operands, keys, sizes)?,
            with_mask: false,
            with_padding: false,
            with_sinks: false,
            with_lse: self.lse.is_some(),
        };
        take_mask(operands, self.mask, &mut plan)?;
        self.take_padding(operands, &mut plan)?;
        self.take_sinks(operands, &query, &mut plan)?;
        self.take_results(operands, &query, &plan)?;
        Ok(plan)
    }

    /// Checks that arguments which are not emulated are absent.
    fn check_absent(&self) -> Outcome<()> {
        for (name, given) in &self.absent {
            ensure!(!*given; "{name} is not emulated; it must be NULL");
        }
        for (name, value) in &self.attributes.zeros {
            ensure!(*value == 0; "{name} is {value}; it is not emulated and must be 0");
        }
        Ok(())
    }

    /// Returns whether rows without visible keys are set to zero. Only the precise way of computing is emulated, because
    /// CANN does not document the rounding of the fast one.
    fn repairs(&self, sizes: Sizes) -> Outcome<bool> {
        let precision = self.attributes.precision;
        ensure!(precision == 0 || precision == 2 && sizes.queries > 1;
            "innerPrecise is {precision}; 0 is emulated, and 2 with more than one query");
        // CANN repairs rows of this mode by itself, where it sees that there are some.
        Ok(precision == 2 || self.attributes.mode == 3 && sizes.queries > sizes.keys)
    }

    /// Takes the number of keys behind those of all sequences.
    fn take_padding(&self, operands: &mut Operands, plan: &mut Plan) -> Outcome<()> {
        let Some(padding) = operands.optional("kvPaddingSize", self.padding)? else {
            return Ok(());
        };
        check_dtype("kvPaddingSize", &padding, &[ACL_INT64])?;
        check_size("kvPaddingSize", &padding, &[1])?;
        check_contiguous("kvPaddingSize", &padding)?;
        let [_, keys] = self.lengths;
        ensure!(!keys.is_null();
            "kvPaddingSize has an effect only with actualSeqLengthsKv, which is NULL");
        ensure!(!plan.with_mask && plan.sizes.queries == 1;
            "kvPaddingSize with a mask or with {} queries is not emulated", plan.sizes.queries);
        plan.with_padding = true;
        Ok(())
    }

    /// Takes the sinks, one for each head of queries.
    fn take_sinks(&self, operands: &mut Operands, query: &Tensor, plan: &mut Plan) -> Outcome<()> {
        let Some(sinks) = self.sinks.filter(|sinks| !sinks.is_null()) else {
            return Ok(());
        };
        ensure!(query.dtype == ACL_BF16; "query is not bf16; with learnableSink it must be");
        let width = plan.sizes.value_width;
        ensure!([64, 128].contains(&width);
            "values are {width} wide; with learnableSink they must be 64 or 128");
        ensure!(!plan.with_padding; "kvPaddingSize and learnableSink do not go together");
        ensure!(!plan.with_lse; "softmaxLse with learnableSink is not emulated");
        let sinks = operands.view("learnableSink", sinks, &[ACL_BF16])?;
        check_size("learnableSink", &sinks, &[plan.sizes.heads])?;
        check_contiguous("learnableSink", &sinks)?;
        plan.with_sinks = true;
        Ok(())
    }

    /// Takes the result, and the logarithms if they are wanted.
    fn take_results(&self, operands: &mut Operands, query: &Tensor, plan: &Plan) -> Outcome<()> {
        let Sizes {
            batch,
            heads,
            queries,
            value_width,
            ..
        } = plan.sizes;
        let mut shape = query.shape.clone();
        shape[3] = value_width;
        let output = operands.result("attentionOut", self.output, query.dtype, &shape)?;
        check_contiguous("attentionOut", &output)?;
        if let Some(lse) = self.lse {
            let shape = [batch, heads, queries, 1];
            let lse = operands.result("softmaxLse", lse, ACL_FLOAT, &shape)?;
            check_contiguous("softmaxLse", &lse)?;
        }
        Ok(())
    }
}
