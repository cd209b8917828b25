//! Invalid numbers in tensors, which only the device can detect.
//!
//! On the CPU, an index of an expert outside `0..=E` is an error at once, and so is a target that is neither a class nor
//! the ignored index. On an NPU, these numbers are on the device, and reading them would make every layer wait.
//! Operations therefore count invalid numbers on the device and compute without them: an index counts as that of no
//! expert, and a target as ignored. The next read or synchronisation of the session, which waits anyway, reads the
//! counts. If one is not zero, that read returns an error. The session continues.

use super::{Result, base};
use burn_cann::ops::{compare, elementwise};
use burn_cann::{DType, Stream, Tensor};
use std::cell::RefCell;

/// The kind of an invalid number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mistake {
    /// An index that is neither that of an expert nor that of no expert.
    Expert,
    /// A target that is neither a class nor the ignored index.
    Target,
    /// An expert of a router's gradient that is not one of its experts.
    Chosen,
    /// A count of a grouped product that is negative, or goes beyond the rows with those before it.
    Count,
    /// An entry of a row map that moving tokens to rows does not make.
    Row,
}

impl Mistake {
    const ALL: [Self; 5] = [
        Self::Expert,
        Self::Target,
        Self::Chosen,
        Self::Count,
        Self::Row,
    ];

    /// Returns the error for a count.
    fn sentence(self, count: i64) -> String {
        match self {
            Self::Expert => format!(
                "{count} indices of experts since the last read were below 0 or above the number of experts. They were \
                 taken for experts of other devices, so results lack what the program meant. Valid are 0 to \
                 `num_experts`, which means an expert of another device"
            ),
            Self::Target => format!(
                "{count} targets of losses since the last read were neither classes nor the ignored index. Their tokens \
                 were ignored, so losses lack what the program meant. Valid are 0 to the number of classes less one, and \
                 the ignored index"
            ),
            Self::Chosen => format!(
                "{count} experts of routers' gradients since the last read were below 0 or not below the number of \
                 experts. The nearest experts were taken, so gradients are not what the program meant. Valid are the \
                 indices that the router returned"
            ),
            Self::Count => format!(
                "{count} counts of grouped products since the last read were negative, or more than the rows together \
                 with the counts before them. They were taken for the nearest valid counts, so products are not what the \
                 program meant. Valid are counts from 0 whose sum is at most the number of rows"
            ),
            Self::Row => format!(
                "{count} entries of row maps since the last read were not those of a permutation: below 0, used twice, or \
                 with rows left out before them. Rows were taken in the order of the entries, so sums are not what the \
                 program meant. Valid are maps that `moe_permute` returned"
            ),
        }
    }
}

/// The counts of a session since its last read, one for each kind.
#[derive(Default)]
struct Counted([Option<(Stream, Tensor)>; Mistake::ALL.len()]);

thread_local! {
    /// `None` on threads that serve no session, where the counts would not be read.
    static HERE: RefCell<Option<Counted>> = const { RefCell::new(None) };
}

/// Starts counting for the session of this thread.
pub fn begin() {
    HERE.set(Some(Counted::default()));
}

/// Ends counting for the session of this thread.
pub fn end() {
    HERE.set(None);
}

/// The counting of a pass. The forward pass counts; the backward pass receives the same indices again and does not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counts {
    Mistakes,
    Nothing,
}

/// Returns `indices` with `experts`, the index of no expert, in place of every index that is not in `0..=experts`.
///
/// # Errors
/// Returns an error if CANN failed.
pub(crate) fn without_mistakes(
    stream: &Stream,
    indices: &Tensor,
    experts: usize,
    counts: Counts,
) -> Result<Tensor> {
    let below = base::below(stream, indices, 0.0)?;
    let above = base::at_least(stream, indices, (experts + 1) as f64)?;
    let wrong = base::or(stream, &below, &above)?;
    let right = base::copy(stream, indices)?;
    base::masked_fill(stream, &right, &wrong, experts as f64)?;
    if counts == Counts::Mistakes {
        count(stream, Mistake::Expert, || Ok(wrong))?;
    }
    Ok(right)
}

/// Returns integers from 0 to `last`, with the nearest of these in place of every other one, which is counted as a
/// mistake.
///
/// # Errors
/// Returns an error if CANN failed.
pub(crate) fn nearest(
    stream: &Stream,
    ints: &Tensor,
    last: usize,
    (mistake, counts): (Mistake, Counts),
) -> Result<Tensor> {
    let right = elementwise::clamp(stream, ints, 0_i64, last as i64)?;
    if counts == Counts::Mistakes {
        count(stream, mistake, || {
            Ok(compare::not_equal(stream, ints, &right)?)
        })?;
    }
    Ok(right)
}

/// Counts the true elements of a mask, which is not made on threads that serve no session.
///
/// # Errors
/// Returns an error if CANN failed.
pub(crate) fn count(
    stream: &Stream,
    mistake: Mistake,
    wrong: impl FnOnce() -> Result<Tensor>,
) -> Result<()> {
    if !HERE.with_borrow(Option::is_some) {
        return Ok(());
    }
    let more = base::count_true(stream, &wrong()?)?;
    let before = HERE.with_borrow_mut(|here| here.as_mut()?.0[mistake as usize].take());
    let sum = match before {
        Some((of, before)) if of == *stream => base::add(stream, &before, &more)?,
        // The previous stream failed, which its next read reports.
        _ => more,
    };
    HERE.with_borrow_mut(|here| {
        if let Some(here) = here {
            here.0[mistake as usize] = Some((stream.clone(), sum));
        }
    });
    Ok(())
}

/// Reads the counts and starts again from zero. Returns `None` if no number was invalid. This waits for the device, so it
/// is called after another wait.
pub fn found() -> Option<String> {
    let found: Vec<_> = Mistake::ALL.into_iter().filter_map(found_of).collect();
    (!found.is_empty()).then(|| found.join(". "))
}

fn found_of(mistake: Mistake) -> Option<String> {
    let (stream, sum) = HERE.with_borrow_mut(|here| here.as_mut()?.0[mistake as usize].take())?;
    let count = match base::cast(&stream, &sum, DType::I64) {
        Ok(sum) => sum.to_vec::<i64>(&stream).ok()?.into_iter().sum::<i64>(),
        // The read reports the failure of the stream.
        Err(_) => return None,
    };
    (count != 0).then(|| mistake.sentence(count))
}
