//! Batches of copies by one call.

use std::ffi::c_void;

use cann_sys::errors::*;
use cann_sys::runtime::*;

use super::copy_bytes::{Rows, Side, check_copy, copy, copy_on, side};
use super::runtime::function;
use crate::error::{Failure, Outcome, ensure};
use crate::memory::memory;
use crate::state;

/// The arguments of a batch: lists of equal length, and attributes for ranges of them.
struct Batch {
    to: *mut *mut c_void,
    to_sizes: *mut usize,
    from: *mut *mut c_void,
    counts: *mut usize,
    copies: usize,
    attributes: *mut aclrtMemcpyBatchAttr,
    indices: *mut usize,
    kinds: usize,
}

/// The checked copies, or the first fault. A fault of a single copy comes with the copy's number.
type Checked = Result<Vec<(Rows, (Side, Side))>, (usize, Failure)>;

impl Batch {
    /// # Safety
    ///
    /// The lists must be valid for as many elements as the record says.
    unsafe fn check(&self) -> Checked {
        let whole = |error| (usize::MAX, error);
        self.check_lists().map_err(whole)?;
        // SAFETY: checked above, and the caller guarantees the lists.
        let (to, to_sizes, from, counts, attributes, indices) = unsafe {
            (
                std::slice::from_raw_parts(self.to, self.copies),
                std::slice::from_raw_parts(self.to_sizes, self.copies),
                std::slice::from_raw_parts(self.from, self.copies),
                std::slice::from_raw_parts(self.counts, self.copies),
                std::slice::from_raw_parts(self.attributes, self.kinds),
                std::slice::from_raw_parts(self.indices, self.kinds),
            )
        };
        check_indices(indices, self.copies).map_err(whole)?;
        let memory = memory();
        let mut checked: Vec<(Rows, (Side, Side))> = Vec::with_capacity(self.copies);
        let mut kind = 0;
        for copy in 0..self.copies {
            if indices.get(kind + 1) == Some(&copy) {
                kind += 1;
            }
            let (to, from) = (to[copy] as usize, from[copy] as usize);
            check_copy(to, to_sizes[copy], from, counts[copy]).map_err(whole)?;
            let actual = (side(&memory, to), side(&memory, from));
            let first = checked.first().map(|&(_, sides)| sides);
            check_sides(&attributes[kind], actual, first).map_err(|error| (copy, error))?;
            checked.push((Rows::one(to, from, counts[copy]), actual));
        }
        Ok(checked)
    }

    fn check_lists(&self) -> Outcome<()> {
        ensure!(
            !self.to.is_null()
                && !self.to_sizes.is_null()
                && !self.from.is_null()
                && !self.counts.is_null()
                && !self.attributes.is_null()
                && !self.indices.is_null(),
            ACL_ERROR_INVALID_PARAM;
            "a list is NULL"
        );
        ensure!(
            self.copies > 0 && (1..=self.copies).contains(&self.kinds), ACL_ERROR_RT_PARAM_INVALID;
            "{} copies with {} attributes; there must be some, and no more attributes than copies",
            self.copies, self.kinds
        );
        Ok(())
    }
}

fn check_indices(indices: &[usize], copies: usize) -> Outcome<()> {
    let rises = indices.windows(2).all(|pair| pair[0] < pair[1]);
    ensure!(
        indices[0] == 0 && rises && indices.iter().all(|&index| index < copies),
        ACL_ERROR_RT_PARAM_INVALID;
        "the attributes hold from copies {indices:?} of {copies}; the first is 0, and they rise"
    );
    Ok(())
}

/// Checks that the attributes describe both ends correctly, and that all copies go from the host to the device or all
/// the other way.
fn check_sides(
    said: &aclrtMemcpyBatchAttr,
    actual: (Side, Side),
    first: Option<(Side, Side)>,
) -> Outcome<()> {
    let fits = |location: &aclrtMemLocation, side| {
        (location.type_ == ACL_MEM_LOCATION_TYPE_DEVICE) == (side == Side::Device)
    };
    ensure!(
        fits(&said.dstLoc, actual.0) && fits(&said.srcLoc, actual.1), ACL_ERROR_RT_PARAM_INVALID;
        "an attribute says another side than the addresses of its copy"
    );
    ensure!(
        actual.0 != actual.1 && first.is_none_or(|first| first == actual),
        ACL_ERROR_RT_PARAM_INVALID;
        "the copies of a batch go from the host to a device, or all from a device to the host"
    );
    Ok(())
}

/// Copies now or on a stream.
///
/// # Safety
///
/// The lists must be valid for as many elements as the record says. Addresses on the host must be valid for their
/// copies, and pinned ones until the stream has come here.
unsafe fn run(
    batch: &Batch,
    failed: Option<*mut usize>,
    stream: Option<aclrtStream>,
) -> Outcome<()> {
    if let Some(place) = failed {
        ensure!(!place.is_null(), ACL_ERROR_INVALID_PARAM;
            "the place for the number of the failed copy is NULL");
    }
    state::current_device()?;
    // SAFETY: the caller guarantees the lists.
    let checked = unsafe { batch.check() };
    if let Some(place) = failed {
        let number = checked
            .as_ref()
            .err()
            .map_or(usize::MAX, |&(number, _)| number);
        // SAFETY: checked above, and the caller guarantees it.
        unsafe { place.write(number) };
    }
    for (rows, sides) in checked.map_err(|(_, error)| error)? {
        // SAFETY: the caller guarantees its memory on the host.
        unsafe {
            match stream {
                Some(stream) => copy_on(stream, rows, sides)?,
                None => copy(&mut memory(), rows, sides)?,
            }
        }
    }
    Ok(())
}

function!(aclrtMemcpyBatch(
    to: *mut *mut c_void, to_sizes: *mut usize, from: *mut *mut c_void, counts: *mut usize, copies: usize,
    attributes: *mut aclrtMemcpyBatchAttr, indices: *mut usize, kinds: usize, failed: *mut usize
) {
    let batch = Batch { to, to_sizes, from, counts, copies, attributes, indices, kinds };
    // SAFETY: the caller guarantees the lists.
    unsafe { run(&batch, Some(failed), None) }
});
function!(aclrtMemcpyBatchV2(
    to: *mut *mut c_void, to_sizes: *mut usize, from: *mut *mut c_void, counts: *mut usize, copies: usize,
    attributes: *mut aclrtMemcpyBatchAttr, indices: *mut usize, kinds: usize
) {
    let batch = Batch { to, to_sizes, from, counts, copies, attributes, indices, kinds };
    // SAFETY: the caller guarantees the lists.
    unsafe { run(&batch, None, None) }
});
function!(aclrtMemcpyBatchAsync(
    to: *mut *mut c_void, to_sizes: *mut usize, from: *mut *mut c_void, counts: *mut usize, copies: usize,
    attributes: *mut aclrtMemcpyBatchAttr, indices: *mut usize, kinds: usize, failed: *mut usize,
    stream: aclrtStream
) {
    let batch = Batch { to, to_sizes, from, counts, copies, attributes, indices, kinds };
    // SAFETY: the caller guarantees the lists.
    unsafe { run(&batch, Some(failed), Some(stream)) }
});
function!(aclrtMemcpyBatchAsyncV2(
    to: *mut *mut c_void, to_sizes: *mut usize, from: *mut *mut c_void, counts: *mut usize, copies: usize,
    attributes: *mut aclrtMemcpyBatchAttr, indices: *mut usize, kinds: usize, stream: aclrtStream
) {
    let batch = Batch { to, to_sizes, from, counts, copies, attributes, indices, kinds };
    // SAFETY: the caller guarantees the lists.
    unsafe { run(&batch, None, Some(stream)) }
});
