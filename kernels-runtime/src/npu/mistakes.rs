//! Invalid numbers in tensors, which only the device can detect.
//!
//! On the CPU, an index of an expert outside `0..=E` is an error at once. On an NPU, indices are on the device, and
//! reading them would make every layer wait. Operations therefore count invalid indices on the device and treat them as
//! the index of no expert. The next read or synchronisation of the session, which waits anyway, reads the count. If it
//! is not zero, that read returns an error. The session continues.

use super::{Result, base};
use burn_cann::{DType, Stream, Tensor};
use std::cell::RefCell;

/// The count of a session since its last read.
#[derive(Default)]
struct Counted(Option<(Stream, Tensor)>);

thread_local! {
    /// `None` on threads that serve no session, where the count would not be read.
    static HERE: RefCell<Option<Counted>> = const { RefCell::new(None) };
}

/// Starts counting for the session of this thread.
pub(super) fn begin() {
    HERE.set(Some(Counted::default()));
}

/// Ends counting for the session of this thread.
pub(super) fn end() {
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
    let is_session = HERE.with_borrow(Option::is_some);
    if counts == Counts::Mistakes && is_session {
        let wrong = base::cast(stream, &wrong, DType::I32)?;
        add(stream, base::sum(stream, &wrong, &[0, 1], false)?)?;
    }
    Ok(right)
}

fn add(stream: &Stream, more: Tensor) -> Result<()> {
    let before = HERE.with_borrow_mut(|here| here.as_mut()?.0.take());
    let sum = match before {
        Some((of, before)) if of == *stream => base::add(stream, &before, &more)?,
        // The previous stream failed, which its next read reports.
        _ => more,
    };
    HERE.with_borrow_mut(|here| {
        if let Some(here) = here {
            here.0 = Some((stream.clone(), sum));
        }
    });
    Ok(())
}

/// Reads the count and starts again from zero. Returns `None` if no index was invalid. This waits for the device, so it
/// is called after another wait.
pub(super) fn found() -> Option<String> {
    let (stream, sum) = HERE.with_borrow_mut(|here| here.as_mut()?.0.take())?;
    let count = match base::cast(&stream, &sum, DType::I64) {
        Ok(sum) => sum.to_vec::<i64>(&stream).ok()?.into_iter().sum::<i64>(),
        // The read reports the failure of the stream.
        Err(_) => return None,
    };
    (count != 0).then(|| {
        format!(
            "{count} indices of experts since the last read were below 0 or above the number of experts. They were \
             taken for experts of other devices, so results lack what the program meant. Valid are 0 to `num_experts`, \
             which means an expert of another device"
        )
    })
}
