//! The arguments of a call of any of the operators and of either direction, and their checks.

use std::ffi::c_char;
use std::ptr::null;

use super::layout::{DENSE, JOINED, by_head, layout};
use super::mask::take_mask;
use super::prefix::take_prefix;
use super::sequences::{Sequences, take_sequences};
use crate::abi::prelude::*;
use crate::ops::attention::Sizes;

/// The arguments that both directions have, by their meaning.
pub(super) struct Call {
    /// Query, key and value.
    pub(super) inputs: [*const aclTensor; 3],
    /// The dtypes of query, key and value.
    pub(super) dtypes: &'static [aclDataType],
    /// The gradient of the result, only in the backward direction.
    pub(super) dy: Option<*const aclTensor>,
    /// The names of arguments that are not emulated, and whether they were given.
    pub(super) absent: Vec<(&'static str, bool)>,
    pub(super) mask: *const aclTensor,
    /// The number of keys of each batch that all queries see, which only modes 5 and 6 read.
    pub(super) prefix: *const aclIntArray,
    /// The sinks, or NULL. Versions before 3 have no such argument.
    pub(super) sinks: Option<*const aclTensor>,
    /// The ends of the sequences of query and key, only with the layout TND.
    pub(super) ends: Option<[*const aclIntArray; 2]>,
    /// The largest score of each row, the sum of its exponentials, and the result. The forward direction writes them,
    /// and the backward direction reads them.
    pub(super) attended: [(&'static str, *const aclTensor); 3],
    pub(super) attributes: Attributes,
}

/// The arguments that are not tensors.
pub(super) struct Attributes {
    pub(super) scale: f64,
    pub(super) keep: f64,
    pub(super) before: i64,
    pub(super) behind: i64,
    pub(super) heads: i64,
    pub(super) layout: *const c_char,
    pub(super) mode: i64,
    /// The kind of shifts, which versions before 2 lack.
    pub(super) shift: Option<i64>,
}

impl Call {
    /// Returns a call of the forward direction without the operands that may be missing.
    pub(super) fn forward(
        inputs: [*const aclTensor; 3],
        [most, total, out]: [*const aclTensor; 3],
        attributes: Attributes,
    ) -> Self {
        Self {
            inputs,
            dtypes: FLOATS,
            dy: None,
            absent: Vec::new(),
            mask: null(),
            prefix: null(),
            sinks: None,
            ends: None,
            attended: [
                ("softmaxMax", most),
                ("softmaxSum", total),
                ("attentionOut", out),
            ],
            attributes,
        }
    }

    /// Returns a call of the backward direction without the operands that may be missing.
    pub(super) fn backward(
        inputs: [*const aclTensor; 3],
        dy: *const aclTensor,
        attended: [*const aclTensor; 3],
        attributes: Attributes,
    ) -> Self {
        let mut call = Self::forward(inputs, attended, attributes);
        call.dy = Some(dy);
        call.attended[2].0 = "attentionIn";
        call
    }
}

/// Lists arguments that are not emulated by their names, and whether they were given.
macro_rules! absent {
    ($($name:ident: $argument:expr),* $(,)?) => {
        vec![$((stringify!($name), !$argument.is_null())),*]
    };
}
pub(super) use absent;

/// The interpretation of a call's operands.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) layout: String,
    pub(super) sizes: Sizes,
    pub(super) scale: f32,
    pub(super) mode: i64,
    /// The numbers of keys before and behind the diagonal of a band.
    pub(super) band: [i64; 2],
    pub(super) with_mask: bool,
    pub(super) prefix: Option<Vec<usize>>,
    pub(super) with_sinks: bool,
    /// The sequences of the layout TND.
    pub(super) sequences: Option<Sequences>,
}

/// The tensors whose shapes and dtypes the gradients have, and the plan.
pub(super) struct Taken {
    pub(super) query: Tensor,
    pub(super) key: Tensor,
    pub(super) value: Tensor,
    pub(super) plan: Plan,
}

impl Call {
    /// Takes and checks all arguments that both directions have, in the order of their signatures.
    ///
    /// # Safety
    ///
    /// The layout's text must end with a zero byte.
    pub(super) unsafe fn take(&self, operands: &mut Operands) -> Outcome<Taken> {
        self.check_absent()?;
        // SAFETY: the caller guarantees the text.
        let layout = unsafe {
            layout(
                self.attributes.layout,
                if self.ends.is_some() { JOINED } else { DENSE },
            )
        }?;
        let [query, key, value] = self.inputs;
        let query = operands.view("query", query, self.dtypes)?;
        let key = operands.view("key", key, &[query.dtype])?;
        let value = operands.view("value", value, &[query.dtype])?;
        let sizes = self.sizes(&layout, [&query, &key, &value])?;
        let sequences = self
            .ends
            .map(|ends| take_sequences(operands, ends, sizes))
            .transpose()?;
        let mut plan = Plan {
            sizes,
            layout,
            scale: self.attributes.scale as f32,
            mode: self.attributes.mode,
            band: [self.attributes.before, self.attributes.behind],
            with_mask: false,
            prefix: None,
            with_sinks: false,
            sequences,
        };
        if let Some(dy) = self.dy {
            let dy = operands.view("dy", dy, &[query.dtype])?;
            check_size("dy", &dy, &result_shape(&plan, &query))?;
        }
        take_mask(operands, self.mask, &self.attributes, &mut plan)?;
        plan.prefix = take_prefix(operands, self.prefix, &plan)?;
        // Each direction has the sinks at another place of its signature.
        if self.dy.is_none() {
            plan.with_sinks = self.take_sinks(operands, &query, sizes)?;
            self.take_attended(operands, &query, &plan)?;
        } else {
            self.take_attended(operands, &query, &plan)?;
            plan.with_sinks = self.take_sinks(operands, &query, sizes)?;
        }
        Ok(Taken {
            query,
            key,
            value,
            plan,
        })
    }

    /// Checks that arguments which are not emulated are absent.
    fn check_absent(&self) -> Outcome<()> {
        for (name, given) in &self.absent {
            ensure!(!*given; "{name} is not emulated; it must be NULL");
        }
        let keep = self.attributes.keep;
        ensure!(keep == 1.0; "keepProb is {keep}; dropout is not emulated, so that it must be 1");
        if let Some(shift) = self.attributes.shift {
            ensure!(shift == 1; "pseType is {shift}; without a shift it must be 1");
        }
        Ok(())
    }

    /// Takes the sinks, one for each head of queries. Returns whether there are any.
    fn take_sinks(&self, operands: &mut Operands, query: &Tensor, sizes: Sizes) -> Outcome<bool> {
        let Some(sinks) = self.sinks.filter(|sinks| !sinks.is_null()) else {
            return Ok(false);
        };
        ensure!(query.dtype != ACL_FLOAT; "query is f32; with sinks it must be f16 or bf16");
        let sinks = operands.view("sink", sinks, &[ACL_FLOAT])?;
        check_size("sink", &sinks, &[sizes.heads])?;
        Ok(true)
    }

    fn sizes(&self, layout: &str, [query, key, value]: [&Tensor; 3]) -> Outcome<Sizes> {
        let heads = usize::try_from(self.attributes.heads).unwrap_or(0);
        let q = by_head("query", query, layout, heads)?;
        let [batch, found, queries, width] = q.shape[..] else {
            unreachable!("four axes")
        };
        ensure!(found == heads && (1..=256).contains(&heads) && (1..=768).contains(&width);
            "{found} heads of width {width} where headNum is {heads}; 1 to 256 of 1 to 768 are \
             taken");
        // If the layout does not give the number of the keys' heads, their width does.
        let groups = match key.shape[..] {
            [_, _, hidden] => hidden / width,
            _ => heads,
        };
        let k = by_head("key", key, layout, groups)?;
        let [key_batch, groups, keys, key_width] = k.shape[..] else {
            unreachable!("four axes")
        };
        ensure!(
            key_batch == batch && key_width == width && groups > 0 && heads.is_multiple_of(groups);
            "query of {:?} and key of {:?} as batch, heads, tokens and width do not fit",
            q.shape, k.shape
        );
        ensure!(batch > 0 && queries > 0 && keys > 0;
            "an operand without elements is not emulated");
        let v = by_head("value", value, layout, groups)?;
        let [value_batch, value_groups, values, value_width] = v.shape[..] else {
            unreachable!("four axes")
        };
        ensure!(
            (value_batch, value_groups, values) == (batch, groups, keys)
                && (1..=width).contains(&value_width);
            "key of {:?} and value of {:?} as batch, heads, tokens and width do not fit; heads of \
             values are at most as wide as those of keys", k.shape, v.shape
        );
        Ok(Sizes {
            batch,
            heads,
            groups,
            queries,
            keys,
            width,
            value_width,
        })
    }

    /// Takes the rows' statistics and the result, which have the same dtypes and shapes in both directions.
    fn take_attended(&self, operands: &mut Operands, query: &Tensor, plan: &Plan) -> Outcome<()> {
        let (sizes, result) = (plan.sizes, result_shape(plan, query));
        let rows = match plan.sequences {
            None => vec![sizes.batch, sizes.heads, sizes.queries, 8],
            Some(_) => vec![sizes.queries, sizes.heads, 8],
        };
        let like = [
            (ACL_FLOAT, &rows[..]),
            (ACL_FLOAT, &rows[..]),
            (query.dtype, &result[..]),
        ];
        for ((name, tensor), (dtype, shape)) in self.attended.into_iter().zip(like) {
            let taken = if self.dy.is_none() {
                operands.result(name, tensor, dtype, shape)?
            } else {
                let read = operands.view(name, tensor, &[dtype])?;
                check_size(name, &read, shape)?;
                read
            };
            // The order of their elements is not that of their shape, which strides would make unclear.
            if plan.sequences.is_some() && name.starts_with("softmax") {
                check_contiguous(name, &taken)?;
            }
        }
        Ok(())
    }
}

/// Returns the shape of the result: that of the query, with the width of the values.
fn result_shape(plan: &Plan, query: &Tensor) -> Vec<usize> {
    let mut shape = query.shape.clone();
    let Sizes {
        heads, value_width, ..
    } = plan.sizes;
    let joined = ["BSH", "SBH"].contains(&plan.layout.as_str());
    if let Some(last) = shape.last_mut() {
        *last = if joined {
            heads * value_width
        } else {
            value_width
        };
    }
    shape
}
