//! Calls of operators by name.

use std::ffi::c_char;

use cann_sys::compile::*;
use cann_sys::errors::*;

use super::{array, attributes, description, function, text};
use crate::abi::data_buffer::buffer;
use crate::error::{Outcome, ensure, fail};
use crate::memory::memory;
use crate::state;

/// Checks operands: every one has a description and data on its side.
///
/// # Safety
///
/// Both arrays must be NULL or valid for reads of `count` values.
unsafe fn check(
    what: &str,
    count: i32,
    descriptions: *const *const aclTensorDesc,
    data: *const *const aclDataBuffer,
) -> Outcome<()> {
    // SAFETY: the caller guarantees it.
    let descriptions = unsafe { array(what, descriptions, count) }?;
    // SAFETY: as above.
    let data = unsafe { array(what, data, count) }?;
    for (handle, data) in descriptions.into_iter().zip(data) {
        let (address, size) = buffer(data)?;
        if size > 0 && !description::is_on_host(handle)? {
            memory().bytes(address, size)?;
        }
    }
    Ok(())
}

/// Fails, as CANN does for an operator that it does not have.
fn missing(name: &str) -> Outcome<()> {
    fail!(ACL_ERROR_OP_NOT_FOUND;
        "the emulator has no operator {name} by name, only aclnn functions")
}

// The data of outputs is behind another type of pointer, which has the same layout.
function!(aclopCompileAndExecute(
    name: *const c_char, inputs: i32, input_descriptions: *const *const aclTensorDesc,
    input_data: *const *const aclDataBuffer, outputs: i32, output_descriptions: *const *const aclTensorDesc,
    output_data: *const *mut aclDataBuffer, own: *const aclopAttr, engine: aclopEngineType,
    kind: aclopCompileType, _path: *const c_char, stream: aclrtStream
) {
    // SAFETY: the caller guarantees a C string.
    let name = unsafe { text("the name of the operator", name) }?;
    // SAFETY: the caller guarantees the arrays.
    unsafe {
        check("the inputs", inputs, input_descriptions, input_data)?;
        check("the outputs", outputs, output_descriptions, output_data.cast())?;
    }
    if !own.is_null() {
        attributes::attributes(own)?;
    }
    ensure!(engine.0 <= ACL_ENGINE_VECTOR.0, ACL_ERROR_INVALID_PARAM; "unknown engine type {}", engine.0);
    ensure!(kind.0 <= ACL_COMPILE_UNREGISTERED.0, ACL_ERROR_INVALID_PARAM; "unknown compile flag {}", kind.0);
    state::stream(stream as usize)?;
    missing(&name)
});

function!(aclopCompileAndExecuteV2(
    name: *const c_char, inputs: i32, input_descriptions: *mut *mut aclTensorDesc,
    input_data: *mut *mut aclDataBuffer, outputs: i32, output_descriptions: *mut *mut aclTensorDesc,
    output_data: *mut *mut aclDataBuffer, own: *mut aclopAttr, engine: aclopEngineType,
    kind: aclopCompileType, path: *const c_char, stream: aclrtStream
) {
    // SAFETY: the caller guarantees what the first form needs.
    let code = unsafe {
        aclopCompileAndExecute(
            name, inputs, input_descriptions.cast_const().cast(), input_data.cast_const().cast(), outputs,
            output_descriptions.cast_const().cast(), output_data.cast_const(), own, engine, kind, path, stream,
        )
    };
    ensure!(code == ACL_SUCCESS, code; "the first form of the call says why");
    Ok(())
});
